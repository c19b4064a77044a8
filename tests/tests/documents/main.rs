//! The documents: their links lead somewhere, and every command in them is run by a test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod links;
mod newcomer;
mod sentences;
mod written;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use gatehouse::chatgpt::{Brain, Call, Client, Start};
use gatehouse_tests::binaries::repository;
use gatehouse_tests::claude;
use gatehouse_tests::places::Project;
use serde_json::{Value, json};

use newcomer::Newcomer;
use written::{GATEHOUSE, Written, commands};

const SESSION: &str = "ns_0123456789abcdef0123456789abcdef";
const ACTION: &str = "toolu_0123456789abcdef01234567";

/// Commands that no test here runs as written: where each is run.
const ELSEWHERE: [(&str, Elsewhere); 11] = [
    ("make demo", Elsewhere::Test("cli", "demo_runs_a_whole_session_on_real_files")),
    ("make up", Elsewhere::Test("documents", "the_commands_of_the_documents_run_as_they_are_written")),
    ("make doctor", Elsewhere::Test("doctor", "a_gateway_in_order_passes_every_check")),
    ("make build claude", Elsewhere::Test("documents", "make_starts_what_the_readme_says")),
    ("cargo test -p gatehouse-tests --test contract", Elsewhere::Ci("make test")),
    ("export GATEHOUSE_SOCKET=", AUTOMATION),
    ("python3 deploy/examples/gatehouse_operator.py list", AUTOMATION),
    ("python3 deploy/examples/gatehouse_operator.py follow", AUTOMATION),
    ("python3 deploy/examples/gatehouse_operator.py undo", AUTOMATION),
    (
        "target/debug/gatehouse up",
        Elsewhere::Test("cli", "up_is_ready_when_it_says_so_and_down_ends_everything"),
    ),
    ("target/debug/gatehouse demo", Elsewhere::Test("cli", "demo_runs_a_whole_session_on_real_files")),
];
const AUTOMATION: Elsewhere =
    Elsewhere::Test("foreign_automation", "the_lines_of_the_guide_run_as_they_are_written");

