//! Waiting: woken by what happens, bounded, and never left behind.

use std::time::Duration;

use executor_svc::engine::Takeoff;
use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::ids::ToolCallId;
use gatehouse_proto::v1::open_turn_request::Key;
use gatehouse_proto::v1::{SeenToolResult, SessionStatus, ToolCall, ToolResultSet};

use super::house::*;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn results(call: &str) -> Key {
    let result =
        SeenToolResult { tool_call_id: call.into(), is_error: false, text: "Seen by Claude Code.".into() };
    Key::ToolResults(ToolResultSet { results: vec![result] })
}

/// A session whose reply authorised one call; its id.
async fn with_a_call(house: &House) -> (gatehouse_proto::v1::SessionReply, Shim, ToolCallId) {
    let (started, shim, turn) = house.waiting("start-key-0123456789").await;
    let mut reply = reply_request(&started, &turn, "r", "");
    reply.tool_calls = vec![ToolCall {
        name: "Read".into(),
        input_json: r#"{"file_path":"/etc/hostname"}"#.into(),
        client_id: None,
    }];
    house.front().reply_and_wait(reply).await.unwrap();
    let call = house.session(&started).await.state.run().unwrap().calls[0].id.clone();
    (started, shim, call)
}

#[tokio::test]
async fn a_turn_that_waits_for_a_receipt_is_woken_also_when_none_comes_of_it() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, shim, call) = with_a_call(&house).await;
    let Takeoff::Begun(flight) = house.engine.take_off(&session_id(&started), &call) else {
        panic!("in flight already")
    };
    let (asker, key) = (shim.clone(), results(call.as_str()));
    let changes = house.engine.watch(&session_id(&started));
    let mut asked = tokio::spawn(async move { asker.open(key).await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut asked).await;
    assert!(early.is_err(), "it waits for the receipt: {early:?}");
    assert!(!changes.has_changed().unwrap(), "asking in vain wakes nobody, itself least of all");
    assert_eq!(shown(&house.status(&started).await.unwrap()), SessionStatus::Running);
    drop(flight);
    let turn = tokio::time::timeout(PATIENCE, asked).await.expect("woken").unwrap().unwrap();
    let seen = house.status(&started).await.unwrap().session.unwrap().pending_turn.unwrap();
    assert_eq!(seen.turn_id, turn);
    assert!(!seen.tool_results[0].ok, "{:?}", seen.tool_results);
    house.close().await;
}

#[tokio::test]
async fn a_flight_whose_task_panics_is_over() {
    let ground = Ground::new("");
    let house = ground.open();
    let started = house.start("start-key-0123456789").await;
    let (session, call) = (session_id(&started), ToolCallId::mint());
    let engine = house.engine.clone();
    let (lost, id) = (session.clone(), call.clone());
    let task = tokio::spawn(async move {
        let _flight = engine.take_off(&lost, &id);
        panic!("the tool broke");
    });
    assert!(task.await.unwrap_err().is_panic());
    assert!(house.engine.performing().of(&session).is_empty());
    assert!(matches!(house.engine.take_off(&session, &call), Takeoff::Begun(_)));
    house.close().await;
}

#[tokio::test]
async fn a_waiting_status_returns_when_the_turn_opens() {
    let ground = Ground::new("");
    let house = ground.open();
    let started = house.start("start-key-0123456789").await;
    let (mut front, ask) = (house.front(), status_request(&started, 50));
    let asked = tokio::spawn(async move { front.get_status(ask).await });
    house.shim(&started).await.open_first().await;
    let answer = tokio::time::timeout(PATIENCE, asked).await.expect("woken").unwrap().unwrap().into_inner();
    assert_eq!(shown(&answer), SessionStatus::WaitingForGpt);
    house.close().await;
}

#[tokio::test]
async fn a_call_that_waits_under_a_lease_is_told_at_once_when_that_lease_is_rotated() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _, turn) = house.waiting("start-key-0123456789").await;
    let mut ask = reply_request(&started, &turn, "r", "Committed, and still at work.");
    ask.wait_seconds = Some(50);
    let (mut replying, mut looking) = (house.front(), house.front());
    let reply = tokio::spawn(async move { replying.reply_and_wait(ask).await });
    let (id, running) = (session_id(&started), executor_svc::session::Status::Running);
    house.engine.wait_until(&id, PATIENCE, |session| session.state.status() == running).await.unwrap();
    let status = status_request(&started, 50);
    let status = tokio::spawn(async move { looking.get_status(status).await });
    let token = started.recovery_token.clone().unwrap();
    let recovered = house.front().recover(recover_request(&started, &token, "v")).await.unwrap().into_inner();
    assert_eq!(shown(&recovered), SessionStatus::Running, "rotation ends nothing that was authorised");
    let reply = tokio::time::timeout(Duration::from_secs(5), reply).await.expect("at once").unwrap();
    assert_eq!(code(reply), ErrorCode::LeaseMismatch);
    let status = tokio::time::timeout(Duration::from_secs(5), status).await.expect("at once").unwrap();
    assert_eq!(code(status), ErrorCode::LeaseMismatch);
    house.close().await;
}

#[tokio::test]
async fn a_stop_waits_for_the_process_no_longer_than_any_call_may() {
    let ground = Ground::new("[limits]\nmax_wait_seconds = 0\n");
    let house = ground.open();
    let (started, ..) = house.waiting("start-key-0123456789").await;
    // Nobody here ends the process, so only the bound ends the wait.
    let answer = house.front().stop(stop_request(&started, "s")).await.unwrap().into_inner();
    assert_eq!(shown(&answer), SessionStatus::Stopping);
    house.close().await;
}

#[tokio::test]
async fn an_action_that_has_not_begun_has_the_time_of_its_authorisation() {
    let ground = Ground::new("");
    let house = ground.open();
    let authorised_at = house.engine.now().millis();
    let (started, ..) = with_a_call(&house).await;
    ground.clock.advance(Duration::from_secs(5));
    let session = house.status(&started).await.unwrap().session.unwrap();
    let action = session.current_run.unwrap().actions.remove(0);
    assert_eq!((action.state.as_str(), action.started_at_ms), ("authorised", authorised_at));
    assert_eq!(action.elapsed_ms, 5000);
    house.close().await;
}
