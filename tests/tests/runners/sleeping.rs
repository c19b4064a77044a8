//! Processes that do not run for a while: a machine that sleeps, seen from the processes.

use std::time::Duration;

use gatehouse::chatgpt::{Brain, Start};
use gatehouse_tests::processes;
use nix::sys::signal::Signal;

use super::{World, gone};

const LEASE: &str = "[limits]\nlease_seconds = 60";
/// Longer than the lease, and than any deadline of a question between our processes.
const NIGHT: Duration = Duration::from_secs(72);

/// Everything that one gateway has running.
fn all_of(world: &World) -> Vec<u32> {
    let state_dir = world.gateway.state_dir();
    let mut all = processes::of_directory(state_dir.parent().unwrap());
    all.extend([world.gateway.executor_pid(), world.gateway.front_pid()].into_iter().flatten());
    all.sort_unstable();
    all.dedup();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_slept_over_the_end_of_a_lease_wakes_with_the_living_and_without_the_dead() {
    let Some(mut world) = World::new(LEASE).await else { return };
    let mut other =
        Brain::start(world.gateway.client(), &Start::new("Me too.", world.project.text())).await.unwrap();
    other.settle().await.unwrap();
    world.gateway.learn(&other);
    let (turn, claude) = (world.brain.turn_id().to_owned(), world.claude());
    let dead = processes::claude_of(other.state().claude_session_id()).unwrap();
    let all = all_of(&world);
    assert!(all.len() >= 6, "executor, front, two shims and two Claude Codes: {all:?}");
    all.iter().for_each(|pid| processes::signal(*pid, Signal::SIGSTOP));
    // One does not wake up again.
    processes::signal(processes::shim_of(other.state().claude_session_id()).unwrap(), Signal::SIGKILL);
    tokio::time::sleep(NIGHT).await;
    all.iter().for_each(|pid| processes::signal(*pid, Signal::SIGCONT));
    // With the lease from the evening before.
    let state = world.brain.status(0).await.unwrap();
    assert_eq!((state.status(), state.turn_id()), ("waiting_for_gpt", Some(&*turn)), "{}", state.0);
    world.still_works().await;
    assert_eq!(world.claude(), claude, "by the same process");
    let state = other.until(|state| state.status() != "waiting_for_gpt").await.unwrap();
    assert_eq!((state.status(), &state.0["last_result"]["ok"]), ("idle", &false.into()), "{}", state.0);
    gone(dead).await;
    world.brain.finish("Good morning.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_slept_while_its_lease_was_renewed_goes_on() {
    let Some(mut world) = World::new(LEASE).await else { return };
    let (shim, claude) = (world.shim(), world.claude());
    processes::signal(shim, Signal::SIGSTOP);
    for _ in 0..6 {
        tokio::time::sleep(NIGHT / 6).await;
        assert_eq!(world.brain.status(0).await.unwrap().status(), "waiting_for_gpt");
    }
    processes::signal(shim, Signal::SIGCONT);
    world.still_works().await;
    assert_eq!((world.claude(), world.shim()), (claude, shim));
    world.brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}
