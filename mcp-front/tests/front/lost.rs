//! Clients that hang up, executors that go away, and calls that wait.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gatehouse_proto::v1::SessionStatus;
use mcp_front::executor::Call;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::client::{Ask, Reply, refusal, request, tool};
use crate::executor::{Answer, Executor, session};
use crate::process::HttpFront;

fn status(wait: u32) -> Value {
    tool(
        "native_session_status",
        json!({"native_session_id": "ns_1", "lease_id": "lease_1", "wait_seconds": wait}),
    )
}

fn stop() -> Value {
    tool(
        "native_session_stop",
        json!({"native_session_id": "ns_1", "lease_id": "lease_1", "request_id": "q"}),
    )
}

fn answered(status: SessionStatus) -> Answer {
    Answer::Reply(Box::new(session(status)))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends in a thread of its own.
fn in_background(front: &HttpFront, ask: &Ask) -> mpsc::Receiver<Reply> {
    let (stream, text) = (TcpStream::connect(front.authority()).unwrap(), ask.text());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(crate::client::exchange(stream, &text)));
    told
}

#[test]
fn without_an_executor_the_protocol_is_served_and_calls_say_so() {
    let front = HttpFront::start(&[]);
    assert_eq!(Ask::message(&request("tools/list", json!({}))).send(&front).status, 200);
    assert_eq!(Ask::get("/healthz").send(&front).status, 200);
    assert_eq!(Ask::get("/readyz").send(&front).status, 503);
    let said = refusal(&Ask::message(&status(0)).send(&front).json()["result"]);
    assert_eq!((&said["code"], &said["retryable"]), (&json!("executor_unavailable"), &json!(true)));
    assert!(said["what_to_do"].as_str().unwrap().contains("same ids"));
    assert!(!said.to_string().contains(front.runtime_dir.to_str().unwrap()));
}

#[test]
fn an_executor_that_comes_late_is_found() {
    let front = HttpFront::start(&[]);
    let reply = in_background(&front, &Ask::message(&status(0)));
    let _executor = Executor::start(&front.runtime_dir, |_| answered(SessionStatus::Idle));
    assert_eq!(reply.recv().unwrap().json()["result"]["structuredContent"]["status"], "idle");
    assert_eq!(Ask::get("/readyz").send(&front).status, 200);
}

#[test]
fn an_executor_that_restarts_in_the_middle_of_a_wait_is_asked_again_with_the_same_ids() {
    let front = HttpFront::start(&[]);
    let held = Arc::new(Notify::new());
    let first = Executor::start(&front.runtime_dir, move |_| {
        Answer::Held(held.clone(), Box::new(session(SessionStatus::Running)))
    });
    let arguments = json!({"native_session_id": "ns_1", "lease_id": "lease_1", "turn_id": "t", "reply_id": "r", "text": "x"});
    let reply = in_background(&front, &Ask::message(&tool("native_session_reply_and_wait", arguments)));
    until("the first executor is asked", || first.asked().len() == 1);
    let before = first.asked().remove(0);
    let runtime_dir = first.kill();
    let second = Executor::start(&runtime_dir, |_| answered(SessionStatus::WaitingForGpt));
    assert_eq!(reply.recv().unwrap().json()["result"]["structuredContent"]["status"], "waiting_for_gpt");
    let (Call::Reply(before), Call::Reply(after)) = (before, second.asked().remove(0)) else {
        panic!("not replies")
    };
    assert_eq!((before.reply_id, before.turn_id, before.text), (after.reply_id, after.turn_id, after.text));
    assert!(after.wait_seconds <= before.wait_seconds);
}

