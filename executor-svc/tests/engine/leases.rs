//! Leases by the clock, recovery tokens, capacity.

use std::time::Duration;

use executor_svc::session::Command;
use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::SessionStatus;

use super::house::*;

#[tokio::test]
async fn a_lease_that_ran_out_ends_the_run_and_only_recovery_goes_on() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _, turn) = house.waiting("start-key-0123456789").await;
    let reply = reply_request(&started, &turn, "r", "Too late.");
    ground.clock.advance(LEASE);
    assert_eq!(code(house.front().reply_and_wait(reply.clone()).await), ErrorCode::LeaseExpired);
    house.engine.submit(&session_id(&started), None, |_, _| Ok(Command::CheckLease)).await.unwrap();

    let seen = house.status(&started).await.unwrap();
    assert_eq!(shown(&seen), SessionStatus::LeaseExpired);
    assert_eq!(seen.lease_expires_at_ms, started.lease_expires_at_ms, "looking renews nothing");
    assert_eq!(code(house.front().reply_and_wait(reply).await), ErrorCode::LeaseExpired);
    assert_eq!(
        code(house.front().r#continue(continue_request(&started, "c")).await),
        ErrorCode::LeaseExpired
    );
    let token = started.recovery_token.clone().unwrap();
    let recovered = house.front().recover(recover_request(&started, &token, "v")).await.unwrap().into_inner();
    assert_eq!(shown(&recovered), SessionStatus::Idle);
    assert_eq!(code(house.status(&started).await), ErrorCode::LeaseMismatch);
    let abandoned = reply_request(&recovered, &turn, "r", "Too late.");
    assert_eq!(code(house.front().reply_and_wait(abandoned).await), ErrorCode::RunnerGone);
    house.close().await;
}

#[tokio::test]
async fn looking_often_keeps_a_session_alive() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, ..) = house.waiting("start-key-0123456789").await;
    for _ in 0..5 {
        ground.clock.advance(LEASE - Duration::from_secs(60));
        assert_eq!(shown(&house.status(&started).await.unwrap()), SessionStatus::WaitingForGpt);
        house.engine.submit(&session_id(&started), None, |_, _| Ok(Command::CheckLease)).await.unwrap();
    }
    house.close().await;
}

#[tokio::test]
async fn after_ten_wrong_tokens_at_the_same_time_the_right_one_has_to_wait_a_minute() {
    let ground = Ground::new("");
    let house = ground.open();
    let started = house.start("start-key-0123456789").await;
    let mut guesses = tokio::task::JoinSet::new();
    for n in 0..40 {
        let (mut front, ask) = (house.front(), recover_request(&started, "rt_wrong", &format!("v{n}")));
        guesses.spawn(async move { Refusal::from_status(&front.recover(ask).await.unwrap_err()).unwrap() });
    }
    let refusals = guesses.join_all().await;
    assert!(refusals.iter().all(|refusal| refusal.code == ErrorCode::RecoveryDenied));
    assert_eq!(refusals.iter().filter(|refusal| refusal.details["locked"] == false).count(), 10);

    let token = started.recovery_token.clone().unwrap();
    let right = recover_request(&started, &token, "v0");
    let locked = Refusal::from_status(&house.front().recover(right.clone()).await.unwrap_err()).unwrap();
    assert!(locked.retryable && locked.details["locked"] == true);
    ground.clock.advance(Duration::from_secs(60));
    // The wrong ones did not use its id up.
    assert!(!house.front().recover(right).await.unwrap().into_inner().replay);
    house.close().await;
}

#[tokio::test]
async fn no_more_sessions_are_live_than_the_configuration_allows() {
    let ground = Ground::new("[limits]\nlive_sessions = 2\n");
    let house = ground.open();
    let first = house.start("first-key-0123456789").await;
    house.start("second-key-0123456789").await;
    let third = house.start_request("third-key-0123456789");
    assert_eq!(code(house.front().start(third.clone()).await), ErrorCode::Capacity);
    assert!(house.start("first-key-0123456789").await.replay, "a repeat needs no room");
    house.engine.submit(&session_id(&first), None, |_, _| Ok(Command::CheckLease)).await.unwrap();
    ground.clock.advance(LEASE);
    house.engine.submit(&session_id(&first), None, |_, _| Ok(Command::CheckLease)).await.unwrap();
    assert!(!house.front().start(third).await.unwrap().into_inner().replay);
    house.close().await;
}

#[tokio::test]
async fn time_in_which_nobody_could_call_ends_no_lease_and_then_it_runs_on() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _, turn) = house.waiting("start-key-0123456789").await;
    let check = async || {
        house.engine.submit(&session_id(&started), None, |_, _| Ok(Command::CheckLease)).await.unwrap();
    };
    house.engine.beat();
    // The machine slept, or its clock was set.
    ground.clock.advance(LEASE * 3);
    check().await;
    assert_eq!(house.session(&started).await.state.status().as_str(), "waiting_for_gpt");
    for _ in 0..29 {
        ground.clock.advance(Duration::from_secs(2));
        house.engine.beat();
        check().await;
    }
    assert_eq!(house.session(&started).await.state.status().as_str(), "waiting_for_gpt");
    ground.clock.advance(Duration::from_secs(2));
    check().await;
    // Nobody has come back for it within the minute.
    assert_eq!(house.session(&started).await.state.status().as_str(), "lease_expired");
    let reply = reply_request(&started, &turn, "r", "Too late.");
    assert_eq!(code(house.front().reply_and_wait(reply).await), ErrorCode::LeaseExpired);
    house.close().await;
}

#[tokio::test]
async fn whoever_comes_back_within_the_minute_goes_on() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _, turn) = house.waiting("start-key-0123456789").await;
    house.engine.beat();
    ground.clock.advance(LEASE * 3);
    let answered = house.front().reply_and_wait(reply_request(&started, &turn, "r", "Here I am.")).await;
    let answered = answered.unwrap().into_inner();
    assert_eq!(shown(&answered), SessionStatus::Running);
    assert_eq!(
        answered.lease_expires_at_ms,
        house.engine.now().after(LEASE).millis(),
        "and has a whole lease"
    );
    house.close().await;
}

#[tokio::test]
async fn a_clock_that_was_put_back_keeps_no_session_for_longer() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, ..) = house.waiting("start-key-0123456789").await;
    ground.clock.put_back(Duration::from_secs(86_400));
    house.engine.submit(&session_id(&started), None, |_, _| Ok(Command::CheckLease)).await.unwrap();
    assert_eq!(house.session(&started).await.lease.expires_at, house.engine.now().after(LEASE));
    ground.clock.advance(LEASE);
    house.engine.submit(&session_id(&started), None, |_, _| Ok(Command::CheckLease)).await.unwrap();
    assert_eq!(house.session(&started).await.state.status().as_str(), "lease_expired");
    house.close().await;
}
