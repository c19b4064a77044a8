//! What was answered once is answered so for ever.

use std::time::Duration;

use executor_svc::engine::Order;
use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::v1::{self, SessionStatus};

use super::house::*;

#[tokio::test]
async fn every_mutating_call_replays_over_a_restart_and_conflicts_with_other_content() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _, turn) = house.waiting("start-key-0123456789").await;
    let reply = reply_request(&started, &turn, "r1", "Done.");
    assert!(!house.front().reply_and_wait(reply.clone()).await.unwrap().into_inner().replay);
    house.close().await;

    let house = ground.open();
    let again = house.start("start-key-0123456789").await;
    assert!(again.replay);
    assert_eq!(
        (id(&again), &again.lease_id, &again.recovery_token),
        (id(&started), &started.lease_id, &started.recovery_token)
    );
    let mut other = house.start_request("start-key-0123456789");
    other.prompt.push('!');
    assert_eq!(code(house.front().start(other).await), ErrorCode::IdempotencyConflict);
    assert!(house.front().reply_and_wait(reply.clone()).await.unwrap().into_inner().replay);
    let other = reply_request(&started, &turn, "r1", "Done!");
    assert_eq!(code(house.front().reply_and_wait(other).await), ErrorCode::IdempotencyConflict);
    let second = reply_request(&started, &turn, "r2", "Done.");
    assert_eq!(code(house.front().reply_and_wait(second).await), ErrorCode::TurnAlreadyAnswered);
    house.shim(&started).await.finish().await;
    let go_on = continue_request(&started, "c1");
    assert!(!house.front().r#continue(go_on.clone()).await.unwrap().into_inner().replay);
    house.close().await;

    let house = ground.open();
    assert!(house.front().r#continue(go_on).await.unwrap().into_inner().replay);
    assert_eq!(house.count("run").await, 2, "one run each");
    let token = started.recovery_token.clone().unwrap();
    let recovered =
        house.front().recover(recover_request(&started, &token, "v1")).await.unwrap().into_inner();
    house.close().await;

    let house = ground.open();
    let again = house.front().recover(recover_request(&started, &token, "v1")).await.unwrap().into_inner();
    assert!(again.replay && again.lease_id == recovered.lease_id);
    let first = house.front().start(house.start_request("start-key-0123456789")).await;
    assert_eq!(code(first), ErrorCode::LeaseMismatch, "its lease is another's by now");
    house.close().await;
}

#[tokio::test]
async fn a_stop_replays_over_a_restart_and_another_one_is_told_that_it_is_over() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, shim, turn) = house.waiting("start-key-0123456789").await;
    house.front().reply_and_wait(reply_request(&started, &turn, "r", "Done.")).await.unwrap();
    shim.finish().await;
    let stopped = house.front().stop(stop_request(&started, "s1")).await.unwrap().into_inner();
    assert_eq!(shown(&stopped), SessionStatus::Stopped);
    house.close().await;
    let house = ground.open();
    assert!(house.front().stop(stop_request(&started, "s1")).await.unwrap().into_inner().replay);
    assert_eq!(code(house.front().stop(stop_request(&started, "s2")).await), ErrorCode::SessionStopped);
    house.close().await;
}

#[tokio::test]
async fn a_starting_executor_launches_what_was_not_launched_and_leaves_time_to_call() {
    let ground = Ground::new("");
    let house = ground.open();
    let started = house.start("start-key-0123456789").await;
    house.close().await;
    ground.clock.advance(LEASE - Duration::from_secs(1));

    let mut house = ground.open();
    house.runners.adopt_all().await.unwrap();
    let session = house.session(&started).await;
    let run = session.state.run().unwrap().id.clone();
    assert_eq!(
        house.orders.try_recv().unwrap(),
        Order::Launch { session: session.id.clone(), run: run.clone(), epoch: 2 }
    );
    assert_eq!(session.lease.left(house.engine.now()), Duration::from_secs(60));
    // The next one finds a link token that no process can have been given: nobody knows of a process.
    let old = house.shim(&started).await;
    house.close().await;
    let mut house = ground.open();
    house.runners.adopt_all().await.unwrap();
    assert_eq!(house.orders.try_recv().unwrap(), Order::Launch { session: session.id, run, epoch: 3 });
    let refused = old.open(v1::open_turn_request::Key::FirstOfRun(1)).await.unwrap_err();
    assert_eq!(
        refused.code(),
        tonic::Code::PermissionDenied,
        "an old epoch has no token any more: {refused}"
    );
    house.close().await;
}