#[test]
fn a_client_that_hangs_up_does_not_take_its_reply_along() {
    let front = HttpFront::start(&[]);
    let go_on = Arc::new(Notify::new());
    let held = go_on.clone();
    let executor = Executor::start(&front.runtime_dir, move |call| match call {
        Call::Reply(_) => Answer::Held(held.clone(), Box::new(session(SessionStatus::Running))),
        _ => answered(SessionStatus::Idle),
    });
    let arguments = json!({"native_session_id": "ns_1", "lease_id": "lease_1", "turn_id": "t", "reply_id": "r", "text": "x"});
    let ask = Ask::message(&tool("native_session_reply_and_wait", arguments));
    let mut stream = TcpStream::connect(front.authority()).unwrap();
    stream.write_all(&ask.text()).unwrap();
    until("the executor is asked", || executor.asked().len() == 1);
    drop(stream);
    until("the front has seen it", || waiting(&front) == 0);
    go_on.notify_one();
    until("the call is carried to its end", || executor.finished() == 1);
}

/// The gauge of calls that wait.
fn waiting(front: &HttpFront) -> u32 {
    let text = Ask::get("/metrics").send(front).body;
    let line =
        text.lines().find(|line| line.starts_with("gatehouse_front_waiting_polls ")).unwrap().to_owned();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_client_that_hangs_up_frees_its_wait() {
    let front = HttpFront::start(&[]);
    let executor = Executor::start(&front.runtime_dir, |_| {
        Answer::Held(Arc::new(Notify::new()), Box::new(session(SessionStatus::Running)))
    });
    let mut stream = TcpStream::connect(front.authority()).unwrap();
    stream.write_all(&Ask::message(&status(50)).text()).unwrap();
    until("the executor is asked", || executor.asked().len() == 1);
    assert_eq!(waiting(&front), 1);
    drop(stream);
    until("the wait is free", || waiting(&front) == 0);
}

#[test]
fn when_all_waits_are_taken_calls_are_answered_at_once_and_none_starves() {
    let front = HttpFront::start(&["--max-waits", "2"]);
    let release = Arc::new(Notify::new());
    let held = release.clone();
    let executor = Executor::start(&front.runtime_dir, move |call| match call {
        Call::Status(request) if request.wait_seconds != Some(0) => {
            Answer::Held(held.clone(), Box::new(session(SessionStatus::Running)))
        }
        _ => answered(SessionStatus::Idle),
    });
    let waiting: Vec<_> = (0..2).map(|_| in_background(&front, &Ask::message(&status(40)))).collect();
    until("both wait", || executor.asked().len() == 2);
    let third = Ask::message(&status(40)).send(&front).json();
    assert_eq!(third["result"]["structuredContent"]["status"], "idle");
    assert_eq!(Ask::message(&status(0)).send(&front).json()["result"]["structuredContent"]["status"], "idle");
    assert_eq!(Ask::message(&stop()).send(&front).json()["result"]["structuredContent"]["status"], "idle");
    let waits: Vec<_> = executor
        .asked()
        .iter()
        .map(|call| match call {
            Call::Status(request) => request.wait_seconds,
            _ => None,
        })
        .collect();
    assert_eq!(waits, [Some(40), Some(40), Some(0), Some(0), None]);
    // Each notification releases one of the two; a permit is kept for one that is not there yet.
    release.notify_waiters();
    for reply in waiting {
        release.notify_one();
        assert_eq!(reply.recv().unwrap().json()["result"]["structuredContent"]["status"], "running");
    }
}

#[test]
fn a_front_that_ends_answers_those_who_wait() {
    let front = HttpFront::start(&[]);
    let executor = Executor::start(&front.runtime_dir, |_| {
        Answer::Held(Arc::new(Notify::new()), Box::new(session(SessionStatus::Running)))
    });
    let reply = in_background(&front, &Ask::message(&status(50)));
    until("the executor is asked", || executor.asked().len() == 1);
    let (code, _) = front.terminate();
    assert_eq!(code, Some(0));
    let said = refusal(&reply.recv().unwrap().json()["result"]);
    assert_eq!((&said["code"], &said["retryable"]), (&json!("executor_unavailable"), &json!(true)));
}
