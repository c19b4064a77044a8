//! What dies in the middle of a turn, and what is left: fronts, executors, runners, leases, and Claude Code itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use gatehouse::chatgpt::{Brain, Call, Start, fresh_id};
use gatehouse_proto::v1::{GetSessionRequest, ListActionsRequest, ListSessionsRequest, SessionStatus};
use gatehouse_tests::places::Project;
use gatehouse_tests::waiting::until;
use gatehouse_tests::{Gateway, Setup, claude, processes, transcripts};
use nix::sys::signal::Signal;
use serde_json::json;

fn read(project: &Project) -> Call {
    Call::new("Read", json!({"file_path": format!("{}/README.md", project.text())}))
}

async fn started(setup: &str) -> Option<(Gateway, Project, Brain)> {
    let mut gateway = Gateway::start(Setup::with_claude(claude()?).config(setup)).await;
    let project = Project::small();
    let brain = gateway.session(&Start::new("Hello.", project.text())).await;
    Some((gateway, project, brain))
}

async fn gone(pid: u32) {
    until("the process is gone", async || (!processes::is_alive(pid)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_that_dies_in_the_middle_of_a_wait_loses_nothing() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    let start = Start::new("Hello.", project.text());
    let (client, arguments) = (gateway.client(), start.arguments());
    let waiting = tokio::spawn(async move { client.call("native_session_start", arguments).await });
    // The session is there, its first turn is not: the call waits for Claude Code to come up.
    until("the session is there", async || {
        let request = ListSessionsRequest { live_only: true, limit: 0, after: None };
        gateway.operator().list_sessions(request).await.unwrap().into_inner().sessions.pop()
    })
    .await;
    gateway.kill_front();
    assert!(waiting.await.unwrap().is_err(), "the wait broke with its front");
    gateway.start_front().await;
    let mut brain = Brain::start(gateway.client(), &start).await.unwrap();
    assert!(brain.state().replay(), "the same id again is the same session");
    brain.settle().await.unwrap();
    gateway.learn(&brain);

    let arguments = brain.reply_arguments(None, &[read(&project)]);
    let (client, sent) = (gateway.client(), arguments.clone());
    let waiting = tokio::spawn(async move { client.call("native_session_reply_and_wait", sent).await });
    gateway.kill_front();
    // Whether the answer was faster than the kill does not matter.
    drop(waiting.await.unwrap());
    gateway.start_front().await;
    brain.use_client(gateway.client());
    gateway.client().call("native_session_reply_and_wait", arguments).await.unwrap();
    assert!(brain.until(|state| state.tool_results().len() == 1).await.unwrap().tool_results()[0].ok);
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_survives_any_number_of_executors() {
    let Some((mut gateway, project, mut brain)) = started("").await else { return };
    let turn = brain.turn_id().to_owned();
    let process = processes::claude_of(brain.state().claude_session_id()).unwrap();
    for round in 0..3 {
        if round == 1 {
            gateway.end_executor();
        } else {
            gateway.kill_executor();
        }
        gateway.start_executor().await;
        let state = brain.until(|state| state.0["current_run"]["attachment"] == "attached").await.unwrap();
        assert_eq!((state.status(), state.turn_id()), ("waiting_for_gpt", Some(turn.as_str())));
        assert_eq!(state.0["pending_turn"]["ordinal"], 1, "no second turn was opened");
    }
    let results = brain.act(None, &[read(&project)]).await.unwrap().tool_results();
    assert!(results.len() == 1 && results[0].ok, "{results:?}");
    assert_eq!(processes::claude_of(brain.state().claude_session_id()), Some(process));
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_shim_was_killed_is_gone_and_the_next_one_goes_on() {
    let Some((mut gateway, project, mut brain)) = started("").await else { return };
    brain.act(None, &[read(&project)]).await.unwrap();
    let session = brain.state().claude_session_id().to_owned();
    let process = processes::claude_of(&session).unwrap();
    let late = brain.reply_arguments(Some("Too late."), &[]);
    until("Claude Code has written its prompt down", async || {
        transcripts::has_begun(&gateway.state_dir(), &session).then_some(())
    })
    .await;
    for shim in processes::shims_of(&gateway.runtime_dir()) {
        processes::signal(shim, Signal::SIGKILL);
    }
    gone(process).await;
    let state = brain.until(|state| state.status() == "idle").await.unwrap();
    assert_eq!(state.0["last_result"]["ok"], false, "{}", state.0);
    assert!(state.turn_id().is_none() && state.0["runtime_attached"] == false);
    let error = gateway.client().call("native_session_reply_and_wait", late).await.unwrap_err();
    assert_eq!(error.code(), Some("runner_gone"), "{error}");

    let state = brain.go_on("Where were we?").await.unwrap();
    assert_eq!((state.status(), state.claude_session_id()), ("waiting_for_gpt", session.as_str()));
    assert_eq!(state.0["pending_turn"]["kind"], "resumed", "{}", state.0);
    let unreported = state.unreported();
    assert_eq!(unreported.len(), 1, "the read that no answered turn showed is told: {}", state.0);
    assert!(unreported[0].ok && unreported[0].receipt["content"].is_string());
    gateway.learn(&brain);
    brain.finish("Here.").await.unwrap();
    let texts = transcripts::user_texts(&gateway.state_dir(), &session);
    assert!(
        texts.iter().any(|text| text.ends_with("Hello.")) && texts.iter().any(|text| text.ends_with("we?"))
    );
    let request = ListActionsRequest {
        native_session_id: brain.session_id().to_owned(),
        ..ListActionsRequest::default()
    };
    let actions = gateway.operator().list_actions(request).await.unwrap().into_inner().actions;
    assert_eq!(actions.len(), 1, "the finished action was not run again");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claude_code_that_was_killed_ends_its_run() {
    let Some((gateway, _project, mut brain)) = started("").await else { return };
    let process = processes::claude_of(brain.state().claude_session_id()).unwrap();
    processes::signal(process, Signal::SIGKILL);
    let state = brain.until(|state| state.turn_id().is_none()).await.unwrap();
    assert_eq!((state.status(), &state.0["last_result"]["ok"]), ("idle", &json!(false)), "{}", state.0);
    let state = brain.go_on("Again.").await.unwrap();
    assert!(state.turn_id().is_some(), "{}", state.0);
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_died_while_the_executor_was_away_is_not_pretended_to_live() {
    let Some((mut gateway, _project, mut brain)) = started("").await else { return };
    let process = processes::claude_of(brain.state().claude_session_id()).unwrap();
    gateway.kill_executor();
    for shim in processes::shims_of(&gateway.runtime_dir()) {
        processes::signal(shim, Signal::SIGKILL);
    }
    gone(process).await;
    gateway.start_executor().await;
    let state = brain.recover().await.unwrap();
    assert_eq!(state.0["runtime_attached"], false, "{}", state.0);
    let state = brain.until(|state| state.status() == "idle").await.unwrap();
    assert_eq!(state.0["last_result"]["ok"], false);
    let state = brain.go_on("Again.").await.unwrap();
    assert!(state.turn_id().is_some(), "{}", state.0);
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_ends_the_process_and_keeps_the_session_to_be_looked_at() {
    let Some((gateway, _project, mut brain)) = started("").await else { return };
    let process = processes::claude_of(brain.state().claude_session_id()).unwrap();
    let late = brain.reply_arguments(Some("Too late."), &[]);
    brain.stop("enough").await.unwrap();
    brain.until(|state| state.status() == "stopped").await.unwrap();
    gone(process).await;
    assert!(processes::shims_of(&gateway.runtime_dir()).is_empty());
    let client = gateway.client();
    let error = client.call("native_session_reply_and_wait", late).await.unwrap_err();
    assert_eq!(error.code(), Some("session_stopped"), "{error}");
    let more = brain.with_ids(json!({"prompt": "More?", "idempotency_key": fresh_id()}));
    let error = client.call("native_session_continue", more).await.unwrap_err();
    assert_eq!(error.code(), Some("session_stopped"), "{error}");
    assert_eq!(brain.status(0).await.unwrap().0["stop_request"]["reason"], "enough");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_runs_out_ends_the_process_and_recover_brings_the_session_back() {
    let Some((gateway, _project, mut brain)) = started("[limits]\nlease_seconds = 60").await else { return };
    let process = processes::claude_of(brain.state().claude_session_id()).unwrap();
    let late = brain.reply_arguments(Some("Too late."), &[]);
    // Asking ChatGPT's way would renew the lease; the operator only looks.
    let mut operator = gateway.operator();
    let request = GetSessionRequest { native_session_id: brain.session_id().to_owned() };
    let expired = async {
        loop {
            let session = operator.get_session(request.clone()).await.unwrap().into_inner().session.unwrap();
            if session.status() == SessionStatus::LeaseExpired {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(90), expired)
        .await
        .expect("the lease runs out after 60 s");
    gone(process).await;
    let client = gateway.client();
    let error = client.call("native_session_reply_and_wait", late).await.unwrap_err();
    assert_eq!(error.code(), Some("lease_expired"), "{error}");
    assert_eq!(brain.status(0).await.unwrap().status(), "lease_expired", "the last lease may still look");
    let state = brain.recover().await.unwrap();
    assert_eq!((state.status(), state.turn_id()), ("idle", None), "{}", state.0);
    let state = brain.go_on("Again.").await.unwrap();
    assert!(state.turn_id().is_some(), "{}", state.0);
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_live_sessions_than_configured_are_refused_until_one_stops() {
    let Some((gateway, project, mut brain)) = started("[limits]\nlive_sessions = 1").await else { return };
    let client = gateway.client();
    let error = Brain::start(client.clone(), &Start::new("One more.", project.text())).await.unwrap_err();
    assert_eq!(error.code(), Some("capacity"), "{error}");
    brain.stop("making room").await.unwrap();
    brain.until(|state| state.status() == "stopped").await.unwrap();
    let mut next = Brain::start(client, &Start::new("One more.", project.text())).await.unwrap();
    next.settle().await.unwrap();
    next.finish("Fine.").await.unwrap();
    gateway.finish().await;
}
