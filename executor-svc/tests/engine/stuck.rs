//! Somebody who does not read, waits without end, or asks for too much takes nothing from anybody else.

use std::time::{Duration, Instant};

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::socket::Role;
use gatehouse_proto::v1::{self, SessionStatus};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use super::house::*;

/// Well above what any of these calls takes, well below any of the waits.
const SOON: Duration = Duration::from_secs(20);

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.expect("nobody is kept waiting")
}

/// Somebody else's whole day: a start, a turn, a reply, an end.
async fn another_works(house: &House, key: &str) {
    soon(async {
        let (started, shim, turn) = house.waiting(key).await;
        let reply = reply_request(&started, &turn, "r", "Done.");
        house.front().reply_and_wait(reply).await.unwrap();
        shim.finish().await;
        assert_eq!(shown(&house.status(&started).await.unwrap()), SessionStatus::Idle);
        house.front().stop(stop_request(&started, "stop")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn beyond_the_last_session_a_start_is_refused_with_numbers_and_goes_through_when_one_has_ended() {
    let ground = Ground::new("[limits]\nlive_sessions = 2\n");
    let house = ground.open();
    let (first, shim, turn) = house.waiting("first-key-0123456789").await;
    house.start("second-key-0123456789").await;
    let third = house.start_request("third-key-0123456789");
    let refused = house.front().start(third.clone()).await.unwrap_err();
    let refused = Refusal::from_status(&refused).unwrap();
    assert_eq!((refused.code, refused.retryable), (ErrorCode::Capacity, true));
    assert_eq!((&refused.details["live_sessions"], &refused.details["limit"]), (&2.into(), &2.into()));
    assert!(
        refused.message.contains("2 sessions are live") && refused.what_to_do.contains("native_session_stop")
    );
    let health = house.operator().health(v1::HealthRequest {}).await.unwrap().into_inner();
    assert_eq!((health.live_sessions, health.live_sessions_limit), (2, 2));
    // What is there already is there: a repeat of a start is no new session.
    assert!(house.start("first-key-0123456789").await.replay);
    house.front().reply_and_wait(reply_request(&first, &turn, "r", "Done.")).await.unwrap();
    shim.finish().await;
    assert_eq!(code(house.front().start(third.clone()).await), ErrorCode::Capacity, "an idle one is live");
    house.front().stop(stop_request(&first, "stop")).await.unwrap();
    assert!(!house.front().start(third).await.unwrap().into_inner().replay);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_waits_keep_nobody_waiting_and_are_all_answered() {
    let ground = Ground::new("");
    let house = ground.open();
    let watched = house.start("watched-key-0123456789").await;
    let mut waits = JoinSet::new();
    for _ in 0..3 {
        // A connection takes a thousand.
        let front = house.front();
        for _ in 0..1000 {
            let (mut front, ask) = (front.clone(), status_request(&watched, 50));
            waits.spawn(async move { front.get_status(ask).await });
        }
    }
    another_works(&house, "other-key-0123456789").await;
    let shim = house.shim(&watched).await;
    let began = Instant::now();
    shim.open_first().await;
    let answered = soon(waits.join_all()).await;
    assert!(answered.into_iter().all(|answer| answer.is_ok()), "after {:?}", began.elapsed());
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_follows_the_journal_and_does_not_read_holds_up_nobody_and_misses_nothing() {
    let ground = Ground::new("[limits]\nlive_sessions = 1000\n");
    let house = ground.open();
    let ask = v1::WatchEventsRequest { from_seq: Some(0), native_session_id: None };
    let mut stuck = Vec::new();
    for _ in 0..20 {
        stuck.push(house.operator().watch_events(ask.clone()).await.unwrap().into_inner());
    }
    // More than windows and queues between the two can hold.
    let mut starts = JoinSet::new();
    let front = house.front();
    for number in 0..400 {
        let (mut front, ask) = (front.clone(), house.start_request(&format!("many-{number}-0123456789")));
        starts.spawn(async move { front.start(ask).await.map(drop) });
    }
    assert!(soon(starts.join_all()).await.into_iter().all(|begun| begun.is_ok()));
    another_works(&house, "other-key-0123456789").await;
    let last = house.operator().health(v1::HealthRequest {}).await.unwrap().into_inner().journal_seq;
    assert!(last > 800);
    let mut late = stuck.pop().unwrap();
    for seq in 1..=last {
        assert_eq!(soon(late.next()).await.unwrap().unwrap().seq, seq);
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_take_places_of_their_own_socket_only_and_give_them_back() {
    let ground = Ground::new("");
    let house = ground.open();
    let mut operator = house.operator();
    operator.health(v1::HealthRequest {}).await.unwrap();
    let socket = Role::Operator.socket(&ground.path("run"));
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::UnixStream::connect(&socket).await.unwrap());
    }
    // The last ones find no place and are closed.
    let mut byte = [0];
    let closed = soon(tokio::io::AsyncReadExt::read(silent.last_mut().unwrap(), &mut byte)).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    operator.health(v1::HealthRequest {}).await.expect("who is connected stays so");
    another_works(&house, "other-key-0123456789").await;
    drop(silent);
    soon(async {
        while house.operator().health(v1::HealthRequest {}).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    house.close().await;
}
