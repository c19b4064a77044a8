//! Changing files with the real Claude Code in a worktree that Gatehouse makes: the changes are there, and the source stays byte
//! for byte what it was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use gatehouse::chatgpt::{Brain, Call, Start};
use gatehouse_tests::commands::{prepared, small_repository};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::{Value, json};

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A file's mode, time of change and SHA-256.
type Seen = (u32, i64, i64, String);

/// Everything below a directory but the list of worktrees.
fn snapshot(top: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let (path, facts) = (entry.path(), entry.metadata().unwrap());
            if path == top.join(".git/worktrees") {
                continue;
            }
            if facts.is_dir() {
                waiting.push(path);
            } else {
                let seen = (
                    facts.permissions().mode(),
                    facts.mtime(),
                    facts.mtime_nsec(),
                    gatehouse_proto::digest::sha256_hex(&std::fs::read(&path).unwrap()),
                );
                found.insert(path, seen);
            }
        }
    }
    found
}

async fn act(brain: &mut Brain, tool: &str, input: Value) -> Value {
    brain.act(None, &[Call::new(tool, input)]).await.unwrap();
    let state = brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
    let results = state.tool_results();
    assert!(results.len() == 1 && results[0].ok, "{}", state.0);
    results[0].receipt.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_is_changed_and_its_source_stays_what_it_was() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = small_repository();
    let (before, head) = (snapshot(&project.path()), git(&project.path(), &["rev-parse", "HEAD"]));
    let start = Start { profile: "worktree_write", ..Start::new("Rename it.", project.text()) };
    let mut brain = gateway.session(&start).await;
    let state = brain.until(|state| state.status() == "waiting_for_gpt").await.unwrap().0.clone();
    let root = PathBuf::from(state["working_directory"].as_str().unwrap());
    assert_eq!(state["source_directory"], project.text());
    assert_eq!(
        (&state["workspace"]["kind"], &state["workspace"]["source_head"]),
        (&json!("worktree"), &json!(head.trim()))
    );
    let at = |name: &str| root.join(name);
    let seen = act(&mut brain, "Read", json!({"file_path": at("src/main.txt")})).await;
    let edit = json!({"file_path": at("src/main.txt"), "old_string": "quicksilver", "new_string": "mercury", "expected_sha256": seen["sha256"]});
    act(&mut brain, "Edit", edit).await;
    act(&mut brain, "Write", json!({"file_path": at("n/new.txt"), "content": "new\n", "create_only": true}))
        .await;
    let notebook = r#"{"cells": [{"cell_type": "raw", "id": "r", "metadata": {}, "source": []}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#;
    act(&mut brain, "Write", json!({"file_path": at("n.ipynb"), "content": notebook, "create_only": true}))
        .await;
    let cell = json!({"notebook_path": at("n.ipynb"), "edit_mode": "insert", "cell_type": "code", "new_source": "1+1", "position": "end"});
    act(&mut brain, "NotebookEdit", cell).await;
    let ran = act(&mut brain, "RunCommand", json!({"argv": ["git", "status", "--porcelain"]})).await;
    assert_eq!(ran["stdout"], " M src/main.txt\n?? n.ipynb\n?? n/\n", "{ran}");
    brain.finish("Renamed.").await.unwrap();

    brain.go_on("What does it say now?").await.unwrap();
    gateway.learn(&brain);
    let seen = act(&mut brain, "Read", json!({"file_path": at("src/main.txt")})).await;
    assert!(seen["content"].as_str().unwrap().contains("mercury"), "{seen}");
    brain.finish("Mercury.").await.unwrap();
    brain.stop("Done.").await.unwrap();
    brain.until(|state| state.status() == "stopped").await.unwrap();

    assert_eq!(
        std::fs::read(at("src/main.txt")).unwrap(),
        b"first line\nthe word mercury stands here\nlast line\n"
    );
    assert_eq!(git(&root, &["rev-parse", "HEAD"]), head, "at the same commit, detached");
    assert_eq!(snapshot(&project.path()), before, "byte for byte, with modes and times");
    assert_eq!(git(&project.path(), &["status", "--porcelain"]), "");
    let list = git(&project.path(), &["worktree", "list", "--porcelain"]);
    assert!(
        list.contains(root.to_str().unwrap()) && list.contains("locked") && list.contains("detached"),
        "{list}"
    );
    // The test's own git has refreshed the index.
    let before = snapshot(&project.path());
    removed_with_its_patch(&gateway, &brain, &project, &root);
    assert_eq!(snapshot(&project.path()), before);
    gateway.finish().await;
}

