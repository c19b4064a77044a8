//! Ending a session: in order, whatever it is doing, and once.

use std::time::Duration;

use gatehouse::chatgpt::{Brain, Start, fresh_id};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude, processes};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{World, gone, running, sh, with, within};

async fn stop(brain: &Brain, gateway: &Gateway, request_id: &str) -> Result<Value, String> {
    let arguments = brain.with_ids(json!({"request_id": request_id, "reason": "Enough."}));
    match gateway.client().call("native_session_stop", arguments).await {
        Ok(state) => Ok(state.0),
        Err(error) => Err(error.code().unwrap_or_else(|| panic!("{error}")).to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_being_launched_is_stopped() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    for delay in [0, 60, 200, 400] {
        let start = Start { wait_seconds: 0, ..Start::new("Hello.", project.text()) };
        let mut brain = Brain::start(gateway.client(), &start).await.unwrap();
        tokio::time::sleep(Duration::from_millis(delay)).await;
        gateway.learn(&brain);
        stop(&brain, &gateway, &fresh_id()).await.unwrap();
        let state = brain.until(|state| state.status() == "stopped").await.unwrap();
        assert_eq!(state.0["terminal"]["reason"], "Enough.");
        processes::no_shim_is_left(&gateway.runtime_dir()).await;
        assert_eq!(processes::claude_of(brain.state().claude_session_id()), None);
    }
    gateway.finish().await;
}

/// It is stopped while it thinks, by a signal that it cannot react to.
#[tokio::test(flavor = "multi_thread")]
async fn a_claude_code_that_does_not_react_is_ended_all_the_same() {
    let Some(mut world) = World::new("").await else { return };
    let claude = world.claude().unwrap();
    processes::signal(claude, Signal::SIGSTOP);
    let reply = world.brain.reply_arguments(None, &[sh("true")]);
    let client = world.gateway.client();
    let asked = tokio::spawn(async move { client.call("native_session_reply_and_wait", reply).await });
    world.brain.until(|state| state.status() == "running").await.unwrap();
    let took = tokio::time::Instant::now();
    stop(&world.brain, &world.gateway, &fresh_id()).await.unwrap();
    world.brain.until(|state| state.status() == "stopped").await.unwrap();
    assert!(took.elapsed() < Duration::from_secs(9), "{:?}", took.elapsed());
    gone(claude).await;
    processes::no_shim_is_left(&world.gateway.runtime_dir()).await;
    let _ = asked.await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_does_not_react_is_ended_and_a_stop_meanwhile_changes_nothing() {
    let Some(mut world) = World::new("").await else { return };
    let (shim, claude) = (world.shim(), world.claude().unwrap());
    processes::signal(shim, Signal::SIGSTOP);
    let request = fresh_id();
    let first = stop(&world.brain, &world.gateway, &request);
    let others = async {
        world_until_stopping(&world).await;
        assert_eq!(stop(&world.brain, &world.gateway, &fresh_id()).await.unwrap_err(), "session_busy");
        let again = stop(&world.brain, &world.gateway, &request).await.unwrap();
        assert_eq!((&again["replay"], &again["stop_request"]["reason"]), (&json!(true), &json!("Enough.")));
    };
    let (first, ()) = tokio::join!(first, others);
    first.unwrap();
    world.brain.until(|state| state.status() == "stopped").await.unwrap();
    gone(claude).await;
    gone(shim).await;
    assert_eq!(stop(&world.brain, &world.gateway, &fresh_id()).await.unwrap_err(), "session_stopped");
    assert_eq!(stop(&world.brain, &world.gateway, &request).await.unwrap()["replay"], true);
    world.gateway.finish().await;
}

async fn world_until_stopping(world: &World) {
    use gatehouse_proto::v1::SessionStatus;
    within(Duration::from_secs(10), "it is being stopped", async || {
        world.seen().await.status() == SessionStatus::Stopping
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_an_executor_died_in_is_brought_to_its_end_by_the_next() {
    let Some(mut world) = World::new("").await else { return };
    let (shim, claude, word, request) = (world.shim(), world.claude().unwrap(), "97534.0001", fresh_id());
    let script =
        format!("for n in 1 2 3; do (setsid sh -c 'trap \"\" TERM; sleep {word}' &); done; sleep {word}");
    let reply = world.brain.reply_arguments(None, &[sh(&script)]);
    let client = world.gateway.client();
    let asked = tokio::spawn(async move { client.call("native_session_reply_and_wait", reply).await });
    running(word).await;
    // It cannot end at once, so the executor dies before it has.
    processes::signal(shim, Signal::SIGSTOP);
    let arguments = world.brain.with_ids(json!({"request_id": request, "reason": "Enough."}));
    let client = world.gateway.client();
    let stopping = tokio::spawn(async move { client.call("native_session_stop", arguments).await });
    world_until_stopping(&world).await;
    world.gateway.kill_executor();
    world.gateway.start_executor().await;
    let _ = (asked.await.unwrap(), stopping.await.unwrap());
    let state = world.brain.until(|state| state.status() == "stopped").await.unwrap();
    assert_eq!(state.0["terminal"]["reason"], "Enough.");
    assert_eq!(stop(&world.brain, &world.gateway, &request).await.unwrap()["replay"], true);
    assert_eq!(with(word), 0, "a session is stopped when nothing of it runs any more");
    gone(claude).await;
    gone(shim).await;
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stopped_session_made_is_kept() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = gatehouse_tests::commands::small_repository();
    let start = Start { profile: "worktree_write", ..Start::new("Hello.", project.text()) };
    let mut brain = gateway.session(&start).await;
    let worktree = std::path::PathBuf::from(brain.state().0["working_directory"].as_str().unwrap());
    let write =
        json!({"file_path": worktree.join("made"), "content": "by Claude Code\n", "create_only": true});
    let made = brain.act(None, &[gatehouse::chatgpt::Call::new("Write", write)]).await.unwrap();
    assert!(made.tool_results()[0].ok, "{}", made.0);
    brain.stop("Enough.").await.unwrap();
    brain.until(|state| state.status() == "stopped").await.unwrap();
    assert_eq!(std::fs::read_to_string(worktree.join("made")).unwrap(), "by Claude Code\n");
    let folder = gateway.state_dir().join("sessions").join(brain.session_id());
    assert!(folder.join("config").is_dir() && folder.join("scratch").is_dir());
    let shown = gateway.cli(&["show", brain.session_id()]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("Write"));
    gateway.finish().await;
}
