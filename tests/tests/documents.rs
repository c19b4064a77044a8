//! The documents: their links lead somewhere, and every command in them is run by a test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use gatehouse::chatgpt::{Brain, Call, Client, Endpoint, Start};
use gatehouse_tests::binaries::{folder, repository};
use gatehouse_tests::places::Project;
use gatehouse_tests::waiting::until;
use gatehouse_tests::{claude, processes};
use nix::sys::signal::Signal;
use serde_json::json;

/// How the documents call the command line.
const GATEHOUSE: &str = "target/debug/gatehouse ";
const SESSION: &str = "ns_0123456789abcdef0123456789abcdef";
const ACTION: &str = "toolu_0123456789abcdef01234567";

/// Commands that no test here runs as written: where each is run, or why it cannot be.
const ELSEWHERE: [(&str, Elsewhere); 13] = [
    ("make demo", Elsewhere::Test("cli", "demo_runs_a_whole_session_on_real_files")),
    ("make up", Elsewhere::Test("documents", "the_commands_of_the_documents_run_as_they_are_written")),
    ("make doctor", Elsewhere::Test("doctor", "a_gateway_in_order_passes_every_check")),
    ("make build claude", Elsewhere::Test("documents", "make_starts_what_the_readme_says")),
    ("cargo test -p gatehouse-tests --test contract", Elsewhere::Ci("make test")),
    ("export GATEHOUSE_SOCKET=", AUTOMATION),
    ("python3 deploy/examples/gatehouse_operator.py list", AUTOMATION),
    ("python3 deploy/examples/gatehouse_operator.py follow", AUTOMATION),
    ("python3 deploy/examples/gatehouse_operator.py undo", AUTOMATION),
    ("tunnel-client doctor --profile gatehouse --explain", Elsewhere::NotTried),
    ("tunnel-client run --profile gatehouse", Elsewhere::NotTried),
    (
        "target/debug/gatehouse up",
        Elsewhere::Test("cli", "up_is_ready_when_it_says_so_and_down_ends_everything"),
    ),
    ("target/debug/gatehouse demo", Elsewhere::Test("cli", "demo_runs_a_whole_session_on_real_files")),
];
const AUTOMATION: Elsewhere =
    Elsewhere::Test("foreign_automation", "the_lines_of_the_guide_run_as_they_are_written");

/// How lines begin that are run here, in a shell as a person has it.
const HERE: [&str; 3] = [GATEHOUSE, "mkdir -p ", "(umask 077 && cat > "];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elsewhere {
    /// A suite, and what stands in it.
    Test(&'static str, &'static str),
    /// A step of `.ci/run`.
    Ci(&'static str),
    /// Somebody else's program; the document has to say so in the lines before.
    NotTried,
}

/// The documents that people read, with their text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in [repository().to_owned(), repository().join("docs")] {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|ext| ext == "md")));
    }
    found.sort();
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap().display().to_string()
}

/// A command of a document, and the lines that stand before it.
struct Written {
    command: String,
    document: String,
    before: String,
}

/// What kind of block a line stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Shell,
    Other,
}

/// The lines of all blocks that are marked as shell, and in other blocks those that begin with a prompt.
fn commands() -> Vec<Written> {
    let mut found = Vec::new();
    for (path, text) in documents() {
        let (mut block, mut before) = (Block::None, String::new());
        for line in text.lines().map(str::trim_start) {
            let command = match (block, line.strip_prefix("```")) {
                (Block::None, Some("sh" | "bash" | "shell")) => {
                    block = Block::Shell;
                    None
                }
                (Block::None, Some(_)) => {
                    block = Block::Other;
                    None
                }
                (_, Some(_)) => {
                    (block, before) = (Block::None, String::new());
                    None
                }
                (Block::Shell, None) if !line.is_empty() && !line.starts_with('#') => Some(line),
                (Block::Other, None) => line.strip_prefix("$ "),
                (Block::Shell, None) => None,
                (Block::None, None) => {
                    before.push_str(line);
                    before.push('\n');
                    None
                }
            };
            if let Some(command) = command {
                let command = match command.strip_prefix("gatehouse ") {
                    Some(rest) => format!("{GATEHOUSE}{rest}"),
                    None => command.to_owned(),
                };
                found.push(Written { command, document: shown(&path), before: before.clone() });
            }
        }
        assert_eq!(block, Block::None, "{}: a block does not end", shown(&path));
    }
    found
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
    for Written { command, document, before } in commands() {
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
            Elsewhere::NotTried => {
                let last = before.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                assert!(last.contains("(not tried)"), "{document}: `{command}` is not marked as never tried");
            }
        }
    }
    assert!(used.contains("make demo") && used.contains("make up"), "the documents lost their beginning");
}

