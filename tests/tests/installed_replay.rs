//! Every call that changes something, sent twice at the same instant over two connections, and once more after
//! everything was killed and started again: one effect. The same id with other content is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use gatehouse::chatgpt::{Brain, Call, ClientError, Start, State, fresh_id};
use gatehouse_proto::v1::{ListActionsRequest, ListSessionsRequest};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::{Value, json};

/// The same call at the same instant over two connections.
async fn twins(gateway: &Gateway, tool: &str, arguments: &Value) -> [Result<State, ClientError>; 2] {
    let (one, other) = (gateway.client(), gateway.client());
    let (one, other) = tokio::join!(one.call(tool, arguments.clone()), other.call(tool, arguments.clone()));
    [one, other]
}

/// Twins that both get through: exactly one of them is the call, the other its replay. Returns the call's state.
async fn one_effect(gateway: &Gateway, tool: &str, arguments: &Value) -> State {
    let [one, other] = twins(gateway, tool, arguments).await.map(Result::unwrap);
    assert_ne!(one.replay(), other.replay(), "{tool}: one call and one replay\n{}\n{}", one.0, other.0);
    assert_eq!(one.session_id(), other.session_id(), "{tool}");
    assert_eq!(one.lease_id(), other.lease_id(), "{tool}: the lease that this very call carried or minted");
    if one.replay() { other } else { one }
}

async fn again(gateway: &Gateway, tool: &str, arguments: &Value) -> Result<State, ClientError> {
    gateway.client().call(tool, arguments.clone()).await
}

/// The same id with other content.
async fn refused_with_other_content(
    gateway: &Gateway,
    tool: &str,
    arguments: &Value,
    field: &str,
    other: Value,
) {
    let mut changed = arguments.clone();
    changed[field] = other;
    let error = again(gateway, tool, &changed).await.unwrap_err();
    assert_eq!(error.code(), Some("idempotency_conflict"), "{tool} with another {field}: {error}");
}

async fn sessions(gateway: &Gateway) -> usize {
    let request = ListSessionsRequest { live_only: false, limit: 0, after: None };
    gateway.operator().list_sessions(request).await.unwrap().into_inner().sessions.len()
}

async fn actions(gateway: &Gateway, session: &str) -> usize {
    let request =
        ListActionsRequest { native_session_id: session.to_owned(), ..ListActionsRequest::default() };
    gateway.operator().list_actions(request).await.unwrap().into_inner().actions.len()
}

async fn with_gateway() -> Option<(Gateway, Project)> {
    Some((Gateway::start(Setup::with_claude(claude()?)).await, Project::small()))
}

