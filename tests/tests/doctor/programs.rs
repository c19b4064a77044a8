//! Claude Code, Node, git, the sandbox.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

#[cfg(target_os = "linux")]
use gatehouse_tests::binaries::binary;
#[cfg(target_os = "linux")]
use gatehouse_tests::skip;

#[cfg(target_os = "linux")]
use crate::Findings;
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
    fs::write(&launcher, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&launcher, Permissions::from_mode(0o755)).unwrap();
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

/// The real launcher, behind one that changes what it is ordered, as a launcher with a fault might.
#[cfg(target_os = "linux")]
fn with_faulty_launcher(fault: &str) -> Findings {
    let real = binary("sandbox-launch");
    let real = real.display();
    // bash, for descriptors above 9. The order comes through the descriptor that the first argument names.
    let script = format!(
        r#"[ "$1" = --probe ] && exec '{real}' "$@"
order=$(cat <&"$1")
exec {{changed}}< <(printf %s "$order" | sed -E '{fault}')
exec '{real}' "$changed" "$2" "$3""#
    );
    let patient = with_launcher(&script);
    let launcher = patient.at("h/bin/sandbox-launch");
    let text = fs::read_to_string(&launcher).unwrap();
    fs::write(&launcher, text.replace("#!/bin/sh\n", "#!/bin/bash\n")).unwrap();
    // Where the canaries' files lie.
    fs::create_dir(patient.at("s")).unwrap();
    let found = patient.doctor(&[]);
    // It says itself that every layer is there: only a canary can tell otherwise.
    found.expect("sandbox_layers", "ok", "");
    found
}

#[cfg(target_os = "linux")]
#[test]
fn a_canary_that_gets_through_a_layer_is_told_by_what_it_could_do() {
    if Patient::new().doctor(&[]).verdict("sandbox_canaries") != "ok" && skip("userns") {
        return;
    }
    with_faulty_launcher("").expect(
        "sandbox_canaries",
        "ok",
        "denied inside: read, write, network, processes",
    );
    // Nothing is hidden.
    let found = with_faulty_launcher(r#"s/"hidden":\[[^]]*\]\}\]/"hidden":[]/"#);
    found.expect("sandbox_canaries", "failed", "a confined program could: read |");
    found.expect("sandbox_canaries", "failed", "Do not let sessions run commands here");
    // What should only be read may be written.
    let found = with_faulty_launcher(
        r#"s/"readable":(\[[^]]*\]\}\])(.*)"writable":\[\]/"readable":[]\2"writable":\1/"#,
    );
    found.expect("sandbox_canaries", "failed", "a confined program could: write |");
    // Nothing may be read: that everything else is denied too proves nothing.
    let found = with_faulty_launcher(r#"s/"readable":\[[^]]*\]\}\]/"readable":[]/"#);
    found.expect("sandbox_canaries", "failed", "could not even do what is allowed");
}
