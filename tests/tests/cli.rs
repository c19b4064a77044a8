//! The command line: what it prints, how it exits, what it starts and ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::sync::Arc;

use assert_cmd::Command;
use gatehouse::chatgpt::{Brain, Client, Start};
use gatehouse_tests::binaries::{binary, repository};
use gatehouse_tests::places::Project;
use gatehouse_tests::up::{Place, Up};
use gatehouse_tests::waiting::until;
use gatehouse_tests::{Gateway, Setup, claude, processes};
use nix::sys::signal::Signal;
use serde_json::Value;

fn gatehouse() -> Command {
    Command::new(binary("gatehouse"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn run(place: &Place, arguments: &[&str]) -> Output {
    place.command(arguments).output().unwrap()
}

#[test]
fn wrong_usage_is_exit_code_2_and_help_is_0() {
    for arguments in [
        &[][..],
        &["frobnicate"],
        &["show"],
        &["sessions", "--frobnicate"],
        &["up", "--listen"],
        &["diff", "ns_0"],
        &["undo", "ns_0"],
        &["resolve", "ns_0", "toolu_0"],
        &["resolve", "ns_0", "toolu_0", "--keep-disk", "--restore-after"],
        &["prune"],
        &["prune", "--older-than", "soon"],
    ] {
        gatehouse().args(arguments).assert().code(2);
    }
    let help = gatehouse().arg("--help").assert().code(0);
    for command in [
        "up",
        "down",
        "sessions",
        "show",
        "watch",
        "diff",
        "undo",
        "resolve",
        "prune",
        "verify",
        "skills",
        "demo",
        "doctor",
        "install",
        "uninstall",
        "completions",
        "man",
        "Exit codes",
    ] {
        assert!(text(&help.get_output().stdout).contains(command), "{command}");
    }
    gatehouse().arg("--version").assert().code(0);
}

#[test]
fn no_gateway_is_exit_code_3_with_a_way_out() {
    let place = Place::fresh();
    let id = format!("ns_{}", "0".repeat(32));
    for arguments in [
        &["sessions"][..],
        &["show", &id],
        &["watch"],
        &["verify"],
        &["down"],
        &["sessions", "--json"],
        &["diff", &id, "toolu_0"],
        &["undo", &id, "toolu_0"],
        &["resolve", &id, "toolu_0", "--keep-disk"],
        &["prune", "--older-than", "30d"],
    ] {
        let output = run(&place, arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        assert!(text(&output.stderr).contains("gatehouse up"), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_mistake_in_the_configuration_is_wrong_usage_and_is_named() {
    let place = Place::fresh();
    std::fs::write(place.path().join("config.toml"), "[limits]\nlease_second = 60\n").unwrap();
    let output = run(&place, &["up", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let words = text(&output.stderr);
    assert!(words.contains("lease_second") && words.contains("lease_seconds"), "{words}");
    let output = run(&Place::fresh(), &["up", "--listen", "8848"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn up_is_ready_when_it_says_so_and_down_ends_everything() {
    let place = Place::fresh();
    let mut up = Up::start(&place, None);
    for field in ["endpoint", "key_file", "state_dir", "runtime_dir"] {
        assert!(up.ready[field].is_string(), "{}", up.ready);
    }
    let key_file = up.ready["key_file"].as_str().unwrap();
    assert_eq!(std::fs::metadata(key_file).unwrap().permissions().mode() & 0o777, 0o600);
    Client::http(up.endpoint(), None).initialize().await.expect("the endpoint works at once");

    let second = run(&place, &["up", "--json", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1), "one gateway in one place");
    assert!(text(&second.stderr).contains("gatehouse down"));

    let down = run(&place, &["down"]);
    assert_eq!((down.status.code(), text(&down.stdout).as_str()), (Some(0), "Gatehouse is down.\n"));
    assert_eq!(up.ended().code(), Some(0));
    assert!(processes::of_directory(place.path()).is_empty());
    assert_eq!(run(&place, &["down"]).status.code(), Some(3), "there is nothing left to end");
}

#[tokio::test(flavor = "multi_thread")]
async fn up_starts_again_what_dies_in_the_same_place() {
    let place = Place::fresh();
    let mut up = Up::start(&place, None);
    for name in ["mcp-front", "executor-svc", "mcp-front"] {
        let before = up.child(name).expect("it runs");
        processes::signal(before, Signal::SIGKILL);
        until("a new process answers in its place", async || {
            let other = up.child(name).is_some_and(|now| now != before);
            let client = Client::http(up.endpoint(), None);
            let listed = client.call("native_session_status", unknown_session()).await;
            (other && listed.is_err_and(|error| error.code() == Some("unknown_session"))).then_some(())
        })
        .await;
    }
    up.signal(Signal::SIGINT);
    assert_eq!(up.ended().code(), Some(0));
    assert!(processes::of_directory(place.path()).is_empty());
}

fn unknown_session() -> Value {
    let (session, lease) = (format!("ns_{}", "0".repeat(32)), format!("lease_{}", "0".repeat(32)));
    serde_json::json!({"native_session_id": session, "lease_id": lease})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_up_ends_running_sessions_and_a_killed_executor_does_not() {
    let Some(claude) = claude() else { return };
    let (place, project) = (Place::fresh(), Project::small());
    let mut up = Up::start(&place, Some(&claude));
    let client = Arc::new(Client::http(up.endpoint(), None));
    let mut brain = Brain::start(client, &Start::new("Hello.", project.text())).await.unwrap();
    brain.settle().await.unwrap();
    let process = processes::claude_of(brain.state().claude_session_id()).expect("Claude Code lives");

    processes::signal(up.child("executor-svc").unwrap(), Signal::SIGKILL);
    until("the session answers again", async || brain.status(0).await.ok().map(drop)).await;
    assert_eq!(processes::claude_of(brain.state().claude_session_id()), Some(process));

    up.signal(Signal::SIGTERM);
    assert_eq!(up.ended().code(), Some(0));
    assert!(!processes::is_alive(process), "the session's process ended with the gateway");
    until("nothing is left", async || processes::of_directory(place.path()).is_empty().then_some(())).await;
}

#[test]
fn up_for_people_shows_where_and_what_next_and_a_unix_socket_needs_no_key() {
    let place = Place::fresh();
    let socket = format!("unix:{}", place.path().join("mcp.sock").display());
    let mut child =
        place.command(&["up", "--listen", &socket]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut shown = String::new();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    while !shown.contains("Ctrl-C") {
        shown.push_str(&lines.next().expect("it goes on to the end of the screen").unwrap());
        shown.push('\n');
    }
    assert!(shown.contains(&socket) && shown.contains("Next") && !shown.contains("key file"), "{shown}");
    let typed = format!("{} doctor\n", binary("gatehouse").display());
    assert!(shown.contains(&typed), "what is to be typed can be: {shown}");
    assert!(!shown.contains('\u{1b}'), "no colour where there is no terminal");
    processes::signal(child.id(), Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_tunnels_profile_is_private_and_is_replaced_only_when_that_is_asked_for() {
    let place = Place::fresh();
    let (folder, key) = (place.path().join("c/tunnel-client"), place.path().join("key"));
    let file = folder.join("gatehouse.yaml");
    let (file_text, key_text) = (file.to_str().unwrap(), key.to_str().unwrap());
    let write = |digit: &str, more: &[&str]| {
        let tunnel = format!("tunnel_{}", digit.repeat(32));
        let words = ["tunnel-profile", &tunnel, "--api-key-file", key_text, "-o", file_text];
        run(&place, &[&words[..], more].concat())
    };
    let first = write("1", &[]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stdout).contains("The runtime key is not there yet"), "{}", text(&first.stdout));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));

    std::fs::write(&key, "sk-x").unwrap();
    let second = write("2", &[]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("--force"), "{}", text(&second.stderr));
    assert!(std::fs::read_to_string(&file).unwrap().contains(&"1".repeat(32)), "it is what it was");

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let third = write("2", &["--force"]);
    assert!(third.status.success() && !text(&third.stdout).contains("not there"), "{}", text(&third.stderr));
    assert!(std::fs::read_to_string(&file).unwrap().contains(&"2".repeat(32)));
    assert_eq!(mode(&file), 0o600, "also where the old one was not");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no draft stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_show_and_watch_tell_about_a_live_session() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let empty = gateway.cli(&["sessions"]);
    assert!(empty.status.success() && text(&empty.stdout).contains("No live sessions"));
    let project = Project::small();
    let start = Start {
        label: Some("a label".into()),
        ..Start::new("Hello.\nSecond \u{1b}[31mline.", project.text())
    };
    let mut brain = gateway.session(&start).await;
    let id = brain.session_id().to_owned();

    let table = text(&gateway.cli(&["sessions"]).stdout);
    assert!(table.contains(&id) && table.contains("waiting_for_gpt") && !table.contains('\u{1b}'), "{table}");
    let listed: Value = serde_json::from_slice(&gateway.cli(&["sessions", "--json"]).stdout).unwrap();
    assert_eq!(
        (&listed[0]["native_session_id"], &listed[0]["status"]),
        (&id.as_str().into(), &"waiting_for_gpt".into())
    );
    let shown = text(&gateway.cli(&["show", &id]).stdout);
    assert!(shown.contains("Pending turn 1") && shown.contains("Hello.⏎Second \u{fffd}[31mline."), "{shown}");
    let one: Value = serde_json::from_slice(&gateway.cli(&["show", &id, "--json"]).stdout).unwrap();
    assert_eq!(one["pending_turn"]["prompt"], "Hello.\nSecond \u{1b}[31mline.");

    brain.finish("Done.").await.unwrap();
    let one: Value = serde_json::from_slice(&gateway.cli(&["show", &id, "--json"]).stdout).unwrap();
    assert_eq!((&one["status"], &one["last_result"]["text"]), (&"idle".into(), &"Done.".into()));
    for unknown in [format!("ns_{}", "0".repeat(32)), "nonsense".to_owned()] {
        assert_eq!(gateway.cli(&["show", &unknown]).status.code(), Some(1), "{unknown}");
    }
    let verified = gateway.cli(&["verify", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&verified.stdout).unwrap()["ok"], true);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_follows_the_journal_from_any_point_and_ends_with_the_gateway() {
    let place = Place::fresh();
    let mut up = Up::start(&place, Some("/nonexistent/claude".as_ref()));
    let project = Project::small();
    let client = Arc::new(Client::http(up.endpoint(), None));
    let mut brain = Brain::start(client, &Start::new("Hello.", project.text())).await.unwrap();
    brain.settle().await.unwrap();
    let mut watching = place.command(&["watch", "--json", "--from", "0"]);
    let mut watching = watching.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let second: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(first["seq"].as_u64().unwrap() < second["seq"].as_u64().unwrap(), "{first}\n{second}");
    assert!(first["kind"].is_string() && first["at"].as_str().unwrap().ends_with('Z'), "{first}");
    up.signal(Signal::SIGTERM);
    assert_eq!(up.ended().code(), Some(0));
    assert_eq!(watching.wait().unwrap().code(), Some(3));
}

#[test]
fn demo_runs_a_whole_session_on_real_files() {
    let Some(claude) = claude() else { return };
    let output = gatehouse().arg("demo").arg(repository()).env("CLAUDE_BIN", claude).assert().code(0);
    let shown = text(&output.get_output().stdout);
    for part in [
        "6 tools",
        "FindFiles",
        "SearchText",
        "Read",
        "First run",
        "Second run",
        "stopped",
        "verifies",
        "Done",
    ] {
        assert!(shown.contains(part), "{part} is missing in:\n{shown}");
    }
    gatehouse().args(["demo", "--claude", "/nonexistent/claude"]).assert().code(2);
    gatehouse().args(["demo", "/nonexistent/directory"]).assert().code(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    let Some(claude) = claude() else { return };
    let (place, project) = (Place::fresh(), Project::small());
    let mut demo = std::process::Command::new(binary("gatehouse"));
    demo.arg("demo").arg(project.path()).env("CLAUDE_BIN", claude).env("TMPDIR", place.path());
    let mut demo =
        demo.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    until("the session's runner is there", async || {
        let pids = processes::of_directory(place.path());
        let shim = processes::all().into_iter().find(|process| {
            pids.contains(&process.pid)
                && process.arguments.first().is_some_and(|own| own.ends_with("runner-shim"))
        });
        shim.map(drop)
    })
    .await;
    processes::signal(demo.id(), Signal::SIGTERM);
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    until("nothing is left", async || processes::of_directory(place.path()).is_empty().then_some(())).await;
    assert_eq!(
        std::fs::read_dir(place.path()).unwrap().count(),
        1,
        "only the configuration of the place itself"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_looks_at_the_ledger_also_when_no_gateway_runs_and_says_where_it_breaks() {
    let place = Place::fresh();
    let mut up = Up::start(&place, Some("/nonexistent/claude".as_ref()));
    let project = Project::small();
    let client = Arc::new(Client::http(up.endpoint(), None));
    let mut brain = Brain::start(client, &Start::new("Hello.", project.text())).await.unwrap();
    brain.settle().await.unwrap();
    let online = run(&place, &["verify"]);
    assert_eq!(online.status.code(), Some(0), "{}", text(&online.stderr));
    up.signal(Signal::SIGTERM);
    assert_eq!(up.ended().code(), Some(0));

    let offline = run(&place, &["verify", "--json"]);
    assert_eq!(offline.status.code(), Some(0), "{}", text(&offline.stderr));
    let found: Value = serde_json::from_slice(&offline.stdout).unwrap();
    assert!(found["ok"] == true && found["entries"].as_u64().unwrap() > 0, "{found}");
    // One letter of one entry, wherever it lies.
    for name in ["ledger.db", "ledger.db-wal"] {
        let path = place.path().join("s").join(name);
        let Ok(mut bytes) = std::fs::read(&path) else { continue };
        let word = b"session.created";
        for at in 0..bytes.len().saturating_sub(word.len()) {
            if &bytes[at..at + word.len()] == word {
                bytes[at] = b'S';
            }
        }
        std::fs::write(&path, bytes).unwrap();
    }
    let broken = run(&place, &["verify"]);
    assert_eq!(broken.status.code(), Some(1));
    let words = text(&broken.stderr);
    assert!(
        words.contains("is broken at entry 1") && words.contains("restore the last good copy"),
        "{words}"
    );
}

#[test]
fn the_settings_are_shown_with_what_is_wrong_with_the_allowlist_of_skills() {
    let entry = |id: &str| format!(r#"{{"skill_id":"{id}","content_sha256":"{}"}}"#, "0".repeat(64));
    for (id, allowed, faults) in [("team:b", 2, 0), ("team:a", 0, 1), ("../b", 0, 1)] {
        let list = format!("[{},{}]", entry("team:a"), entry(id));
        let mut executor = Command::new(binary("executor-svc"));
        executor.env("CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON", list).arg("--check-config");
        let shown: Value = serde_json::from_slice(&executor.assert().code(0).get_output().stdout).unwrap();
        let count = |name: &str| shown["skills"][name].as_array().unwrap().len();
        assert_eq!((count("allowed"), count("faults")), (allowed, faults), "{shown}");
        assert!(
            faults == 0 || shown["skills"]["faults"][0].as_str().unwrap().starts_with("entry 1"),
            "{shown}"
        );
    }
}

#[test]
fn a_skills_hash_comes_as_the_entry_of_an_allowlist_in_both_forms() {
    let project = Project::empty();
    let file = project
        .write(".claude/skills/review/SKILL.md", "\u{feff}---\r\nname: review\r\n---\r\nLook twice.\r\n");
    // printf -- '---\nname: review\n---\nLook twice.\n' | sha256sum
    let hash = "20c3d47042467a6b3d8ff1d306951412320426a625afbd3c4d5a40ba3526ae0a";
    let json = format!(r#"{{"skill_id":"project:review","content_sha256":"{hash}"}}"#);
    let told = gatehouse().args(["skills", "hash"]).arg(&file).assert().code(0).get_output().stdout.clone();
    let told = text(&told);
    assert!(told.contains("12 bytes of instructions") && told.contains(&json), "{told}");
    assert!(
        told.contains(&format!(r#"{{ skill_id = "project:review", content_sha256 = "{hash}" }}"#)),
        "{told}"
    );
    gatehouse().args(["skills", "hash", "--json"]).arg(&file).assert().code(0).stdout(format!("{json}\n"));
    let mut piped = gatehouse();
    piped.args(["skills", "hash", "-", "--id", "team:x", "--json"]);
    let told = piped.write_stdin("---\nname: review\n---\nLook twice.\n").assert().code(0);
    let told: Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    assert_eq!((&told["skill_id"], &told["content_sha256"]), (&"team:x".into(), &hash.into()));
    gatehouse().args(["skills", "hash", "-"]).write_stdin("---\nname: x\n---\n").assert().code(1);
    gatehouse().args(["skills", "hash", "-"]).write_stdin(&b"ab\xff"[..]).assert().code(1);
    gatehouse().args(["skills", "hash", "/nonexistent"]).assert().code(1);
    gatehouse().args(["skills", "hash", "-", "--id", "no-colon"]).assert().code(2);
    gatehouse().args(["skills"]).assert().code(2);
}
