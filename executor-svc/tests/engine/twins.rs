//! The same call over several connections at the same instant: one effect, the same answer.

use std::collections::BTreeSet;
use std::future::Future;

use gatehouse_proto::v1::front_client::FrontClient;
use gatehouse_proto::v1::{SessionReply, SessionStatus};
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::house::*;

const TWINS: usize = 8;

/// Makes the call from several connections at once; gives the answers.
async fn twins<F>(house: &House, call: impl Fn(FrontClient<Channel>) -> F) -> Vec<SessionReply>
where
    F: Future<Output = Result<Response<SessionReply>, Status>> + Send + 'static,
{
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..TWINS {
        calls.spawn(call(house.front()));
    }
    let answers: Vec<_> = calls.join_all().await.into_iter().map(|a| a.unwrap().into_inner()).collect();
    assert_eq!(answers.iter().filter(|answer| !answer.replay).count(), 1, "one of them did it");
    answers
}

fn leases(answers: &[SessionReply]) -> usize {
    answers.iter().map(|answer| answer.lease_id.clone()).collect::<BTreeSet<_>>().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twins_of_every_mutating_call_have_one_effect() {
    let ground = Ground::new("");
    let house = ground.open();
    let ask = house.start_request("start-key-0123456789");
    let started = twins(&house, |mut front| {
        let ask = ask.clone();
        async move { front.start(ask).await }
    })
    .await;
    assert_eq!((leases(&started), house.count("session").await, house.count("run").await), (1, 1, 1));
    let started = started.into_iter().next().unwrap();
    let shim = house.shim(&started).await;
    let turn = shim.open_first().await;

    let ask = reply_request(&started, &turn, "r", "Done.");
    twins(&house, |mut front| {
        let ask = ask.clone();
        async move { front.reply_and_wait(ask).await }
    })
    .await;
    assert_eq!(house.count("reply").await, 1);
    shim.finish().await;

    let ask = continue_request(&started, "c");
    twins(&house, |mut front| {
        let ask = ask.clone();
        async move { front.r#continue(ask).await }
    })
    .await;
    assert_eq!(house.count("run").await, 2);

    let ask = recover_request(&started, started.recovery_token.as_ref().unwrap(), "v");
    let recovered = twins(&house, |mut front| {
        let ask = ask.clone();
        async move { front.recover(ask).await }
    })
    .await;
    assert_eq!(leases(&recovered), 1, "one lease was minted");

    let shim = house.shim(&started).await;
    shim.finish().await;
    let ask = stop_request(&recovered[0], "s");
    let stopped = twins(&house, |mut front| {
        let ask = ask.clone();
        async move { front.stop(ask).await }
    })
    .await;
    assert!(stopped.iter().all(|answer| shown(answer) == SessionStatus::Stopped));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_recoveries_at_once_the_last_holds_the_lease_and_the_other_knows() {
    let ground = Ground::new("");
    let house = ground.open();
    let started = house.start("start-key-0123456789").await;
    let token = started.recovery_token.clone().unwrap();
    let (mut one, mut two) = (house.front(), house.front());
    let (one, two) = tokio::join!(
        one.recover(recover_request(&started, &token, "v1")),
        two.recover(recover_request(&started, &token, "v2"))
    );
    let current = house.session(&started).await.lease.id.to_string();
    let answered: Vec<_> = [one, two].into_iter().flatten().map(Response::into_inner).collect();
    assert!(answered.iter().any(|answer| answer.lease_id == current));
    for answer in &answered {
        assert_eq!(house.status(answer).await.is_ok(), answer.lease_id == current);
    }
    house.close().await;
}
