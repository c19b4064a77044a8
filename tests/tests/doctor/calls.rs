//! What clients did: the list of tools they saw, and the four places in which a call can fail.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use gatehouse::chatgpt::{Brain, Call, Client, Endpoint, Start};
use gatehouse_tests::claude;
use gatehouse_tests::places::Project;
use gatehouse_tests::up::Up;
use gatehouse_tests::waiting::until;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{Findings, Patient};

/// Sends a message and gives the connection before anything is read from it.
fn send(endpoint: &Endpoint, message: &Value) -> TcpStream {
    let Endpoint::Tcp { address, key } = endpoint else { panic!("over TCP only") };
    let body = message.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nX-Gatehouse-Key: {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        key.as_deref().unwrap_or_default(),
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

/// Sends a message and waits for the answer.
pub(crate) fn post(endpoint: &Endpoint, message: &Value) -> String {
    let mut answer = String::new();
    send(endpoint, message).read_to_string(&mut answer).unwrap();
    answer
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// What the doctor says once the executor knows of it.
async fn once(patient: &Patient, enough: impl Fn(&Findings) -> bool) -> Findings {
    until("the doctor sees it", async || {
        let found = patient.doctor(&[]);
        enough(&found).then_some(found)
    })
    .await
}

fn place(found: &Findings) -> &str {
    found.said["last_call"]["place"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_list_of_tools_than_the_one_that_was_fetched_is_a_warning() {
    let patient = Patient::new();
    let mut up = Up::start(&patient.place, None);
    let client = Client::http(up.endpoint(), None);
    client.initialize().await.unwrap();
    client.request("tools/list", json!({})).await.unwrap();
    let found = once(&patient, |found| found.line("tool_list").1.contains("fetched last")).await;
    found.expect("tool_list", "ok", "");
    assert!(found.line("clients").1.contains("the latest first"), "{:?}", found.line("clients"));
    assert_eq!(place(&found), "answered");
    up.signal(Signal::SIGTERM);
    assert_eq!(up.ended().code(), Some(0));

    // As if an older front had served that list.
    let file = patient.at("s/contact.json");
    let mut noted: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    noted["listed"]["what"] = json!("0".repeat(64));
    std::fs::write(&file, noted.to_string()).unwrap();
    let _up = Up::start(&patient.place, None);
    patient.doctor(&[]).expect("tool_list", "warning", "refresh the connector");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_came_and_one_that_was_refused_are_told_apart() {
    let patient = Patient::new();
    let up = Up::start(&patient.place, None);
    assert_eq!(place(&patient.doctor(&[])), "never_reached");
    let unknown = json!({"native_session_id": format!("ns_{}", "0".repeat(32)), "lease_id": format!("lease_{}", "0".repeat(32))});
    assert!(post(&up.endpoint(), &call("native_session_status", &unknown)).contains("unknown_session"));
    let found = once(&patient, |found| place(found) != "never_reached").await;
    assert_eq!(place(&found), "failed_in_gateway");
    assert!(found.said["last_call"]["found"].as_str().unwrap().contains("unknown_session"), "{}", found.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_failed_and_an_answer_that_was_lost_are_told_apart() {
    let Some(claude) = claude() else { return };
    let (patient, project) = (Patient::new(), Project::small());
    let up = Up::start(&patient.place, Some(&claude));
    let client = Arc::new(Client::http(up.endpoint(), None));
    let mut brain = Brain::start(client, &Start::new("Look.", project.text())).await.unwrap();
    brain.settle().await.unwrap();
    let missing = json!({"file_path": project.path().join("missing")});
    brain.act(None, &[Call::new("Read", missing)]).await.unwrap();
    brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
    let found = once(&patient, |found| place(found) == "ran_and_failed").await;
    let words = found.said["last_call"]["found"].as_str().unwrap();
    assert!(words.contains("Read") && words.contains("not_found"), "{words}");

    // A command keeps the session at work, so that a status waits; its client goes away meanwhile.
    let sleep = Call::new("RunCommand", json!({"argv": ["sleep", "60"]}));
    let reply = json!({"native_session_id": brain.session_id(), "lease_id": brain.lease_id(),
        "turn_id": brain.state().turn_id().unwrap(), "reply_id": "a-reply-of-this-test-01",
        "tool_calls": [{"name": sleep.name(), "input": sleep.input()}]});
    let connection = send(&up.endpoint(), &call("native_session_reply_and_wait", &reply));
    until("the call waits", async || {
        let metrics = metrics(&up.endpoint());
        metrics.contains("gatehouse_front_waiting_polls 1").then_some(())
    })
    .await;
    drop(connection);
    let found = once(&patient, |found| place(found) == "answer_lost").await;
    let words = found.said["last_call"]["found"].as_str().unwrap();
    assert!(words.contains("native_session_reply_and_wait"), "{words}");
    let kinds: Vec<_> =
        found.said["last_call"]["traces"].as_array().unwrap().iter().map(|trace| &trace["kind"]).collect();
    assert!(kinds.iter().any(|kind| **kind == "action failed"), "{kinds:?}");
}

fn metrics(endpoint: &Endpoint) -> String {
    let Endpoint::Tcp { address, key } = endpoint else { panic!("over TCP only") };
    let mut stream = TcpStream::connect(address).unwrap();
    let key = key.as_deref().unwrap_or_default();
    let ask = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nX-Gatehouse-Key: {key}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
