//! The time of day jumps, or the machine was suspended: healthy sessions live on, and dead ones do not.

use std::time::Duration;

use executor_svc::clock::Clock;
use executor_svc::runner::end_what_ran_out;
use gatehouse_proto::v1::SessionStatus;

use super::house::*;

const HOUR: Duration = Duration::from_secs(3600);

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

async fn seconds_left(house: &House, started: &gatehouse_proto::v1::SessionReply) -> u64 {
    house.session(started).await.lease.left(house.engine.now()).as_secs()
}

#[tokio::test]
async fn a_jump_of_the_time_of_day_neither_ends_a_session_nor_lengthens_its_life() {
    for hours in [5, -5] {
        let ground = Ground::new("");
        let house = ground.open();
        let (started, _, turn) = house.waiting("start-key-0123456789").await;
        ground.clock.advance(Duration::from_secs(100));
        ground.clock.jump(hours * millis(HOUR));
        // Before anybody has noticed: leases are not by the time of day.
        assert_eq!(shown(&house.status(&started).await.unwrap()), SessionStatus::WaitingForGpt);

        end_what_ran_out(&house.engine).await.unwrap();
        assert_eq!(ground.clock.drift(), 0, "the engine shows the time of day again");
        assert_eq!(seconds_left(&house, &started).await, LEASE.as_secs());
        let seen = house.status(&started).await.unwrap();
        assert_eq!(shown(&seen), SessionStatus::WaitingForGpt);
        assert_eq!(
            seen.lease_expires_at_ms,
            house.engine.now().after(LEASE).millis(),
            "as the caller's clock has it"
        );
        let reply = reply_request(&started, &turn, "r", "In time.");
        house.front().reply_and_wait(reply).await.unwrap();

        ground.clock.advance(LEASE);
        end_what_ran_out(&house.engine).await.unwrap();
        assert_eq!(shown(&house.status(&started).await.unwrap()), SessionStatus::LeaseExpired);
        house.close().await;
    }
}

#[tokio::test]
async fn the_time_that_a_machine_was_suspended_does_not_count() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, ..) = house.waiting("start-key-0123456789").await;
    for _ in 0..3 {
        ground.clock.advance(LEASE / 4);
        ground.clock.jump(millis(8 * HOUR));
        end_what_ran_out(&house.engine).await.unwrap();
    }
    assert_eq!(seconds_left(&house, &started).await, LEASE.as_secs() / 4);
    ground.clock.advance(LEASE / 4);
    end_what_ran_out(&house.engine).await.unwrap();
    assert_eq!(shown(&house.status(&started).await.unwrap()), SessionStatus::LeaseExpired);
    house.close().await;
}

#[tokio::test]
async fn what_had_run_out_before_the_clock_was_put_back_is_ended_all_the_same() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, ..) = house.waiting("start-key-0123456789").await;
    ground.clock.advance(LEASE);
    ground.clock.jump(-millis(24 * HOUR));
    end_what_ran_out(&house.engine).await.unwrap();
    assert_eq!(shown(&house.status(&started).await.unwrap()), SessionStatus::LeaseExpired);
    house.close().await;
}

#[tokio::test]
async fn a_clock_that_is_only_nudged_is_left_alone() {
    let ground = Ground::new("");
    let house = ground.open();
    house.waiting("start-key-0123456789").await;
    let entries = house.count("journal").await;
    ground.clock.jump(1_500);
    assert_eq!(house.engine.follow_the_time_of_day().await.unwrap(), 0);
    ground.clock.jump(1_500);
    assert_eq!(house.engine.follow_the_time_of_day().await.unwrap(), 3_000);
    assert_eq!(house.count("journal").await, entries + 1, "the move is in the journal");
    house.close().await;
}

#[tokio::test]
async fn a_session_that_comes_back_to_life_needs_room_like_a_new_one() {
    let ground = Ground::new("[limits]\nlive_sessions = 1\n");
    let house = ground.open();
    let (first, ..) = house.waiting("first-key-0123456789").await;
    ground.clock.advance(LEASE);
    end_what_ran_out(&house.engine).await.unwrap();
    let second = house.start("second-key-0123456789").await;
    let ask = recover_request(&first, first.recovery_token.as_deref().unwrap(), "v");
    assert_eq!(code(house.front().recover(ask.clone()).await), gatehouse_proto::codes::ErrorCode::Capacity);
    assert_eq!(
        shown(&house.status(&first).await.unwrap()),
        SessionStatus::LeaseExpired,
        "it can still be read"
    );
    ground.clock.advance(LEASE);
    end_what_ran_out(&house.engine).await.unwrap();
    assert_eq!(shown(&house.status(&second).await.unwrap()), SessionStatus::LeaseExpired);
    let recovered = house.front().recover(ask).await.unwrap().into_inner();
    assert_eq!(shown(&recovered), SessionStatus::Idle);
    assert!(!recovered.replay, "the refused try did not use the id up");
    house.close().await;
}