#[tokio::test(flavor = "multi_thread")]
async fn start_makes_one_session() {
    let Some((mut gateway, project)) = with_gateway().await else { return };
    let tool = "native_session_start";
    let arguments = Start { wait_seconds: 0, ..Start::new("Hello.", project.text()) }.arguments();
    let first = one_effect(&gateway, tool, &arguments).await;
    assert_eq!(sessions(&gateway).await, 1);
    let token = first.recovery_token().unwrap().to_owned();

    refused_with_other_content(&gateway, tool, &arguments, "prompt", json!("Something else.")).await;
    refused_with_other_content(&gateway, tool, &arguments, "working_directory", json!("/")).await;
    gateway.restart_everything().await;
    let replay = again(&gateway, tool, &arguments).await.unwrap();
    assert!(
        replay.replay() && replay.session_id() == first.session_id() && replay.lease_id() == first.lease_id()
    );
    assert_eq!(replay.recovery_token(), Some(token.as_str()), "a replay of start gives the token again");
    assert_eq!(sessions(&gateway).await, 1);

    // Once the lease is rotated, the replay may not give out the new one, which another call minted.
    let recover =
        json!({"native_session_id": first.session_id(), "recovery_token": token, "recovery_id": fresh_id()});
    let recovered = again(&gateway, "native_session_recover", &recover).await.unwrap();
    assert_ne!(recovered.lease_id(), first.lease_id());
    let error = again(&gateway, tool, &arguments).await.unwrap_err();
    assert_eq!(error.code(), Some("lease_mismatch"), "{error}");
    assert!(!error.to_string().contains(recovered.lease_id()));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_authorises_its_calls_once() {
    let Some((mut gateway, project)) = with_gateway().await else { return };
    let mut brain = gateway.session(&Start::new("Hello.", project.text())).await;
    let tool = "native_session_reply_and_wait";
    let calls = [
        Call::new("Read", json!({"file_path": format!("{}/README.md", project.text())})),
        Call::new("Read", json!({"file_path": format!("{}/src/main.txt", project.text())})),
    ];
    let arguments = brain.reply_arguments(Some("I look."), &calls);
    one_effect(&gateway, tool, &arguments).await;
    let shown = brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
    assert_eq!(shown.tool_results().len(), 2);
    assert_eq!(actions(&gateway, brain.session_id()).await, 2);

    refused_with_other_content(&gateway, tool, &arguments, "text", json!("I look elsewhere.")).await;
    let mut second = arguments.clone();
    second["reply_id"] = json!(fresh_id());
    let error = again(&gateway, tool, &second).await.unwrap_err();
    assert_eq!(error.code(), Some("turn_already_answered"), "{error}");
    gateway.restart_everything().await;
    let replay = again(&gateway, tool, &arguments).await.unwrap();
    assert!(replay.replay(), "{}", replay.0);
    assert_eq!(actions(&gateway, brain.session_id()).await, 2, "no action was authorised again");
    brain.use_client(gateway.client());
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn continue_starts_one_run() {
    let Some((mut gateway, project)) = with_gateway().await else { return };
    let mut brain = gateway.session(&Start::new("Hello.", project.text())).await;
    brain.finish("Done.").await.unwrap();
    let tool = "native_session_continue";
    let arguments =
        brain.with_ids(json!({"prompt": "Go on.", "idempotency_key": fresh_id(), "wait_seconds": 0}));
    one_effect(&gateway, tool, &arguments).await;
    let state = brain.until(|state| state.turn_id().is_some()).await.unwrap();
    assert_eq!(state.0["current_run"]["ordinal"], 2);

    refused_with_other_content(&gateway, tool, &arguments, "prompt", json!("Go elsewhere.")).await;
    gateway.restart_everything().await;
    let replay = again(&gateway, tool, &arguments).await.unwrap();
    assert!(replay.replay() && replay.0["current_run"]["ordinal"] == 2, "{}", replay.0);
    brain.use_client(gateway.client());
    brain.finish("Done again.").await.unwrap();
    let late = again(&gateway, tool, &arguments).await.unwrap();
    assert!(late.replay() && late.status() == "idle", "a late replay starts nothing: {}", late.0);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recover_rotates_the_lease_once() {
    let Some((mut gateway, project)) = with_gateway().await else { return };
    let brain = gateway.session(&Start::new("Hello.", project.text())).await;
    let tool = "native_session_recover";
    let recover = |id: &str| json!({"native_session_id": brain.session_id(), "recovery_token": brain.recovery_token(), "recovery_id": id});
    let arguments = recover(&fresh_id());
    let recovered = one_effect(&gateway, tool, &arguments).await;
    assert_ne!(recovered.lease_id(), brain.lease_id());
    gateway.restart_everything().await;
    let replay = again(&gateway, tool, &arguments).await.unwrap();
    assert!(replay.replay() && replay.lease_id() == recovered.lease_id());

    let later = again(&gateway, tool, &recover(&fresh_id())).await.unwrap();
    assert!(!later.replay() && later.lease_id() != recovered.lease_id());
    let error = again(&gateway, tool, &arguments).await.unwrap_err();
    assert_eq!(error.code(), Some("lease_mismatch"), "the first recover's lease is rotated by now: {error}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_ends_a_session_once() {
    let Some((mut gateway, project)) = with_gateway().await else { return };
    let mut brain = gateway.session(&Start::new("Hello.", project.text())).await;
    let tool = "native_session_stop";
    let arguments = brain.with_ids(json!({"request_id": fresh_id(), "reason": "enough"}));
    one_effect(&gateway, tool, &arguments).await;
    assert_eq!(
        brain.until(|state| state.status() == "stopped").await.unwrap().0["terminal"]["status"],
        "stopped"
    );
    refused_with_other_content(&gateway, tool, &arguments, "reason", json!("another reason")).await;
    gateway.restart_everything().await;
    let replay = again(&gateway, tool, &arguments).await.unwrap();
    assert!(replay.replay() && replay.status() == "stopped", "{}", replay.0);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_tells_nothing_about_the_other_session() {
    let Some((mut gateway, project)) = with_gateway().await else { return };
    let start = Start::new("A prompt that nobody else may see.", project.text());
    let brain: Brain = gateway.session(&start).await;
    let mut other = Start::new("Another prompt.", "/").arguments();
    other["idempotency_key"] = json!(start.idempotency_key);
    let error = again(&gateway, "native_session_start", &other).await.unwrap_err();
    let ClientError::Tool(refused) = &error else { panic!("{error}") };
    let text = format!("{refused:?}");
    for secret in [brain.session_id(), brain.lease_id(), &start.prompt, &start.working_directory] {
        assert!(!text.contains(secret), "{text}");
    }
    gateway.finish().await;
}
