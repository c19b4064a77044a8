//! The examples of `deploy/examples/`, as a user's scripts: the published contract and other people's gRPC.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use gatehouse::chatgpt::{Call, Start};
use gatehouse_tests::binaries::{folder, repository};
use gatehouse_tests::places::Project;
use gatehouse_tests::record::Way;
use gatehouse_tests::{Gateway, Setup, claude, skip};
use serde_json::{Value, json};

/// The script with the gateway's socket, run by the Python that has grpcio; `None` if Python is left out.
fn script(gateway: &Gateway, arguments: &[&str]) -> Option<Command> {
    let home = std::env::var_os("FOREIGN_HOME").map_or_else(|| folder().join("../foreign"), PathBuf::from);
    let python = home.join("venv/bin/python");
    if !python.is_file() && skip("python") {
        return None;
    }
    assert!(python.is_file(), "Python 3 with venv is missing; GATEHOUSE_SKIP=python leaves this test out");
    let mut command = Command::new(python);
    command.arg(repository().join("deploy/examples/gatehouse_operator.py")).args(arguments);
    command.env("GATEHOUSE_SOCKET", gateway.runtime_dir().join("operator/operator.sock"));
    Some(command)
}

fn output(gateway: &Gateway, command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    gateway.record().add(Way::Operator, out.clone());
    out.into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_script_lists_sessions_follows_events_over_a_restart_and_undoes_a_write() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let Some(mut list) = script(&gateway, &["list"]) else { return gateway.finish().await };
    let project = Project::small();
    let file = project.write("a.txt", "one\n");
    let start = Start { profile: "direct_write", ..Start::new("Change it.", project.text()) };
    let mut brain = gateway.session(&start).await;
    let id = brain.session_id().to_owned();
    let listed = output(&gateway, &mut list);
    assert!(listed.contains(&format!("{id}\twaiting_for_gpt\t{}", project.text())), "{listed}");

    let mut following = script(&gateway, &["follow", "--from", "1", "--until", "session.stopped"]).unwrap();
    let mut following = following.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut event = || serde_json::from_str::<Value>(&lines.next().expect("it goes on").unwrap()).unwrap();
    let mut events = vec![event()];
    // It has begun. Now the executor goes away and comes back: nothing may be lost or come twice.
    gateway.kill_executor();
    gateway.start_executor().await;
    gateway_answers(&mut brain).await;

    let edit = Call::new("Edit", json!({"file_path": file, "old_string": "one", "new_string": "two"}));
    brain.act(None, &[edit]).await.unwrap();
    let action = brain.state().tool_results()[0].receipt["tool_call_id"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
    let undone = output(&gateway, &mut script(&gateway, &["undo", &id, &action]).unwrap());
    assert!(undone.trim_end().ends_with("a.txt"), "{undone}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
    let again = script(&gateway, &["undo", &id, &action]).unwrap().output().unwrap();
    assert!(!again.status.success(), "an undo is not repeated blindly");

    brain.stop("The test is over.").await.unwrap();
    while events.last().unwrap()["kind"] != "session.stopped" {
        events.push(event());
    }
    assert!(following.wait().unwrap().success(), "it ended by itself");
    let numbers: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "every event once, in order");
    for kind in ["session.created", "turn.opened", "reply.committed", "action.settled", "undo.prepared"] {
        assert!(events.iter().any(|event| event["kind"] == kind), "{kind}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_the_guide_run_as_they_are_written() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let Some(script) = script(&gateway, &["list"]) else { return gateway.finish().await };
    let project = Project::small();
    let file = project.write("a.txt", "one\n");
    let start = Start { profile: "direct_write", ..Start::new("Change it.", project.text()) };
    let mut brain = gateway.session(&start).await;
    let edit = Call::new("Edit", json!({"file_path": file, "old_string": "one", "new_string": "two"}));
    brain.act(None, &[edit]).await.unwrap();
    let action = brain.state().tool_results()[0].receipt["tool_call_id"].as_str().unwrap().to_owned();
    brain.stop("The test is over.").await.unwrap();

    let guide = std::fs::read_to_string(repository().join("docs/automation.md")).unwrap();
    let block = guide.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let block = block
        .replace("ns_0123456789abcdef0123456789abcdef", brain.session_id())
        .replace("toolu_0123456789abcdef01234567", &action);
    // The sockets where the guide has them, and the Python that has what it asks for.
    let runtime = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(gateway.runtime_dir(), runtime.path().join("gatehouse")).unwrap();
    let python = std::path::Path::new(script.get_program()).parent().unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-e", "-c", &block]).current_dir(repository()).env_remove("GATEHOUSE_SOCKET");
    shell.env("XDG_RUNTIME_DIR", runtime.path()).env("PATH", format!("{}:/usr/bin:/bin", python.display()));
    let shown = output(&gateway, &mut shell);
    for part in [brain.session_id(), "session.created", "session.stopped", "a.txt"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
    gateway.finish().await;
}

/// Waits until the shim has found the new executor.
async fn gateway_answers(brain: &mut gatehouse::chatgpt::Brain) {
    gatehouse_tests::waiting::until("the runner is attached again", async || {
        let state = brain.status(0).await.ok()?;
        (state.0["runtime_attached"] == true).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_example_lists_and_follows() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    let brain = gateway.session(&Start::new("Hello.", project.text())).await;
    let example = folder().join("examples/operator_events");
    assert!(example.is_file(), "cargo build -p gatehouse --examples");
    let shown = output(&gateway, Command::new(example).arg(gateway.runtime_dir()).args(["1", "2"]));
    let lines: Vec<_> = shown.lines().collect();
    assert!(
        lines[0].starts_with(brain.session_id()) && lines[0].contains("SESSION_STATUS_WAITING_FOR_GPT"),
        "{shown}"
    );
    assert!(lines[1].starts_with("1\t") && lines[1].ends_with("session.created"), "{shown}");
    assert_eq!(lines.len(), 3);
    gateway.finish().await;
}
