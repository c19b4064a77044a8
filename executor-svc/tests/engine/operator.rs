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

#[tokio::test]
async fn a_long_list_of_actions_comes_in_pages_without_gaps() {
    let ground = Ground::new("");
    std::fs::write(ground.path("project/a.txt"), "alpha\n").unwrap();
    let house = ground.open();
    let ask = house.start_request("start-key-0123456789");
    let mut caller = super::caller::Caller::started(house, ask).await;
    for _ in 0..5 {
        caller.call("Read", serde_json::json!({"file_path": ground.path("project/a.txt")})).await;
        ground.clock.advance(std::time::Duration::from_millis(1));
    }
    let list = async |limit: u32, before: Option<String>| {
        let ask = v1::ListActionsRequest { native_session_id: id(&caller.started), limit, before };
        caller.house.operator().list_actions(ask).await.unwrap().into_inner()
    };
    let ids = |reply: &v1::ListActionsReply| -> Vec<String> {
        reply.actions.iter().map(|action| action.tool_call_id.clone()).collect()
    };
    let all = list(0, None).await;
    assert_eq!((all.actions.len(), &all.earlier), (5, &None));
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = list(2, before).await;
        paged.splice(0..0, ids(&page));
        before = page.earlier;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(paged, ids(&all));
    caller.house.close().await;
}

#[tokio::test]
async fn a_verification_tells_how_far_it_is_and_names_a_row_that_was_changed() {
    use tokio_stream::StreamExt;
    let ground = Ground::new("");
    let house = ground.open();
    let (one, _, _) = house.waiting("first-key-0123456789").await;
    let other = house.start("other-key-0123456789").await;
    let steps = house.operator().verify_ledger_step(v1::VerifyLedgerRequest {}).await.unwrap().into_inner();
    let steps: Vec<_> = steps.map(Result::unwrap).collect().await;
    let parts: Vec<_> = steps.iter().map(|step| step.part.as_str()).collect();
    assert!(
        parts.contains(&"structure") && parts.contains(&"rows") && parts.contains(&"contents"),
        "{parts:?}"
    );
    let whole = steps.last().unwrap().result.clone().unwrap();
    assert!(whole.ok && whole.entries > 0 && whole.ledger_problems.is_empty(), "{whole:?}");

    // Another hand changes what one session says of itself.
    let ledger = rusqlite::Connection::open(ground.path("state/ledger.db")).unwrap();
    let changed = "UPDATE session SET state = replace(state, 'read_only', 'direct_write') WHERE id = ?1";
    assert_eq!(ledger.execute(changed, [id(&other)]).unwrap(), 1);
    let refused = house.status(&other).await.unwrap_err();
    let refused = gatehouse_proto::refusal::Refusal::from_status(&refused).unwrap();
    assert!(!refused.retryable && refused.details["ledger"] == "damaged", "{refused:?}");
    let listed =
        house.operator().list_sessions(v1::ListSessionsRequest::default()).await.unwrap().into_inner();
    assert_eq!((listed.damaged, listed.sessions.len()), (vec![id(&other)], 1), "the others are told");
    assert_eq!(shown(&house.status(&one).await.unwrap()), v1::SessionStatus::WaitingForGpt);
    let health = house.operator().health(v1::HealthRequest {}).await.unwrap().into_inner();
    assert_eq!(health.ledger_trouble.as_deref(), Some("damaged"));
    let found = house.operator().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap().into_inner();
    assert!(!found.ok && found.broken_at_seq.is_none(), "the chain is whole: {found:?}");
    assert!(found.ledger_problems[0].contains(&id(&other)), "{found:?}");
    // A row that is gone altogether is missed too.
    ledger.execute_batch("PRAGMA foreign_keys = off").unwrap();
    ledger.execute("DELETE FROM session WHERE id = ?1", [id(&one)]).unwrap();
    let missed =
        gatehouse_proto::refusal::Refusal::from_status(&house.status(&one).await.unwrap_err()).unwrap();
    assert_eq!(missed.details["ledger"], "damaged", "and not an unknown session: {missed:?}");
    house.close().await;
}