/// `gatehouse up` as a person starts it: in an empty home, without a flag.
struct Newcomer {
    home: tempfile::TempDir,
    up: Child,
    endpoint: Endpoint,
}

impl Newcomer {
    async fn start(claude: &Path) -> Self {
        let home = tempfile::Builder::new().prefix("gh").tempdir_in("/tmp").unwrap();
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap();
        let config = home.path().join(".config/gatehouse");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("config.toml"), format!("[front]\nlisten = \"{free}\"\n")).unwrap();
        std::fs::create_dir_all(home.path().join("repository/target")).unwrap();
        std::os::unix::fs::symlink(folder(), home.path().join("repository/target/debug")).unwrap();
        std::fs::create_dir(home.path().join("run")).unwrap();
        let skill = home.path().join(".claude/skills/review");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "# Review\n\nBe careful.\n").unwrap();
        let mut command = Self::shell(home.path(), "exec target/debug/gatehouse up --json");
        let up = command.env("CLAUDE_BIN", claude).stdout(Stdio::piped()).spawn().unwrap();
        let mut newcomer = Self { home, up, endpoint: Endpoint::Tcp { address: free, key: None } };
        newcomer.endpoint = newcomer.ready().await;
        newcomer
    }

    async fn ready(&self) -> Endpoint {
        let Endpoint::Tcp { address, .. } = self.endpoint else { unreachable!("it listens on TCP") };
        let key_file = self.home.path().join(".local/state/gatehouse/front.key");
        until("the gateway is up", async || {
            let key = std::fs::read_to_string(&key_file).ok()?.trim().to_owned();
            let endpoint = Endpoint::Tcp { address, key: Some(key) };
            Client::http(endpoint.clone(), None).initialize().await.ok().map(|_| endpoint)
        })
        .await
    }

    /// A line as a person types it, in the repository.
    fn shell(home: &Path, line: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(home.join("repository")).env_clear();
        command
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", home.join("run"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        if let Ok(None) = self.up.try_wait() {
            processes::signal(self.up.id(), Signal::SIGTERM);
            let _ = self.up.wait();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_documents_run_as_they_are_written() {
    let Some(claude) = claude() else { return };
    let newcomer = Newcomer::start(&claude).await;
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
    for (number, line) in written.iter().enumerate() {
        // Each has an edit of its own to show and undo, and a name of its own to write to.
        let action = edit(&mut brain, &file, number).await;
        let command = line.command.replace(SESSION, brain.session_id()).replace(ACTION, &action);
        let command = command.replace("report.html", &format!("report-{number}.html"));
        run(&newcomer, line, &command);
    }
    assert!(written.len() >= 8, "the README shows the command line");
    for (name, mode) in [("", 0o700), ("api-key", 0o600), ("gatehouse.yaml", 0o600)] {
        let path = newcomer.home.path().join(".config/tunnel-client").join(name);
        let found = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(found & 0o777, mode, "{}: a key lies there", path.display());
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

fn run(newcomer: &Newcomer, line: &Written, command: &str) {
    let home = newcomer.home.path();
    let endless = command.starts_with("target/debug/gatehouse watch");
    let typed = if endless { format!("timeout --signal=INT 2 {command}") } else { command.to_owned() };
    // Nothing is typed into what asks for it.
    let output = Newcomer::shell(home, &typed).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // 124: it went on until it was stopped.
    let wanted = if endless { 124 } else { 0 };
    assert_eq!(output.status.code(), Some(wanted), "{}: {command}\n{out}\n{err}", line.document);
}

/// The code spans of a text that are commands, blocks left out.
fn spans(text: &str) -> Vec<String> {
    let mut inside = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    let spans = lines.flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned));
    spans.map(|span| span.replace("\\|", "|")).filter(|span| span.contains(' ')).collect()
}

/// What a program says of itself.
fn help(program: &str, words: &[&str]) -> String {
    let output = Command::new(folder().join(program)).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that a program has the subcommand and every flag of a line.
fn assert_understood(program: &str, line: &str, place: &str) {
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let (mut text, mut known) = (help(program, &[]), Vec::new());
    for word in &words {
        let listed = text.lines().any(|line| line.trim_start().split(' ').next() == Some(*word));
        if word.starts_with('-') || !listed {
            break;
        }
        known.push(*word);
        text = help(program, &known);
    }
    assert!(words[0].starts_with('-') || !known.is_empty(), "{place}: there is no `{line}`");
    for flag in words.iter().filter(|word| word.starts_with('-')) {
        let flag = flag.trim_end_matches([',', '.']);
        assert!(text.contains(flag), "{place}: `{line}`: {flag} is unknown to {program} {known:?}");
    }
}

/// The folders of the packages, by name.
fn package(name: &str) -> PathBuf {
    let line = format!("name = \"{name}\"");
    let folders = std::fs::read_dir(repository()).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |folder: &PathBuf| {
        std::fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|text| text.lines().any(|found| found == line))
    };
    folders.into_iter().find(is_it).unwrap_or_else(|| panic!("no package {name}"))
}

/// Asserts that Cargo would find what a line names.
fn assert_in_workspace(line: &str, place: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let after = |flag: &str| words.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1]);
    let Some(package) = after("-p").map(package) else { return };
    for (flag, folder) in [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")] {
        let Some(name) = after(flag) else { continue };
        let folder = package.join(folder);
        let there =
            folder.join(format!("{name}.rs")).is_file() || folder.join(name).join("main.rs").is_file();
        assert!(there, "{place}: `{line}`: no {flag} {name}");
    }
}

