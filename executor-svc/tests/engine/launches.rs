//! Launches and ends that meet, with a script in the shim's place.

use std::time::Duration;

use executor_svc::session::{Command, Session, State};
use gatehouse_proto::v1::{SessionReply, SessionStatus, ShutdownRequest};

use super::house::*;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A shim that lives, as itself, and says nothing; if all else fails, until the test's folder is gone.
const NEVER_ASKS: &str = "while [ -e \"$0\" ]; do sleep 1; done";

/// A ground whose shim is a script that notes that it was given a token, and then does as `then` says.
fn ground(then: &str, launch_timeout: u32) -> Ground {
    // Any native program passes for Claude Code: nothing starts it here.
    let claude = std::env::current_exe().unwrap();
    let ground = Ground::new(&format!(
        "[claude]\nbinary = '{}'\nhelper_dir = 'GROUND/bin'\nlaunch_timeout_seconds = {launch_timeout}\n",
        claude.display()
    ));
    let (shim, given) = (ground.path("bin/runner-shim"), ground.path("given"));
    let script = format!("#!/bin/sh\nread token || exit 1\necho given >> '{}'\n{then}\n", given.display());
    std::fs::write(&shim, script).unwrap();
    super::program::make_program(&shim);
    ground
}

/// Waits until a shim was given its token: a file is all that a script can show.
async fn until_given(ground: &Ground) {
    let looked = async {
        while !ground.path("given").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.expect("the token is handed over");
}

async fn until(house: &House, of: &SessionReply, enough: impl Fn(&Session) -> bool) -> Session {
    let session = house.engine.wait_until(&session_id(of), PATIENCE, &enough).await.unwrap();
    assert!(enough(&session), "{session:?}");
    session
}

/// Has the runner room of this house carry out its orders.
fn serve(house: &mut House) {
    let (_, empty) = tokio::sync::mpsc::unbounded_channel();
    let orders = std::mem::replace(&mut house.orders, empty);
    tokio::spawn(
        house.runners.clone().serve(orders, executor_svc::subagent::Broker::new(house.engine.clone())),
    );
}

#[tokio::test]
async fn a_run_that_was_stopped_before_its_launch_is_never_given_a_token() {
    let ground = ground(NEVER_ASKS, 60);
    let mut house = ground.open();
    house.engine.allow_launches(false);
    serve(&mut house);
    let started = house.start("start-key-0123456789").await;
    let stopped = house.front().stop(stop_request(&started, "s")).await.unwrap().into_inner();
    assert_eq!(shown(&stopped), SessionStatus::Stopped);
    house.engine.allow_launches(true);
    house.start("other-key-0123456789").await;
    until_given(&ground).await;
    house.operator().shutdown(ShutdownRequest { stop_runners: true }).await.unwrap();
    assert_eq!(std::fs::read_to_string(ground.path("given")).unwrap(), "given\n", "the other one alone");
    house.close().await;
}

#[test]
fn a_launch_that_a_restart_overtook_is_still_given_up_when_nobody_asks_in_time() {
    let ground = ground(NEVER_ASKS, 5);
    // A runtime each: what the first executor was waiting for ends with it.
    let started = runtime().block_on(async {
        let mut house = ground.open();
        serve(&mut house);
        let started = house.start("start-key-0123456789").await;
        until_given(&ground).await;
        house.close().await;
        started
    });
    runtime().block_on(async {
        let mut house = ground.open();
        house.runners.adopt_all().await.unwrap();
        serve(&mut house);
        let session = house.session(&started).await;
        assert_eq!(session.state.status().as_str(), "starting", "the shim was found alive");
        let session = until(&house, &started, |session| session.state.run().is_none()).await;
        let State::Failed(failure) = &session.state else { panic!("{session:?}") };
        assert!(failure.message.contains("did not ask for an answer within 5 s"), "{}", failure.message);
        house.close().await;
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[tokio::test]
async fn a_shutdown_sees_out_also_runners_that_were_ending_already() {
    let ground = ground(&format!("trap '' TERM; {NEVER_ASKS}"), 60);
    let mut house = ground.open();
    serve(&mut house);
    let started = house.start("start-key-0123456789").await;
    until_given(&ground).await;
    let run = house.session(&started).await.state.run().unwrap().clone();
    let command = Command::Interrupt { run_id: run.id, epoch: run.epoch, why: "a test".into() };
    let session = house.engine.submit(&session_id(&started), None, move |_, _| Ok(command)).await.unwrap();
    assert!(session.session.ending.is_some() && session.session.state.run().is_none());
    let answer =
        house.operator().shutdown(ShutdownRequest { stop_runners: true }).await.unwrap().into_inner();
    assert_eq!(answer.stopped_runners, 1);
    assert!(house.session(&started).await.ending.is_none(), "the process is seen to be gone");
    assert!(house.asked.try_recv().is_ok());
    house.close().await;
}

#[tokio::test]
async fn a_session_goes_on_although_the_process_of_the_run_before_is_still_on_its_way_out() {
    let ground = ground(NEVER_ASKS, 60);
    let mut house = ground.open();
    // The order to end is not carried out before the call is there.
    let started = house.start("start-key-0123456789").await;
    let run = house.session(&started).await.state.run().unwrap().clone();
    let command = Command::Interrupt { run_id: run.id, epoch: run.epoch, why: "a test".into() };
    house.engine.submit(&session_id(&started), None, move |_, _| Ok(command)).await.unwrap();
    let (mut front, ask) = (house.front(), continue_request(&started, "c"));
    let mut asked = tokio::spawn(async move { front.r#continue(ask).await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut asked).await;
    assert!(early.is_err(), "it waits for the process: {early:?}");
    serve(&mut house);
    let answer = asked.await.unwrap().unwrap().into_inner();
    assert_eq!(shown(&answer), SessionStatus::Starting);
    house.operator().shutdown(ShutdownRequest { stop_runners: true }).await.unwrap();
    house.close().await;
}
