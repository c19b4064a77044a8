//! Claude Code, Node, git, the sandbox.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::Patient;

#[test]
fn a_claude_code_that_is_missing_of_another_version_or_broken_is_told() {
    let none = Patient::new().with("CLAUDE_BIN", "/nonexistent/claude").doctor(&[]);
    none.expect("claude_code", "failed", "npm install -g @anthropic-ai/claude-code@2.1.247");
    assert_eq!(none.verdict("claude_version"), "-");
    // Native programs that are something else.
    let other = |lines: &str| Patient::new().configured(lines).with("CLAUDE_BIN", "/bin/ls").doctor(&[]);
    other("").expect("claude_version", "failed", "is refused");
    other("[claude]\nallow_unverified_version = true\n").expect(
        "claude_version",
        "warning",
        "verified with 2.1.247",
    );
    let broken = Patient::new().with("CLAUDE_BIN", "/bin/false").doctor(&[]);
    broken.expect("claude_version", "failed", "it ended with");
}

#[test]
fn node_and_git_are_missed() {
    let patient = Patient::new().with("PATH", "/nonexistent").doctor(&[]);
    patient.expect("node", "warning", "not in PATH");
    patient.expect("git", "warning", "worktree_write");
}

/// A launcher that says what the test wants it to say.
fn with_launcher(script: &str) -> Patient {
    let patient = Patient::new();
    let launcher = patient.at("h/bin/sandbox-launch");
    std::fs::write(&launcher, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&launcher, Permissions::from_mode(0o755)).unwrap();
    let directory = patient.at("h/bin").display().to_string();
    patient.configured(&format!("[claude]\nhelper_dir = {directory:?}\n"))
}

#[test]
fn a_layer_that_the_system_does_not_give_is_named_with_its_remedy() {
    let failure = r#"{"layer":"userns","call":"unshare","errno":1,"remedy":"app_armor_userns"}"#;
    let report = format!(
        r#"{{"policies":[{{"policy":"command","layers":[],"failure":{failure}}}],"landlock_version":6}}"#
    );
    let found = with_launcher(&format!("echo '{report}'; exit 1")).doctor(&[]);
    found.expect("sandbox_layers", "failed", "userns");
    found.expect("sandbox_layers", "failed", "apparmor_parser");
    found.expect("sandbox_canaries", "failed", "did not run");
}

#[test]
fn a_launcher_that_is_not_there_is_missed() {
    let patient = Patient::new();
    let found = patient.configured("[claude]\nhelper_dir = \"/nonexistent\"\n").doctor(&[]);
    found.expect("sandbox_layers", "failed", "sandbox-launch is not there");
}
