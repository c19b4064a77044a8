//! Commands that the real Claude Code is told to run: their receipts, and what becomes of them when the gateway is killed or
//! the session is stopped in the middle.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use gatehouse::chatgpt::{Brain, Call, Start, State, ToolResult};
use gatehouse_tests::places::Project;
use gatehouse_tests::waiting::until;
use gatehouse_tests::{Gateway, Setup, claude, processes};
use serde_json::{Value, json};

fn command(argv: &[&str]) -> Call {
    Call::new("RunCommand", json!({"argv": argv}))
}

fn sh(script: &str) -> Call {
    command(&["sh", "-c", script])
}

fn only(state: &State) -> ToolResult {
    let mut results = state.tool_results();
    assert_eq!(results.len(), 1, "{}", state.0);
    results.remove(0)
}

async fn with_session() -> Option<(Gateway, Project, Brain)> {
    let mut gateway = Gateway::start(Setup::with_claude(claude()?)).await;
    let project = Project::small();
    let brain = gateway.session(&Start::new("Run something.", project.text())).await;
    Some((gateway, project, brain))
}

/// Waits until a process runs that has this word among its arguments.
async fn running(word: &str) {
    until("the command runs", async || (with(word) > 0).then_some(())).await;
}

fn with(word: &str) -> usize {
    processes::all()
        .iter()
        .filter(|process| process.arguments.iter().any(|argument| argument == word))
        .count()
}

async fn gone(word: &str) {
    until("every process of the command is gone", async || (with(word) == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_and_tell_what_came_of_them() {
    let Some((gateway, project, mut brain)) = with_session().await else { return };
    let seen = only(brain.act(Some("I look."), &[sh("pwd; cat README.md; env; id -u")]).await.unwrap());
    assert!(seen.ok, "{}", seen.receipt);
    let text = seen.receipt["stdout"].as_str().unwrap();
    assert!(text.starts_with(&format!("{}\n# Lantern\n", project.text())), "{text}");
    assert!(!text.contains(gateway.canary()), "nothing of the executor's environment comes along");
    let failed = only(brain.act(None, &[sh("echo broken >&2; exit 7")]).await.unwrap());
    assert_eq!(
        (failed.ok, &failed.receipt["code"], &failed.receipt["exit_code"]),
        (false, &json!("command_failed"), &json!(7))
    );
    assert_eq!(failed.receipt["stderr"], "broken\n");
    let refused = only(brain.act(None, &[command(&["env", "sudo", "id"])]).await.unwrap());
    assert_eq!(refused.receipt["code"], "command_refused", "{}", refused.receipt);

    let calls = [sh("echo one > /tmp/one; cat /tmp/one"), sh("echo two"), sh("touch README.md")];
    let state = brain.act(None, &calls).await.unwrap();
    let results = state.tool_results();
    let said: Vec<_> = results.iter().map(|result| result.receipt["stdout"].as_str().unwrap()).collect();
    assert_eq!(said, ["one\n", "two\n", ""]);
    assert!(results[2].receipt["stderr"].as_str().unwrap().contains("Read-only file system"));
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

/// What the status says of the actions under way.
fn actions(state: &State) -> Vec<Value> {
    state.0["current_run"]["actions"].as_array().cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_is_killed_takes_its_command_along_and_says_so_afterwards() {
    let Some((mut gateway, _project, mut brain)) = with_session().await else { return };
    let word = "97531.0001";
    let script = format!("echo ran >> /tmp/count; setsid sleep {word} & sleep {word}");
    let arguments = brain.reply_arguments(None, &[sh(&script)]);
    let client = gateway.client();
    let asked = tokio::spawn(async move { client.call("native_session_reply_and_wait", arguments).await });
    running(word).await;
    let state = brain
        .until(|state| actions(state).iter().any(|action| action["state"] == "performing"))
        .await
        .unwrap();
    let shown = actions(state).remove(0);
    assert_eq!((&shown["name"], shown["elapsed_ms"].is_u64()), (&json!("RunCommand"), true), "{shown}");
    gateway.kill_executor();
    gone(word).await;
    gateway.start_executor().await;
    let _ = asked.await.unwrap();
    let result = only(brain.until(|state| !state.tool_results().is_empty()).await.unwrap());
    assert_eq!((result.ok, &result.receipt["code"]), (false, &json!("cancelled")), "{}", result.receipt);
    assert!(result.receipt["message"].as_str().unwrap().contains("restarted"), "{}", result.receipt);
    let count = only(brain.act(None, &[sh("cat /tmp/count")]).await.unwrap());
    assert_eq!(count.receipt["stdout"], "ran\n", "once, and not again");
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_command_and_its_children() {
    let Some((gateway, _project, mut brain)) = with_session().await else { return };
    let word = "97531.0002";
    let script =
        format!("for n in 1 2 3 4 5; do (setsid sh -c 'trap \"\" TERM; sleep {word}' &); done; sleep {word}");
    let arguments = brain.reply_arguments(None, &[sh(&script)]);
    let client = gateway.client();
    let asked = tokio::spawn(async move { client.call("native_session_reply_and_wait", arguments).await });
    running(word).await;
    brain.stop("Enough.").await.unwrap();
    let state = brain.until(|state| state.status() == "stopped").await.unwrap();
    assert_eq!(state.0["terminal"]["reason"], "Enough.");
    assert_eq!(with(word), 0, "a session is stopped when nothing of it runs any more");
    let _ = asked.await.unwrap();
    gateway.finish().await;
}
