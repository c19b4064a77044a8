//! Sessions that run commands.

use std::path::Path;
use std::process::Command;

use gatehouse::chatgpt::{Brain, Call, Start};
use serde_json::{Value, json};

use crate::places::Project;
use crate::{Gateway, Setup, claude};

/// A session in a project, with these lines of configuration; `None` if Claude Code is to be left out.
pub async fn session_in(project: &Project, config: &str) -> Option<(Gateway, Brain)> {
    let mut gateway = Gateway::start(Setup::with_claude(claude()?).config(config)).await;
    let brain = gateway.session(&Start::new("Check this project.", project.text())).await;
    Some((gateway, brain))
}

/// Runs a command that has to end well, and gives what it wrote: standard output, then standard error.
///
/// # Panics
/// With the receipt, when it does not end well.
pub async fn works(brain: &mut Brain, argv: &[&str]) -> String {
    let call = Call::new("RunCommand", json!({"argv": argv, "timeout_seconds": 600}));
    brain.act(None, &[call]).await.expect("the reply is taken");
    let state = brain.until(|state| !state.tool_results().is_empty()).await.expect("the results come");
    let receipt: Value = state.tool_results()[0].receipt.clone();
    assert_eq!(receipt["ok"], true, "{argv:?}: {receipt}");
    ["stdout", "stderr"].map(|stream| receipt[stream].as_str().unwrap_or_default()).concat()
}

/// Prepares a project, outside of any sandbox.
///
/// # Panics
/// When that does not work.
pub fn prepared(directory: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(directory).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Copies a folder.
///
/// # Panics
/// When that does not work.
pub fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copied(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The small project as a repository with one commit.
///
/// # Panics
/// When git cannot make it.
#[must_use]
pub fn small_repository() -> Project {
    let project = Project::small();
    let author = ["-c", "user.name=T", "-c", "user.email=t@example.org"];
    let commit = [&author[..], &["commit", "-q", "-m", "first"]].concat();
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "."], &commit] {
        prepared(&project.path(), "git", arguments);
    }
    project
}