/// `gatehouse worktree`: listed, not removed while something would be lost, removed once it is saved.
fn removed_with_its_patch(gateway: &Gateway, brain: &Brain, project: &Project, root: &Path) {
    let listed = gateway.cli(&["worktree", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(
        (&listed[0]["state"], &listed[0]["changed_files"]),
        (&json!("changed"), &json!(3)),
        "{listed}"
    );
    let refused = gateway.cli(&["worktree", "remove", brain.session_id()]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && words.contains("--save-patch"), "{words}");
    assert!(root.join("n/new.txt").exists());
    let place = Project::empty();
    let patch = place.path().join("changes.patch");
    let removed =
        gateway.cli(&["worktree", "remove", brain.session_id(), "--save-patch", patch.to_str().unwrap()]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert!(!root.exists());
    assert!(!git(&project.path(), &["worktree", "list"]).contains(root.to_str().unwrap()));
    // What was saved is all of it.
    let copy = place.path().join("copy");
    git(&place.path(), &["clone", "-q", &project.text(), "copy"]);
    git(&copy, &["apply", patch.to_str().unwrap()]);
    assert!(std::fs::read_to_string(copy.join("src/main.txt")).unwrap().contains("mercury"));
    assert_eq!(std::fs::read(copy.join("n/new.txt")).unwrap(), b"new\n");
    assert!(copy.join("n.ipynb").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_clean_repository_gets_a_worktree() {
    let gateway = Gateway::start(Setup::without_claude()).await;
    let refused = async |project: &Project, wanted: &str| {
        let start = Start { profile: "worktree_write", ..Start::new("x", project.text()) };
        let error = gateway.client().call("native_session_start", start.arguments()).await.unwrap_err();
        assert_eq!(error.code(), Some(wanted), "{error}");
    };
    refused(&Project::small(), "working_directory_invalid").await;
    let changed = small_repository();
    changed.write("README.md", "changed");
    refused(&changed, "repository_not_clean").await;
    let untracked = small_repository();
    untracked.write("new", "x");
    refused(&untracked, "repository_not_clean").await;
    let empty = Project::empty();
    prepared(&empty.path(), "git", &["init", "-q"]);
    refused(&empty, "repository_not_clean").await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_that_was_moved_away_is_not_written_and_not_gone_on_with() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = small_repository();
    let start = Start { profile: "worktree_write", ..Start::new("Rename it.", project.text()) };
    let mut brain = gateway.session(&start).await;
    let state = brain.until(|state| state.status() == "waiting_for_gpt").await.unwrap().0.clone();
    let root = PathBuf::from(state["working_directory"].as_str().unwrap());
    let aside = root.with_extension("aside");
    std::fs::rename(&root, &aside).unwrap();
    std::fs::create_dir(&root).unwrap();
    let write = json!({"file_path": root.join("x"), "content": "x", "create_only": true});
    brain.act(None, &[Call::new("Write", write)]).await.unwrap();
    let state = brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
    let result = state.tool_results().remove(0);
    assert_eq!((result.ok, &result.receipt["code"]), (false, &json!("outside_root")), "{}", result.receipt);
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    brain.finish("Gone.").await.unwrap();
    let error = brain.go_on("Again.").await.unwrap_err();
    assert_eq!(error.code(), Some("working_directory_invalid"), "{error}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_without_changes_is_pruned_once_its_session_has_ended() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = small_repository();
    let start = Start { profile: "worktree_write", ..Start::new("Look.", project.text()) };
    let mut brain = gateway.session(&start).await;
    brain.until(|state| state.status() == "waiting_for_gpt").await.unwrap();
    let pruned = || {
        let output = gateway.cli(&["prune", "--older-than", "0s", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        (told["worktrees_removed"].as_u64(), told["worktrees_kept"].as_u64())
    };
    assert_eq!(pruned(), (Some(0), Some(0)), "a live session keeps its worktree");
    brain.finish("Seen.").await.unwrap();
    brain.stop("Done.").await.unwrap();
    brain.until(|state| state.status() == "stopped").await.unwrap();
    assert_eq!(pruned(), (Some(1), Some(0)));
    assert!(!git(&project.path(), &["worktree", "list"]).contains("gh-worktrees-"));
    gateway.finish().await;
}
