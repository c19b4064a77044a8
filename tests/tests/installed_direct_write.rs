//! Changing files with the real Claude Code, in the very directory that the user chose: what is on the disk at the end is
//! exactly what was asked for, and nothing else has changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use gatehouse::chatgpt::{Brain, Call, Start, State};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::{Value, json};

const NOTEBOOK: &str = r#"{
 "cells": [
  {"cell_type": "code", "execution_count": 3, "id": "c1", "metadata": {}, "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}], "source": ["print(1)"]}
 ],
 "metadata": {"kernelspec": {"name": "python3"}},
 "nbformat": 4,
 "nbformat_minor": 5
}
"#;

fn receipt(state: &State) -> Value {
    let results = state.tool_results();
    assert_eq!(results.len(), 1, "{}", state.0);
    assert!(results[0].ok, "{}", results[0].receipt);
    results[0].receipt.clone()
}

async fn act(brain: &mut Brain, tool: &str, input: Value) -> Value {
    brain.act(None, &[Call::new(tool, input)]).await.unwrap();
    receipt(brain.until(|state| !state.tool_results().is_empty()).await.unwrap())
}

/// Every file below a directory, with its bytes.
fn snapshot(top: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(top).unwrap().display().to_string();
                found.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

async fn change(brain: &mut Brain, project: &Project) {
    let at = |name: &str| project.path().join(name);
    let seen = act(brain, "Read", json!({"file_path": at("src/main.txt")})).await;
    let edit = json!({"file_path": at("src/main.txt"), "old_string": "quicksilver", "new_string": "mercury", "expected_sha256": seen["sha256"]});
    let edited = act(brain, "Edit", edit).await;
    assert_eq!(edited["before_sha256"], seen["sha256"], "{edited}");
    let written = json!({"file_path": at("docs/deep/NEW.md"), "content": "# New\r\n", "create_only": true});
    let written = act(brain, "Write", written).await;
    assert_eq!(written["created_directories"].as_array().unwrap().len(), 2, "{written}");
    let cell = json!({"notebook_path": at("n.ipynb"), "edit_mode": "replace", "cell_id": "c1", "new_source": "print(2)"});
    let cell = act(brain, "NotebookEdit", cell).await;
    assert_eq!(cell["outputs_dropped"], 1, "{cell}");
    let ran = act(brain, "RunCommand", json!({"argv": ["cat", "src/main.txt", "docs/deep/NEW.md"]})).await;
    assert_eq!(ran["stdout"], "first line\nthe word mercury stands here\nlast line\n# New\r\n", "{ran}");
}

#[tokio::test(flavor = "multi_thread")]
async fn read_edit_write_notebook_command_and_what_is_on_the_disk() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    project.write("n.ipynb", NOTEBOOK);
    let mut expected = snapshot(&project.path());
    let start = Start { profile: "direct_write", ..Start::new("Rename it.", project.text()) };
    let mut brain = gateway.session(&start).await;
    assert_eq!(
        (&brain.state().0["workspace"]["kind"], &brain.state().0["workspace"]["writable"]),
        (&json!("direct"), &json!(true))
    );
    change(&mut brain, &project).await;
    brain.finish("Renamed.").await.unwrap();

    expected.insert("src/main.txt".into(), b"first line\nthe word mercury stands here\nlast line\n".to_vec());
    expected.insert("docs/deep/NEW.md".into(), b"# New\r\n".to_vec());
    let notebook = NOTEBOOK
        .replace("\"execution_count\": 3", "\"execution_count\": null")
        .replace(r#"[{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]"#, "[]")
        .replace("print(1)", "print(2)");
    expected.insert("n.ipynb".into(), notebook.into_bytes());
    assert_eq!(snapshot(&project.path()), expected);

    brain.go_on("And what does it say now?").await.unwrap();
    gateway.learn(&brain);
    let seen = act(&mut brain, "Read", json!({"file_path": project.path().join("src/main.txt")})).await;
    assert!(seen["content"].as_str().unwrap().contains("mercury"), "{seen}");
    brain.finish("Mercury.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_whose_executor_is_killed_is_made_once_or_not_at_all_and_told() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    let file = project.write("counter", "0\n");
    let start = Start { profile: "direct_write", ..Start::new("Count.", project.text()) };
    let mut brain = gateway.session(&start).await;
    for round in 0..4 {
        let input = json!({"file_path": file, "old_string": format!("{round}\n"), "new_string": format!("{}\n", round + 1)});
        let arguments = brain.reply_arguments(None, &[Call::new("Edit", input)]);
        let client = gateway.client();
        let asked =
            tokio::spawn(async move { client.call("native_session_reply_and_wait", arguments).await });
        // Somewhere between the reply's commit and the receipt: the kill is not aimed.
        tokio::task::yield_now().await;
        gateway.kill_executor();
        gateway.start_executor().await;
        let _ = asked.await.unwrap();
        let mut state = brain.status(0).await.unwrap().clone();
        if state.tool_results().is_empty() && state.status() == "waiting_for_gpt" {
            // The reply was not taken; it is given again.
            let input = json!({"file_path": file, "old_string": format!("{round}\n"), "new_string": format!("{}\n", round + 1)});
            brain.act(None, &[Call::new("Edit", input)]).await.unwrap();
        }
        state = brain.until(|state| !state.tool_results().is_empty()).await.unwrap().clone();
        let result = state.tool_results().remove(0);
        let now = std::fs::read_to_string(&file).unwrap();
        let made = now == format!("{}\n", round + 1);
        assert_eq!(result.ok, made, "round {round}: {now:?} {}", result.receipt);
        if !made {
            std::fs::write(&file, format!("{}\n", round + 1)).unwrap();
        }
        assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 3, "no temporary file stays");
    }
    brain.finish("Counted.").await.unwrap();
    gateway.finish().await;
}
