//! Start to first pending turn, beside `claude --bare -p` to its first model request.
//!
//! `make bench`, or `cargo bench -p gatehouse-tests --bench first_turn`. The two are measured in turn, in one run, so that
//! whatever else the machine does meets both. `GATEHOUSE_BENCH_ROUNDS`: another number of rounds.

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
use gatehouse_figures::{Comparison, Goal, Place, Table, Unit, rounds};
use gatehouse_tests::binaries;
use gatehouse_tests::gateway::{Gateway, Setup};

const ROUNDS: usize = 25;
/// The first launch also asks Claude Code for its version.
const WARM: usize = 1;

#[tokio::main]
async fn main() {
    let Some(claude) = binaries::claude() else { return };
    let mut gateway =
        Gateway::start(Setup::with_claude(claude.clone()).environment("GATEHOUSE_LOG", "warn")).await;
    let mut table = Table::new(Comparison::head("what", "`claude --bare -p` to its first request"));
    let mut pair = Comparison::new(
        "`native_session_start` to the first pending turn, confined",
        Unit::Time,
        Goal::AtMost(1.1),
    );
    for round in 0..WARM + rounds(ROUNDS) {
        let bare = first_request(&claude);
        let begin = Instant::now();
        let mut brain = gateway.session(&Start::new(format!("round {round}"), "/")).await;
        let ours = begin.elapsed();
        if round >= WARM {
            pair.other(bare.as_secs_f64());
            pair.ours(ours.as_secs_f64());
        }
        brain.stop("measured").await.expect("the session stops");
    }
    table.row(pair.row());
    table.save(Place::FirstTurn).unwrap();
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
