//! What the tools refuse, over the real front and the real executor, each with its exact code.
//!
//! The front's own tests cover what needs no executor: methods, foreign tools, malformed messages, HTTP.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use gatehouse::chatgpt::{Brain, Call, Client, ClientError, Start, fresh_id};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude, raw};
use serde_json::{Value, json};

const TOOLS: [&str; 6] = [
    "native_session_start",
    "native_session_continue",
    "native_session_recover",
    "native_session_reply_and_wait",
    "native_session_status",
    "native_session_stop",
];

/// Good arguments for each tool, of a session that does not exist.
fn arguments(tool: &str) -> Value {
    let (session, lease) = (format!("ns_{}", "0".repeat(32)), format!("lease_{}", "0".repeat(32)));
    match tool {
        "native_session_start" => Start::new("Hello.", "/").arguments(),
        "native_session_continue" => {
            json!({"native_session_id": session, "lease_id": lease, "prompt": "Go on.", "idempotency_key": fresh_id()})
        }
        "native_session_recover" => {
            let token = format!("rt_{}", "0".repeat(64));
            json!({"native_session_id": session, "recovery_token": token, "recovery_id": fresh_id()})
        }
        "native_session_reply_and_wait" => {
            let turn = format!("turn_{}", "0".repeat(32));
            json!({"native_session_id": session, "lease_id": lease, "turn_id": turn, "reply_id": fresh_id(), "text": "x"})
        }
        "native_session_status" => json!({"native_session_id": session, "lease_id": lease}),
        _ => json!({"native_session_id": session, "lease_id": lease, "request_id": fresh_id()}),
    }
}

fn with(mut arguments: Value, field: &str, value: Value) -> Value {
    arguments[field] = value;
    arguments
}

fn without(mut arguments: Value, field: &str) -> Value {
    arguments.as_object_mut().unwrap().remove(field).expect("the field is there");
    arguments
}

/// The tool error that the call must meet.
async fn refusal(client: &Client, tool: &str, arguments: Value) -> gatehouse::chatgpt::ToolError {
    match client.call(tool, arguments.clone()).await {
        Err(ClientError::Tool(error)) => *error,
        other => panic!("{tool} {arguments}: {other:?}"),
    }
}

