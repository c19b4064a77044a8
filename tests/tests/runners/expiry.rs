//! A lease that nobody renews ends the runner, whether or not an executor is there to say so.

use std::time::{Duration, Instant};

use gatehouse_proto::v1::SessionStatus;
use gatehouse_tests::processes;

use super::{World, gone, only, running, sh, with, within};

const LEASE: &str = "[limits]\nlease_seconds = 60";
const LENGTH: Duration = Duration::from_secs(60);
/// How long after its end everything is gone.
const SECONDS: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn without_an_executor_the_shim_ends_everything_when_the_lease_is_over() {
    let Some(mut world) = World::new(LEASE).await else { return };
    world.still_works().await;
    let (shim, claude, scanned) = (world.shim(), world.claude().unwrap(), world.brain.state().clone());
    world.gateway.kill_executor();
    let killed = Instant::now();
    within(LENGTH + SECONDS, "Claude Code and its shim are gone", async || {
        !processes::is_alive(claude) && !processes::is_alive(shim)
    })
    .await;
    assert!(killed.elapsed() > LENGTH - SECONDS, "not before the lease is over: {:?}", killed.elapsed());
    world.gateway.start_executor().await;
    let state = world.brain.recover().await.unwrap().clone();
    assert_eq!(
        (state.status(), state.claude_session_id()),
        ("idle", scanned.claude_session_id()),
        "{}",
        state.0
    );
    assert_eq!(state.0["last_result"]["ok"], false);
    let state = world.goes_on().await;
    assert!(only(state.unreported()).ok, "what was done is told: {}", state.0);
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_middle_of_a_command_everything_is_ended_and_told_afterwards() {
    let Some(mut world) = World::new(LEASE).await else { return };
    let (shim, claude, word) = (world.shim(), world.claude().unwrap(), "97533.0001");
    let script =
        format!("echo ran >> /tmp/count; (setsid sh -c 'trap \"\" TERM; sleep {word}' &); sleep {word}");
    let reply = world.brain.reply_arguments(None, &[sh(&script)]);
    let client = world.gateway.client();
    let asked = tokio::spawn(async move { client.call("native_session_reply_and_wait", reply).await });
    running(word).await;
    let renewed = Instant::now();
    let _ = asked.await.unwrap();
    within(LENGTH + SECONDS, "the lease is over", async || {
        world.seen().await.status() == SessionStatus::LeaseExpired
    })
    .await;
    within(SECONDS, "the command and Claude Code are gone", async || {
        with(word) == 0 && !processes::is_alive(claude) && !processes::is_alive(shim)
    })
    .await;
    assert!(renewed.elapsed() > LENGTH - SECONDS, "not before the lease is over");
    assert_eq!(world.brain.status(0).await.unwrap().status(), "lease_expired", "it can be looked at");
    let shown = world.gateway.cli(&["show", world.brain.session_id()]);
    assert!(shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains("RunCommand"));
    let state = world.brain.recover().await.unwrap();
    assert_eq!(state.status(), "idle", "{}", state.0);
    let state = world.goes_on().await;
    let result = only(state.unreported());
    assert_eq!((result.ok, &result.receipt["code"]), (false, &"cancelled".into()), "{}", result.receipt);
    let scratch = world.gateway.state_dir().join("sessions").join(world.brain.session_id()).join("scratch");
    assert_eq!(std::fs::read_to_string(scratch.join("count")).unwrap(), "ran\n", "once, and not again");
    gone(claude).await;
    world.gateway.finish().await;
}
