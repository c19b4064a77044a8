//! Other people's MCP clients and test tools against the real front, executor and Claude Code (`make test-foreign`).
//!
//! `FOREIGN_HOME` is the folder into which `make` has installed them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gatehouse::chatgpt::Endpoint;
use gatehouse_tests::binaries::{binary, folder, repository};
use gatehouse_tests::places::Project;
use gatehouse_tests::record::Way;
use gatehouse_tests::{Gateway, Setup, claude, skip};

const ERAS: [&str; 3] = ["legacy", "auto", "modern"];

/// Where the foreign tools are; the scripts are copied beside them, since Node looks for packages from the script on.
fn foreign_home() -> PathBuf {
    let named = std::env::var_os("FOREIGN_HOME").map(PathBuf::from);
    let home = named.unwrap_or_else(|| folder().join("../foreign"));
    assert!(home.join("node_modules").is_dir(), "{} is empty; `make test-foreign` fills it", home.display());
    let scripts =
        std::fs::read_dir(repository().join("tests/foreign")).unwrap().flatten().map(|entry| entry.path());
    for script in
        scripts.filter(|path| path.extension().is_some_and(|ext| ext == "mjs" || ext == "py" || ext == "yml"))
    {
        // Each test writes the same content; whoever comes later changes nothing.
        std::fs::copy(&script, home.join(script.file_name().unwrap())).unwrap();
    }
    home.canonicalize().unwrap()
}

fn node(home: &Path) -> Command {
    let mut command = Command::new(home.join("node_modules/.bin/node"));
    command.current_dir(home);
    command
}

fn tool(home: &Path, name: &str) -> Command {
    let mut command = node(home);
    command.arg(home.join("node_modules/.bin").join(name));
    command
}

fn address(gateway: &Gateway) -> (String, String) {
    match gateway.endpoint() {
        Endpoint::Tcp { address, key } => (format!("http://{address}/mcp"), key.unwrap()),
        Endpoint::Unix { .. } => unreachable!("the harness listens on TCP"),
    }
}

/// Runs it off the runtime's own threads, with a home of its own, and records what it printed, which has all come from
/// the gateway.
async fn run(gateway: &Gateway, mut command: Command) -> Output {
    let home = foreign_home().join("home");
    std::fs::create_dir_all(&home).unwrap();
    command.env("HOME", home);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it starts")).await.unwrap();
    gateway.record().add(Way::Mcp, String::from_utf8_lossy(&output.stdout));
    output
}

fn passed(name: &str, output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{out}\n{err}", output.status);
}

async fn gateway() -> Option<(Gateway, Project, PathBuf)> {
    let home = foreign_home();
    Some((Gateway::start(Setup::with_claude(claude()?)).await, Project::small(), home))
}

fn in_place(command: &mut Command, gateway: &Gateway, project: &Project) {
    let (url, key) = address(gateway);
    command.env("GATEHOUSE_URL", url).env("GATEHOUSE_KEY", key).env("PROJECT", project.path());
    command.env("FRONT", binary("mcp-front")).env("RUNTIME_DIR", gateway.runtime_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk_of_2025_over_http_and_stdio() {
    let Some((gateway, project, home)) = gateway().await else { return };
    for way in ["http", "stdio"] {
        let mut command = node(&home);
        in_place(command.args(["typescript_v1.mjs", way]), &gateway, &project);
        passed(way, &run(&gateway, command).await);
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_client_of_2026_in_all_its_modes() {
    let Some((gateway, project, home)) = gateway().await else { return };
    for mode in ["legacy", "auto", "2026-07-28"] {
        let mut command = node(&home);
        in_place(command.args(["typescript_v2.mjs", mode]), &gateway, &project);
        passed(mode, &run(&gateway, command).await);
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_in_both_modes() {
    let python = foreign_home().join("venv/bin/python");
    if !python.is_file() && skip("python") {
        return;
    }
    assert!(python.is_file(), "Python 3 with venv is missing; GATEHOUSE_SKIP=python leaves this test out");
    let Some((gateway, project, home)) = gateway().await else { return };
    for mode in ["legacy", "auto"] {
        let mut command = Command::new(&python);
        in_place(command.current_dir(&home).args(["python_client.py", mode]), &gateway, &project);
        passed(mode, &run(&gateway, command).await);
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_finds_the_schemas_portable_in_each_era() {
    let Some((gateway, _project, home)) = gateway().await else { return };
    let (url, key) = address(&gateway);
    for era in ERAS {
        let inspect = |arguments: &[&str]| {
            let mut command = tool(&home, "mcp-inspector");
            command.args(["--cli", "--server-url", &url, "--transport", "http", "--protocol-era", era]);
            command.args(["--header", &format!("X-Gatehouse-Key: {key}")]).args(arguments);
            command
        };
        let listed =
            run(&gateway, inspect(&["--method", "tools/list", "--strict", "--format", "json"])).await;
        passed(era, &listed);
        let shown = String::from_utf8_lossy(&listed.stdout);
        assert!(shown.matches("\"native_session_").count() >= 6, "{era}: {shown}");

        let nobody = format!(r#"{{"native_session_id":"ns_{0}","lease_id":"lease_{0}"}}"#, "0".repeat(32));
        let call =
            ["--method", "tools/call", "--tool-name", "native_session_status", "--tool-args-json", &nobody];
        let called = run(&gateway, inspect(&[&call[..], &["--format", "json", "--quiet"]].concat())).await;
        let said = [called.stdout, called.stderr].concat();
        assert!(
            String::from_utf8_lossy(&said).contains("unknown_session"),
            "{era}: {}",
            String::from_utf8_lossy(&said)
        );
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_fails_only_where_a_server_of_six_tools_must() {
    let Some((gateway, project, home)) = gateway().await else { return };
    // The suite cannot send a key: it goes through a relay that adds one, and changes nothing else.
    let relay = gatehouse_tests::relay::start(gateway.endpoint()).await;
    let mut command = tool(&home, "conformance");
    command.args(["server", "--suite", "all", "--url", &format!("http://{relay}/mcp")]);
    command.args(["--expected-failures", "expected-failures.yml", "-o"]).arg(project.path().join("results"));
    let output = run(&gateway, command).await;
    passed("conformance", &output);
    let shown = String::from_utf8_lossy(&output.stdout);
    for scenario in ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"] {
        assert!(shown.contains(scenario), "{scenario} was run: {shown}");
    }
    gateway.finish().await;
}