async fn refused_with(client: &Client, code: &str, tool: &str, arguments: Value) {
    let shown: String = arguments.to_string().chars().take(200).collect();
    let error = refusal(client, tool, arguments).await;
    assert_eq!(error.code, code, "{tool} {shown}: {error}");
    assert!(!error.message.is_empty() && !error.what_to_do.is_empty(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_names_a_model_a_provider_an_endpoint_a_key_or_a_fallback() {
    let gateway = Gateway::start(Setup::without_claude()).await;
    let client = gateway.client();
    for tool in TOOLS {
        for field in
            ["model", "provider", "endpoint", "api_key", "fallback", "base_url", "temperature", "Prompt"]
        {
            let error = refusal(&client, tool, with(arguments(tool), field, json!("x"))).await;
            assert_eq!(error.code, "invalid_argument", "{tool} {field}: {error}");
            assert!(format!("{error:?}").contains(field), "{tool}: the field {field} is named: {error:?}");
        }
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_are_refused() {
    let gateway = Gateway::start(Setup::without_claude()).await;
    let client = gateway.client();
    let start = "native_session_start";
    let skill = json!({"skill_id": "personal:review", "content": "x"});
    let bad = [
        ("prompt", json!(7)),
        ("prompt", json!("")),
        ("idempotency_key", json!("too-short")),
        ("idempotency_key", json!("x".repeat(201))),
        ("idempotency_key", json!("sixteen-but-\n-broken")),
        ("capability_profile", json!("root")),
        ("capability_profile", json!("READ_ONLY")),
        ("subagent_policy", json!("always")),
        ("skill_contexts", json!("personal:review")),
        ("skill_contexts", json!(vec![skill; 9])),
        ("session_label", json!("x".repeat(81))),
        ("wait_seconds", json!(51)),
        ("wait_seconds", json!(-1)),
        ("wait_seconds", json!(1.5)),
        ("wait_seconds", json!("30")),
    ];
    for (field, value) in bad {
        refused_with(&client, "invalid_argument", start, with(arguments(start), field, value)).await;
    }
    for tool in TOOLS {
        let all = arguments(tool);
        let required =
            ["native_session_id", "lease_id", "prompt", "working_directory", "idempotency_key", "turn_id"];
        for field in required.into_iter().filter(|field| all.get(field).is_some()) {
            refused_with(&client, "invalid_argument", tool, without(all.clone(), field)).await;
        }
    }
    let reply = "native_session_reply_and_wait";
    let call = json!({"name": "Read", "input": {"file_path": "/etc/hostname"}});
    for calls in
        [json!(vec![call; 17]), json!([{"name": "Read"}]), json!([{"input": {}}]), json!({}), json!([7])]
    {
        refused_with(&client, "invalid_argument", reply, with(arguments(reply), "tool_calls", calls)).await;
    }
    refused_with(&client, "invalid_argument", reply, with(arguments(reply), "text", json!("  \n "))).await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_refused_without_a_session_is_refused_before_anything_starts() {
    let gateway = Gateway::start(Setup::without_claude()).await;
    let client = gateway.client();
    let project = Project::small();
    let start = "native_session_start";
    for tool in TOOLS.into_iter().skip(1) {
        refused_with(&client, "unknown_session", tool, arguments(tool)).await;
    }
    let file = format!("{}/README.md", project.text());
    for directory in
        ["/no/such/directory", "relative/path", "/with\0nul", &file, "/proc/self", "/sys", "/dev/null"]
    {
        let asked = with(arguments(start), "working_directory", json!(directory));
        refused_with(&client, "working_directory_invalid", start, asked).await;
    }
    let skill = json!([{"skill_id": "personal:review", "content": "Review."}]);
    refused_with(&client, "skill_not_allowed", start, with(arguments(start), "skill_contexts", skill)).await;
    for profile in ["direct_write", "worktree_write"] {
        // The whole computer can be read, and never written; nor does it make a worktree.
        let asked = with(arguments(start), "capability_profile", json!(profile));
        refused_with(&client, "working_directory_invalid", start, asked).await;
    }
    let asked = with(arguments(start), "subagent_policy", json!("deepseek_explicit"));
    let error = refusal(&client, start, asked).await;
    assert!(matches!(error.code.as_str(), "profile_forbids" | "invalid_argument"), "{error}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claude_code_that_is_not_there_is_a_launch_error_with_a_way_out() {
    let setup = Setup::with_claude("/nonexistent/claude".into());
    let gateway = Gateway::start(setup).await;
    let project = Project::small();
    let mut brain = Brain::start(gateway.client(), &Start::new("Hello.", project.text())).await.unwrap();
    let state = brain.settle().await.unwrap();
    assert_eq!(state.status(), "failed", "{}", state.0);
    let error = &state.0["launch_error"];
    assert_eq!(error["code"], "claude_not_found", "{error}");
    assert!(
        !error["message"].as_str().unwrap().is_empty() && !error["what_to_do"].as_str().unwrap().is_empty()
    );
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_is_away_is_said_to_be_away() {
    let mut gateway = Gateway::start(Setup::without_claude()).await;
    gateway.kill_executor();
    let client = gateway.client();
    for tool in TOOLS {
        let error = refusal(&client, tool, arguments(tool)).await;
        assert_eq!((error.code.as_str(), error.retryable), ("executor_unavailable", true), "{tool}");
    }
    let request = gateway
        .endpoint()
        .request(http::Method::GET, "/readyz")
        .body(http_body_util::Full::default())
        .unwrap();
    assert_eq!(raw::exchange(&gateway.endpoint(), request).await.status, 503);
    gateway.start_executor().await;
    refused_with(&client, "unknown_session", TOOLS[4], arguments(TOOLS[4])).await;
    gateway.finish().await;
}

/// A live session with a pending turn.
async fn session() -> Option<(Gateway, Project, Brain)> {
    let mut gateway = Gateway::start(Setup::with_claude(claude()?)).await;
    let project = Project::small();
    let brain = gateway.session(&Start::new("Hello.", project.text())).await;
    Some((gateway, project, brain))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_reply_uses_nothing_up() {
    let Some((gateway, project, mut brain)) = session().await else { return };
    let client: Arc<Client> = gateway.client();
    let tool = "native_session_reply_and_wait";
    let file = format!("{}/README.md", project.text());
    let reply = brain.reply_arguments(None, &[Call::new("Read", json!({"file_path": file}))]);
    let calls = |calls: Value| with(reply.clone(), "tool_calls", calls);
    let one = |name: &str, input: Value| calls(json!([{"name": name, "input": input}]));
    let table = [
        ("turn_mismatch", with(reply.clone(), "turn_id", json!(format!("turn_{}", "a".repeat(32))))),
        ("lease_mismatch", with(reply.clone(), "lease_id", json!(format!("lease_{}", "a".repeat(32))))),
        ("tool_not_allowed", one("Bash", json!({"command": "ls"}))),
        ("tool_not_allowed", one("read", json!({"file_path": file}))),
        ("tool_not_allowed", one("mcp__gatehouse__Read", json!({"file_path": file}))),
        ("tool_input_invalid", one("Read", json!({}))),
        ("tool_input_invalid", one("Read", json!({"file_path": 7}))),
        ("tool_input_invalid", one("Read", json!({"file_path": file, "encoding": "latin1"}))),
        ("tool_input_invalid", one("SearchText", json!({"text": ""}))),
        ("reply_too_large", with(reply.clone(), "text", json!("x".repeat(768 * 1024)))),
    ];
    for (code, arguments) in table {
        refused_with(&client, code, tool, arguments).await;
    }
    let error = refusal(
        &client,
        tool,
        calls(json!([
        {"name": "Read", "input": {"file_path": file}}, {"name": "Bash", "input": {}}, {"name": "Nope", "input": {}}])),
    );
    let details = Value::Object(error.await.details).to_string();
    assert!(details.contains("Bash") && details.contains("Nope"), "every call at fault is named: {details}");

    // Neither the turn nor the reply's id is used up by all that.
    assert!(!client.call(tool, reply.clone()).await.unwrap().replay());
    assert!(brain.until(|state| state.tool_results().len() == 1).await.unwrap().tool_results()[0].ok);
    refused_with(&client, "turn_already_answered", tool, with(reply, "reply_id", json!(fresh_id()))).await;
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_session_does_not_go_on_and_wrong_recovery_tokens_are_counted() {
    let Some((gateway, _project, mut brain)) = session().await else { return };
    let client = gateway.client();
    let more = brain.with_ids(json!({"prompt": "More.", "idempotency_key": fresh_id()}));
    refused_with(&client, "session_busy", "native_session_continue", more).await;

    let tool = "native_session_recover";
    let wrong = || {
        let token = format!("rt_{}", "0".repeat(64));
        json!({"native_session_id": brain.session_id(), "recovery_token": token, "recovery_id": fresh_id()})
    };
    for _ in 0..10 {
        refused_with(&client, "recovery_denied", tool, wrong()).await;
    }
    let right = json!({"native_session_id": brain.session_id(), "recovery_token": brain.recovery_token(),
        "recovery_id": fresh_id()});
    let error = refusal(&client, tool, right).await;
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("recovery_denied", true),
        "ten wrong ones lock: {error}"
    );
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}