/// How lines begin that are run here, in a shell as a person has it. OpenAI's program has a stand-in.
const HERE: [&str; 4] = [GATEHOUSE, "mkdir -p ", "(umask 077 && cat > ", "tunnel-client "];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elsewhere {
    /// A suite, and what stands in it.
    Test(&'static str, &'static str),
    /// A step of `.ci/run`.
    Ci(&'static str),
}

fn elsewhere(command: &str) -> Option<(&'static str, Elsewhere)> {
    ELSEWHERE.into_iter().find(|(known, _)| command.starts_with(known))
}

/// The sources of a suite, one file or a folder of them.
fn suite(name: &str) -> String {
    let tests = repository().join("tests/tests");
    let file = tests.join(format!("{name}.rs"));
    if file.is_file() {
        return std::fs::read_to_string(file).unwrap();
    }
    let files = std::fs::read_dir(tests.join(name)).unwrap_or_else(|_| panic!("no suite {name}"));
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn every_command_in_the_documents_is_run_by_a_test() {
    let ci = std::fs::read_to_string(repository().join(".ci/run")).unwrap();
    let mut used = BTreeSet::new();
    for Written { command, document } in commands() {
        let Some((known, how)) = elsewhere(&command) else {
            assert!(
                HERE.iter().any(|begins| command.starts_with(begins)),
                "{document}: no test runs `{command}`; add where it is run to ELSEWHERE in this file"
            );
            continue;
        };
        used.insert(known);
        match how {
            Elsewhere::Test(name, what) => {
                assert!(suite(name).contains(what), "{command}: {name} has no {what}");
            }
            Elsewhere::Ci(step) => {
                assert!(ci.contains(step), "{command}: .ci/run has no {step}");
            }
        }
    }
    assert!(used.contains("make demo") && used.contains("make up"), "the documents lost their beginning");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_documents_run_as_they_are_written() {
    let Some(claude) = claude() else { return };
    let mut newcomer = Newcomer::start(&claude).await;
    let project = Project::small();
    let file = project.write("a.txt", "one\n");
    let client = Arc::new(Client::http(newcomer.endpoint.clone(), None));
    let start = Start { profile: "direct_write", ..Start::new("Change it.", project.text()) };
    let mut brain = Brain::start(client, &start).await.unwrap();
    brain.settle().await.unwrap();

    let mut written: Vec<_> =
        commands().into_iter().filter(|line| elsewhere(&line.command).is_none()).collect();
    // The last of all, wherever it stands.
    written.sort_by_key(|line| line.command.starts_with("target/debug/gatehouse down"));
    let mut reached = false;
    for (number, line) in written.iter().enumerate() {
        // Each has an edit of its own to show and undo, and a name of its own to write to.
        let action = edit(&mut brain, &file, number).await;
        let command = line.command.replace(SESSION, brain.session_id()).replace(ACTION, &action);
        let command = command.replace("report.html", &format!("report-{number}.html"));
        newcomer.runs(line, &command).await;
        if command.starts_with("tunnel-client run") {
            reached = true;
            a_chat_gets_through(&newcomer, &brain).await;
        }
    }
    assert!(written.len() >= 8 && reached, "the README shows the command line, the guide the tunnel");
    for (name, mode) in [("", 0o700), ("api-key", 0o600), ("gatehouse.yaml", 0o600)] {
        let path = newcomer.home().join(".config/tunnel-client").join(name);
        let found = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(found & 0o777, mode, "{}: a key lies there", path.display());
    }
}

/// What the guide promises once the tunnel's client runs: the tools are listed, a call is answered, and the doctor is content.
async fn a_chat_gets_through(newcomer: &Newcomer, brain: &Brain) {
    let message = |id: u32, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let listed = newcomer.tunnel.result(message(1, "tools/list", json!({}))).await;
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(6), "{listed}");
    let arguments = brain.with_ids(json!({}));
    let call = json!({"name": "native_session_status", "arguments": arguments});
    let state = newcomer.tunnel.result(message(2, "tools/call", call)).await;
    assert_eq!(state["structuredContent"]["status"], "waiting_for_gpt", "{state}");

    let told = newcomer.types("target/debug/gatehouse doctor --json").output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let lines = told["checks"].as_array().unwrap();
    for check in ["tunnel_client", "tunnel_profile", "tunnel_key", "tunnel_running", "tool_list"] {
        let line = lines.iter().find(|line| line["check"] == check);
        assert_eq!(line.map(|line| &line["verdict"]), Some(&json!("ok")), "{check}: {line:?}");
    }
}

/// Changes a line of the file, and gives the id of the call.
async fn edit(brain: &mut Brain, file: &Path, number: usize) -> String {
    let old = std::fs::read_to_string(file).unwrap();
    let new = format!("line {number}\n");
    let input = json!({"file_path": file, "old_string": old.trim_end(), "new_string": new.trim_end()});
    brain.act(None, &[Call::new("Edit", input)]).await.unwrap();
    brain.state().tool_results()[0].receipt["tool_call_id"].as_str().unwrap().to_owned()
}

#[test]
fn make_starts_what_the_readme_says() {
    let targets = ["demo", "up", "doctor", "install"].map(|name| (name, format!("gatehouse {name}")));
    let make = |targets: &[&str]| {
        let mut make = Command::new("make");
        // As a person starts it, also where make has started these tests.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").current_dir(repository());
        make.arg("-n").args(targets).output().unwrap()
    };
    assert!(make(&["build", "claude"]).status.success());
    for (target, last) in targets {
        let output = make(&[target]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("cargo build --locked --workspace --bins"), "{said}");
        assert!(said.trim_end().ends_with(&last), "{said}");
    }
}

#[test]
fn the_licence_of_the_manifest_lies_beside_it() {
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("license = \"Apache-2.0 OR MIT\""));
    for (file, words) in
        [("LICENSE-APACHE", "Apache License"), ("LICENSE-MIT", "Permission is hereby granted")]
    {
        assert!(std::fs::read_to_string(repository().join(file)).unwrap().contains(words), "{file}");
    }
}
