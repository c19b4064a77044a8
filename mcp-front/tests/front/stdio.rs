//! One client on pipes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gatehouse_proto::v1::SessionStatus;
use mcp_front::executor::Call;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::client::{MODERN, initialize, modern, refusal, request, tool};
use crate::executor::{Answer, Executor, session};
use crate::process::StdioFront;

fn with_id(mut message: Value, id: Value) -> String {
    message["id"] = id;
    message.to_string()
}

fn status(wait: u32) -> Value {
    tool(
        "native_session_status",
        json!({"native_session_id": "ns_1", "lease_id": "lease_1", "wait_seconds": wait}),
    )
}

#[test]
fn a_client_of_either_era_is_served_with_or_without_a_handshake() {
    let mut front = StdioFront::start(&[]);
    assert_eq!(front.ask(&request("ping", json!({})).to_string())["result"], json!({}));
    let discovered = front.ask(&modern("server/discover", json!({})).to_string());
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2025-06-18", "2025-11-25", MODERN]));
    assert_eq!(front.ask(&initialize("2025-06-18").to_string())["result"]["protocolVersion"], "2025-06-18");
    front.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let listed = front.ask(&request("tools/list", json!({})).to_string());
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 6);
    assert_eq!(front.ask(&initialize("2025-11-25").to_string())["result"]["protocolVersion"], "2025-11-25");
    let (rest, code) = front.end();
    assert_eq!((rest.as_str(), code), ("", Some(0)));
}

#[test]
fn an_input_that_ends_at_once_is_no_failure() {
    let (rest, code) = StdioFront::start(&[]).end();
    assert_eq!((rest.as_str(), code), ("", Some(0)));
}

#[test]
fn lines_are_refused_in_the_same_words_as_over_http() {
    let mut front = StdioFront::start(&[]);
    let long = tool("native_session_start", json!({"prompt": "x".repeat(6 * 1024 * 1024)})).to_string();
    let cases = [
        ("{", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":"t-1","method":"ping","params":[]}"#, -32600, json!("t-1")),
        (r#"{"jsonrpc":"2.0","id":"t-1","method":"resources/list"}"#, -32601, json!("t-1")),
        (
            r#"{"jsonrpc":"2.0","id":"t-1","method":"tools/call","params":{"name":"Bash"}}"#,
            -32602,
            json!("t-1"),
        ),
        (r#"{"jsonrpc":"2.0","id":"t-1","method":"tools/call","params":{}}"#, -32602, json!("t-1")),
        (r#"{"jsonrpc":"2.0","method":"tools/call"}"#, -32600, Value::Null),
        (long.as_str(), -32013, json!("t-1")),
    ];
    for (line, code, id) in cases {
        let said = front.ask(line);
        assert_eq!((&said["error"]["code"], &said["id"]), (&json!(code), &id), "{said}");
    }
    front.send("");
    assert_eq!(front.ask(&request("ping", json!({})).to_string())["result"], json!({}));
}

#[test]
fn calls_run_side_by_side_and_an_id_in_use_is_refused() {
    let mut front = StdioFront::start(&[]);
    let release = Arc::new(Notify::new());
    let held = release.clone();
    let _executor = Executor::start(&front.runtime_dir, move |call| match call {
        Call::Status(request) if request.wait_seconds != Some(0) => {
            Answer::Held(held.clone(), Box::new(session(SessionStatus::Running)))
        }
        _ => Answer::Reply(Box::new(session(SessionStatus::Idle))),
    });
    front.send(&with_id(status(20), json!("slow")));
    let twin = front.ask(&with_id(status(0), json!("slow")));
    assert_eq!((&twin["id"], &twin["error"]["code"]), (&json!("slow"), &json!(-32600)));
    let quick = front.ask(&with_id(status(0), json!(7)));
    assert_eq!((&quick["id"], &quick["result"]["structuredContent"]["status"]), (&json!(7), &json!("idle")));
    release.notify_one();
    let slow = front.receive();
    assert_eq!(
        (&slow["id"], &slow["result"]["structuredContent"]["status"]),
        (&json!("slow"), &json!("running"))
    );
    assert_eq!(front.ask(&with_id(status(0), json!("slow")))["result"]["isError"], false);
}

#[test]
fn waits_are_shorter_than_over_http() {
    let mut front = StdioFront::start(&[]);
    let executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
    front.ask(&status(50).to_string());
    let arguments = json!({"native_session_id": "ns_1", "lease_id": "lease_1", "turn_id": "t", "reply_id": "r", "text": "x"});
    front.ask(&tool("native_session_reply_and_wait", arguments).to_string());
    let waits: Vec<_> = executor.asked().iter().map(Call::wait).collect();
    assert_eq!(waits, [Duration::from_secs(20), Duration::from_secs(20)]);
}

#[test]
fn what_was_asked_before_the_input_ended_is_answered() {
    let mut front = StdioFront::start(&[]);
    let _executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
    front.send(&status(0).to_string());
    let (rest, code) = front.end();
    let answer: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!((&answer["result"]["structuredContent"]["status"], code), (&json!("idle"), Some(0)));
}

#[test]
fn a_signal_ends_it_and_those_who_wait_are_told() {
    let mut front = StdioFront::start(&[]);
    let executor = Executor::start(&front.runtime_dir, |_| {
        Answer::Held(Arc::new(Notify::new()), Box::new(session(SessionStatus::Running)))
    });
    front.send(&status(20).to_string());
    let began = Instant::now();
    while executor.asked().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    crate::process::signal(front.child.id(), nix::sys::signal::Signal::SIGTERM);
    assert_eq!(refusal(&front.receive()["result"])["code"], "executor_unavailable");
    assert_eq!(front.child.wait().unwrap().code(), Some(0));
}

#[test]
fn refusals_and_answers_that_come_close_together_are_all_written() {
    let mut front = StdioFront::start(&[]);
    let number: u64 = 500;
    for id in 0..number {
        front.send(&with_id(request(if id % 2 == 0 { "ping" } else { "none" }, json!({})), json!(id)));
    }
    let mut answered: Vec<_> = (0..number).map(|_| front.receive()["id"].as_u64().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..number).collect::<Vec<_>>());
}
