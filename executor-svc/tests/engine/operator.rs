//! What the operator is told, and what a repeated start is.

use std::time::Duration;

use gatehouse_proto::v1;

use super::house::*;

#[tokio::test]
async fn a_list_leaves_out_what_a_single_session_is_large_by() {
    let ground = Ground::new("");
    let house = ground.open();
    let mut ask = house.start_request("start-key-0123456789");
    ask.prompt = "long ".repeat(50_000);
    let started = house.front().start(ask.clone()).await.unwrap().into_inner();
    let turn = house.shim(&started).await.open_first().await;
    let mut operator = house.operator();
    let listed = operator.list_sessions(v1::ListSessionsRequest::default()).await.unwrap().into_inner();
    let listed = listed.sessions[0].pending_turn.as_ref().unwrap();
    assert_eq!(
        (listed.turn_id.as_str(), listed.prompt.as_ref(), listed.tools.len()),
        (turn.as_str(), None, 0)
    );
    let one = v1::GetSessionRequest { native_session_id: id(&started) };
    let one = operator.get_session(one).await.unwrap().into_inner().session.unwrap();
    assert_eq!(one.pending_turn.unwrap().prompt.as_deref(), Some(ask.prompt.as_str()));
    house.close().await;
}

#[tokio::test]
async fn events_are_followed_from_any_place_without_an_error() {
    let ground = Ground::new("");
    let house = ground.open();
    house.start("start-key-0123456789").await;
    for from_seq in [Some(0), Some(1)] {
        let ask = v1::WatchEventsRequest { from_seq, native_session_id: None };
        let mut events = house.operator().watch_events(ask).await.unwrap().into_inner();
        assert_eq!(events.message().await.unwrap().unwrap().kind, "session.created");
    }
    let ask = v1::WatchEventsRequest { from_seq: Some(u64::MAX), native_session_id: None };
    let mut events = house.operator().watch_events(ask).await.unwrap().into_inner();
    let nothing = tokio::time::timeout(Duration::from_millis(200), events.message()).await;
    assert!(nothing.is_err(), "it waits for what is not there yet: {nothing:?}");
    house.close().await;
}

#[tokio::test]
async fn a_repeated_start_may_name_the_defaults_and_renews_the_lease() {
    let ground = Ground::new("");
    let house = ground.open();
    let started = house.start("start-key-0123456789").await;
    ground.clock.advance(Duration::from_secs(600));
    let mut ask = house.start_request("start-key-0123456789");
    ask.set_capability_profile(v1::CapabilityProfile::ReadOnly);
    ask.set_subagent_policy(v1::SubagentPolicy::None);
    let again = house.front().start(ask).await.unwrap().into_inner();
    assert!(again.replay && again.lease_id == started.lease_id);
    assert_eq!(again.lease_expires_at_ms, started.lease_expires_at_ms + 600_000);
    house.close().await;
}
