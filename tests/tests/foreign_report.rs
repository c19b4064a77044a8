//! The page of `gatehouse export` in a real browser: Debian's Chromium (`make test-foreign` brings it).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gatehouse_tests::binaries::folder;
use gatehouse_tests::reported::reported;
use gatehouse_tests::{Gateway, Setup, claude, skip};

/// Chromium, unless it is left out.
fn chromium() -> Option<PathBuf> {
    let run = folder().join("../chromium/run");
    if run.is_file() {
        return Some(run.canonicalize().unwrap());
    }
    assert!(
        skip("chromium"),
        "Chromium is missing; `make test-foreign` brings it, GATEHOUSE_SKIP=chromium leaves this out"
    );
    None
}

struct Browser {
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Browser {
    /// Runs it on the page until it ends, with no way to any host, and gives what it said.
    fn run(&self, page: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.env("HOME", self.home.path()).env("XDG_RUNTIME_DIR", self.home.path());
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args([
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr",
            "--hide-scrollbars",
        ]);
        command.arg(format!("--user-data-dir={}", self.home.path().join("profile").display()));
        command.args(arguments).arg(format!("file://{}", page.display()));
        command.output().unwrap()
    }
}

/// What the page itself complained about; Chromium's own troubles with a machine without a desktop are none of ours.
fn complaints(output: &Output) -> Vec<String> {
    let words = String::from_utf8_lossy(&output.stderr);
    words.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
}

/// The addresses that the page had Chromium ask; what Chromium asks by itself has no origin.
fn asked_by_the_page(net_log: &Path) -> Vec<String> {
    let log: serde_json::Value = serde_json::from_slice(&std::fs::read(net_log).unwrap()).unwrap();
    let requests = log["events"].as_array().unwrap().iter().map(|event| &event["params"]);
    let by_the_page =
        requests.filter(|params| params["initiator"].as_str().is_some_and(|who| who != "not an origin"));
    by_the_page.filter_map(|params| params["url"].as_str()).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_shows_in_a_browser_light_dark_and_narrow_without_a_script_or_a_request() {
    let (Some(program), Some(claude)) = (chromium(), claude()) else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let done = reported(&mut gateway).await;
    let shots = folder().join("../report");
    std::fs::create_dir_all(&shots).unwrap();
    let shots = shots.canonicalize().unwrap();
    let page = shots.join("report.html");
    // What an earlier run left; the command does not overwrite.
    let _ = std::fs::remove_file(&page);
    assert!(gateway.cli(&["export", &done.session, "-o", page.to_str().unwrap()]).status.success());
    gateway.finish().await;

    let browser = Browser { program, home: tempfile::tempdir().unwrap() };
    let net_log = browser.home.path().join("net.json");
    let dumped = browser.run(&page, &["--dump-dom", &format!("--log-net-log={}", net_log.display())]);
    let dom = String::from_utf8_lossy(&dumped.stdout);
    for part in ["Tidy the lantern project", "lantern = bright", "the chain holds", "All is tidy."] {
        assert!(
            dom.contains(part),
            "{part} is missing in the browser:\n{}",
            String::from_utf8_lossy(&dumped.stderr)
        );
    }
    assert_eq!(complaints(&dumped), Vec::<String>::new());
    assert_eq!(asked_by_the_page(&net_log), Vec::<String>::new());

    let looks: [(&str, &[&str]); 3] = [
        ("light.png", &["--window-size=1200,2600", "--blink-settings=preferredColorScheme=1"]),
        ("dark.png", &["--window-size=1200,2600", "--blink-settings=preferredColorScheme=0"]),
        ("narrow.png", &["--window-size=500,2600", "--blink-settings=preferredColorScheme=1"]),
    ];
    let mut pictures = Vec::new();
    for (name, arguments) in looks {
        let picture = shots.join(name);
        let shot = format!("--screenshot={}", picture.display());
        let output = browser.run(&page, &[arguments, &[shot.as_str()]].concat());
        assert_eq!(complaints(&output), Vec::<String>::new(), "{name}");
        let bytes = std::fs::read(&picture).unwrap();
        assert!(bytes.len() > 50_000, "{name} shows hardly anything: {} bytes", bytes.len());
        pictures.push(bytes);
    }
    assert_ne!(pictures[0], pictures[1], "dark is another look than light");
}
