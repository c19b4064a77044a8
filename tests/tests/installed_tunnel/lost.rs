//! Deadlines: the tunnel closes the connection and drops the answer. The work is done all the same, once.

use std::time::Duration;

use gatehouse::chatgpt::Start;
use gatehouse_tests::places::Project;
use gatehouse_tests::tunnel::End;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::{Value, json};

use super::{Tunnel, ids, reply, state, tcp_profile};

/// Too short for Claude Code to come back with the next turn, and long enough for the call to get to the front.
const SHORT: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread")]
async fn calls_whose_answers_are_dropped_have_one_effect_and_are_answered_when_asked_again() {
    let Some(claude) = claude() else { return };
    let gateway = Gateway::start(Setup::with_claude(claude)).await;
    let tunnel = Tunnel::start(&gateway, &tcp_profile(&gateway)).await;
    let project = Project::small();
    let start = Start { profile: "direct_write", ..Start::new("Write a file.", project.text()) };

    let again = lost_then_again(&tunnel, "native_session_start", &start.arguments()).await;
    assert!(again["recovery_token"].is_string(), "the answer that was lost, whole");
    let first = tunnel.settle(again).await;

    let write = json!([{"name": "Write", "input": {"file_path": project.path().join("new.txt"), "content": "one\n", "create_only": true}}]);
    let answer = reply(&first, "reply-1", json!({"tool_calls": write}));
    let second =
        tunnel.settle(lost_then_again(&tunnel, "native_session_reply_and_wait", &answer).await).await;
    let results = second["pending_turn"]["tool_results"].as_array().unwrap();
    assert_eq!(results.len(), 1, "{second}");
    assert_eq!(results[0]["ok"], true, "written once; a second try would have failed: {}", results[0]);
    assert_eq!(std::fs::read_to_string(project.path().join("new.txt")).unwrap(), "one\n");

    let other = reply(&first, "reply-1", json!({"text": "something else"}));
    let posted = tunnel.send("native_session_reply_and_wait", &other).answer().await;
    let words = posted.json["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(words.contains("idempotency_conflict"), "{words}");

    let end = reply(&second, "reply-2", json!({"text": "Done."}));
    let idle = tunnel.settle(lost_then_again(&tunnel, "native_session_reply_and_wait", &end).await).await;
    assert_eq!((&idle["status"], &idle["last_result"]["actions"]), (&json!("idle"), &json!(1)), "{idle}");
    gateway.finish().await;
}

/// Makes a call whose deadline passes before the answer is there, and then the same call again. Whether the answer was in
/// time is not up to the test: what counts is that the second call is a replay either way.
async fn lost_then_again(tunnel: &Tunnel, tool: &str, arguments: &Value) -> Value {
    let ticket = tunnel.control.send(tunnel.call(tool, arguments).within(SHORT));
    if tunnel.client.end_of(&ticket.request_id).await == End::Dropped {
        assert!(!ticket.is_answered(), "nothing is posted after the deadline");
    }
    let again = tunnel.state(tool, arguments).await;
    assert_eq!(again["replay"], true, "{tool}: the first call was carried out: {again}");
    again
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_dropped_frees_its_place_and_changes_nothing() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let tunnel = Tunnel::start(&gateway, &tcp_profile(&gateway)).await;
    let project = Project::small();
    let busy = tunnel.busy_session(&mut gateway, &project).await;
    let poll = ids(&busy, json!({"wait_seconds": 50}));
    for _ in 0..3 {
        let call = tunnel.call("native_session_status", &poll).within(SHORT);
        let ticket = tunnel.control.send(call);
        assert_eq!(tunnel.client.end_of(&ticket.request_id).await, End::Dropped);
    }
    let now = state(&tunnel.send("native_session_status", &ids(&busy, json!({}))).answer().await);
    assert_eq!((&now["status"], &now["revision"]), (&busy["status"], &busy["revision"]));
    gatehouse_tests::waiting::until("no call waits any more", async || {
        super::waiting(&gateway).await.filter(|&count| count == 0)
    })
    .await;
    assert_eq!(tunnel.stop(&busy).await["status"], "stopped");
    gateway.finish().await;
}
