//! One small Read and one small Write over MCP, by our whole path and by other people's servers of files.
//!
//! `make bench`, or `cargo bench -p gatehouse-tests --bench calls`. A call of ours is a reply with one action, until the
//! call of ChatGPT returns with its receipt: front, executor, shim, and a light stand-in for Claude Code, with every commit
//! on the way. A call of the others is one request to a process, which answers. All take turns.
//! `GATEHOUSE_BENCH_ROUNDS`: another number of rounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use gatehouse::chatgpt::{Brain, Call, Start};
use gatehouse_figures::{Comparison, Goal, Place, Table, Unit, rounds};
use gatehouse_tests::binaries::binary;
use gatehouse_tests::gateway::{Gateway, Setup};
use gatehouse_tests::peers::{Kind, Peer};
use gatehouse_tests::places::Project;
use serde_json::json;

const ROUNDS: usize = 200;
const WARM: usize = 5;
/// As many calls as a reply may carry.
const MOST: usize = 16;

/// A KiB of text that there was never before.
fn content(round: usize) -> String {
    // In letters: what leaves the gateway is searched for the numbers of processes and ports.
    let letters = |number: usize| -> String {
        number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
    };
    (0..16).map(|line| format!("{:>63}\n", letters(round * 100 + line))).collect()
}

/// A server with a file of its own, and what was measured beside ours.
struct Beside {
    peer: Peer,
    file: PathBuf,
    read: Comparison,
    write: Comparison,
}

impl Beside {
    fn start(kind: Kind, directory: &Path) -> Option<Self> {
        let peer = Peer::start(kind, directory)?;
        let name = |what| format!("{what}, beside {}", kind.name());
        let goal = if kind == Kind::DesktopCommander { Goal::AtMost(1.0) } else { Goal::None };
        Some(Self {
            peer,
            file: directory.join(format!("{kind:?}.txt")),
            read: Comparison::new(name("Read"), Unit::Time, Goal::AtMost(1.0)),
            write: Comparison::new(name("Write"), Unit::Time, goal),
        })
    }

    /// One read and one write, timed.
    fn round(&mut self, content: &str) -> [f64; 2] {
        [self.peer.read(&self.file), self.peer.write(&self.file, content)].map(|time| time.as_secs_f64())
    }
}

/// A reply with these calls, until the receipts are there.
async fn act(brain: &mut Brain, calls: &[Call]) -> f64 {
    let arguments = brain.reply_arguments(None, calls);
    let began = Instant::now();
    let state = brain.call("native_session_reply_and_wait", arguments).await.expect("the reply is taken");
    let took = began.elapsed().as_secs_f64();
    assert_eq!(state.status(), "waiting_for_gpt", "{}", state.0);
    let results = state.tool_results();
    assert!(results.len() == calls.len() && results.iter().all(|result| result.ok), "{}", state.0);
    took
}

#[tokio::main]
async fn main() {
    let setup = Setup::with_claude(binary("claude-stand-in")).environment("GATEHOUSE_LOG", "warn");
    let mut gateway = Gateway::start(setup).await;
    let project = Project::empty();
    let file = project.write("ours.txt", content(0));
    let start = Start { profile: "direct_write", ..Start::new("Measure.", project.text()) };
    let mut brain = gateway.session(&start).await;
    let mut table = Table::new(Comparison::head("one call", "the other's"));
    let mut others = Vec::new();
    for kind in Kind::ALL {
        project.write(format!("{kind:?}.txt"), content(0));
        match Beside::start(kind, &project.path()) {
            Some(beside) => others.push(beside),
            None => table.absent(kind.name()),
        }
    }
    let mut many = Comparison::new(format!("each of {MOST} Reads in one reply"), Unit::Time, Goal::None);
    let read = Call::new("Read", json!({"file_path": file}));
    let sixteen = vec![read.clone(); MOST];
    for round in 1..=WARM + rounds(ROUNDS) {
        let new = content(round);
        let reading = act(&mut brain, std::slice::from_ref(&read)).await;
        // What is overwritten has to be known: its hash stands in the receipt.
        let seen = brain.state().tool_results()[0].receipt["sha256"].clone();
        let input = json!({"file_path": file, "content": new, "expected_sha256": seen});
        let ours = [reading, act(&mut brain, &[Call::new("Write", input)]).await];
        assert_eq!(std::fs::read_to_string(&file).unwrap(), new);
        let each = act(&mut brain, &sixteen).await / MOST as f64;
        let theirs: Vec<[f64; 2]> = others.iter_mut().map(|other| other.round(&new)).collect();
        if round <= WARM {
            continue;
        }
        many.ours(each);
        for (other, [read, write]) in others.iter_mut().zip(theirs) {
            other.read.ours(ours[0]);
            other.read.other(read);
            other.write.ours(ours[1]);
            other.write.other(write);
        }
    }
    others.iter().for_each(|other| table.row(other.read.row()));
    table.row(many.row());
    others.iter().for_each(|other| table.row(other.write.row()));
    table.save(Place::Calls).unwrap();
    brain.stop("measured").await.expect("the session stops");
    gateway.finish().await;
}