#[test]
fn commands_that_stand_in_a_sentence_are_commands_that_there_are() {
    let makefile = std::fs::read_to_string(repository().join("Makefile")).unwrap();
    let mut number = 0;
    for (path, text) in documents() {
        let place = shown(&path);
        for span in spans(&text) {
            number += 1;
            match span.split_once(' ') {
                Some(("gatehouse" | "target/debug/gatehouse", _)) => {
                    assert_understood("gatehouse", &span, &place);
                }
                Some((program @ ("executor-svc" | "mcp-front"), _)) => {
                    assert_understood(program, &span, &place);
                }
                Some(("make", targets)) => {
                    for target in targets.split(' ').filter(|word| !word.contains('=')) {
                        let rule = format!("\n{target}:");
                        assert!(makefile.contains(&rule), "{place}: no target for `make {target}`");
                    }
                }
                Some(("cargo", _)) => assert_in_workspace(&span, &place),
                _ => number -= 1,
            }
        }
    }
    assert!(number > 80, "the documents name many commands, not {number}");
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

/// The anchor that a heading gets where these documents are shown.
fn anchor(heading: &str) -> String {
    let lower = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// The targets of all links and pictures, code left out.
fn links(text: &str) -> Vec<String> {
    let mut prose = String::new();
    let mut inside = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    for (path, text) in documents() {
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, wanted) =
                link.split_once('#').map_or((link.as_str(), None), |(file, name)| (file, Some(name)));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: nothing at {link}", shown(&path));
            if let Some(name) = wanted {
                let there = anchors(&std::fs::read_to_string(&target).unwrap());
                assert!(there.contains(name), "{}: no heading for {link} among {there:?}", shown(&path));
            }
        }
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
