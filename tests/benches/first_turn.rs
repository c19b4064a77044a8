//! Start to first pending turn, beside `claude --bare -p` to its first model request; and what the processes weigh.
//!
//! `make bench`, or `cargo bench -p gatehouse-tests --bench first_turn`. Prints a table for docs/performance.md. The two
//! are measured in turn, in one run, so that whatever else the machine does meets both.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement fails by panicking"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gatehouse::chatgpt::Start;
use gatehouse_tests::binaries;
use gatehouse_tests::gateway::{Gateway, Setup};
use gatehouse_tests::processes;

const ROUNDS: usize = 15;

/// Milliseconds: median, and the first and third quartile.
struct Spread {
    median: f64,
    quartiles: (f64, f64),
}

impl Spread {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 4].as_secs_f64() * 1000.0;
        Self { median: at(2), quartiles: (at(1), at(3)) }
    }

    fn row(&self, name: &str) {
        let (low, high) = self.quartiles;
        println!("| {name} | {:.0} ms | {low:.0}–{high:.0} ms |", self.median);
    }
}

#[tokio::main]
async fn main() {
    let Some(claude) = binaries::claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude.clone())).await;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        bare.push(first_request(&claude));
        let begin = Instant::now();
        let mut brain = gateway.session(&Start::new(format!("round {round}"), "/")).await;
        ours.push(begin.elapsed());
        if round + 1 == ROUNDS {
            weigh(&gateway, &brain);
        }
        brain.stop("measured").await.expect("the session stops");
    }
    let (ours, bare) = (Spread::of(ours), Spread::of(bare));
    println!("\n| {ROUNDS} rounds | median | quartiles |\n| --- | --- | --- |");
    bare.row("`claude --bare -p` to its first model request");
    ours.row("`native_session_start` to the first pending turn");
    println!("| ratio | {:.2} | |", ours.median / bare.median);
    gateway.finish().await;
}

/// Starts Claude Code the plain way and waits for its first `POST`.
fn first_request(claude: &Path) -> Duration {
    let home = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let begin = Instant::now();
    let mut child = Command::new(claude)
        .args([
            "--bare",
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--model",
            "chatgpt-main",
            "hello",
        ])
        .env_clear()
        .env("HOME", home.path())
        .env("CLAUDE_CONFIG_DIR", home.path())
        .env("ANTHROPIC_BASE_URL", endpoint)
        .env("ANTHROPIC_API_KEY", "none")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("Claude Code starts");
    loop {
        let (stream, _) = listener.accept().expect("a connection");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("a request line");
        if line.starts_with("POST /v1/messages") {
            break;
        }
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        reader.get_mut().write_all(answer.as_bytes()).expect("an answer");
    }
    let took = begin.elapsed();
    child.kill().expect("it can be ended");
    child.wait().expect("it can be waited for");
    took
}

/// Resident memory of each process while a session waits.
fn weigh(gateway: &Gateway, brain: &gatehouse::chatgpt::Brain) {
    println!("\n| process, one session waiting | resident | of that its own |\n| --- | --- | --- |");
    for (name, pids) in [
        ("executor-svc", gateway.executor_pid().into_iter().collect::<Vec<_>>()),
        ("mcp-front", gateway.front_pid().into_iter().collect()),
        ("runner-shim", processes::shims_of(&gateway.runtime_dir())),
        ("claude", processes::claude_of(brain.state().claude_session_id()).into_iter().collect()),
    ] {
        for pid in pids {
            let (resident, own) = memory(pid);
            println!("| {name} | {resident:.1} MiB | {own:.1} MiB |");
        }
    }
}

/// Resident and anonymous memory in MiB.
fn memory(pid: u32) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).unwrap_or_default() / 1024.0
    };
    (field("VmRSS:"), field("RssAnon:"))
}
