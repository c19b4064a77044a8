//! From Claude Code's model request to ChatGPT, and back, beside the commits that it needs.
//!
//! `make bench`, or `cargo bench -p gatehouse-tests --bench turns`. A light stand-in is in Claude Code's place, which notes
//! when it asked and when a reply began to come; shim, executor and front are the real ones, with the sandbox around
//! shim and stand-in. Beside it: as many commits of one small row (SQLite, WAL, `synchronous=FULL`), on the same disk, in
//! turn. How many commits the executor made is read from its ledger. `GATEHOUSE_BENCH_ROUNDS`: another number of rounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement fails by panicking"
)]

mod commits;
mod times;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gatehouse::chatgpt::{Brain, Call, Start};
use gatehouse_figures::{BareCommits, Comparison, Goal, Place, Table, Unit, rounds};
use gatehouse_tests::binaries::binary;
use gatehouse_tests::dice::Dice;
use gatehouse_tests::gateway::{Gateway, Setup};
use gatehouse_tests::places::Project;
use serde_json::json;

const ROUNDS: usize = 400;
/// Rounds before those that count.
const WARM: usize = 10;
/// Of a reply with one reading call, until the next turn is there: the reply, the receipt, that turn.
const COMMITS: usize = 3;
const GOAL: Goal = Goal::AtMost(1.3);

/// A moment, as the stand-in notes it.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn seconds(from: Duration, to: Duration) -> f64 {
    to.as_secs_f64() - from.as_secs_f64()
}

/// What is measured, each beside its commits.
struct Pairs {
    asked: Comparison,
    answered: Comparison,
}

impl Pairs {
    fn new() -> Self {
        let new = |name| Comparison::new(name, Unit::Time, GOAL);
        Self {
            asked: new("Claude Code's `POST` → the waiting call of ChatGPT returns (1 commit)"),
            answered: new("ChatGPT's reply is sent → its first byte at Claude Code (1 commit)"),
        }
    }

    async fn bare(&mut self, bare: &BareCommits, dice: &mut Dice) {
        for pair in [&mut self.asked, &mut self.answered] {
            pause(dice).await;
            let began = Instant::now();
            bare.commit().unwrap();
            pair.other(began.elapsed().as_secs_f64());
        }
    }
}

/// Some disks answer at the beat of a clock; what is measured must not march in step with it. The stand-in does the same
/// before it asks.
async fn pause(dice: &mut Dice) {
    tokio::time::sleep(Duration::from_micros(dice.within(0..8000))).await;
}

#[tokio::main]
async fn main() {
    let setup = Setup::with_claude(binary("claude-stand-in")).environment("GATEHOUSE_LOG", "warn");
    let mut gateway = Gateway::start(setup).await;
    let project = Project::small();
    let read = Call::new("Read", json!({"file_path": project.path().join("README.md")}));
    let start = Start::new("Measure. [note the times]", project.text());
    let mut brain = gateway.session(&start).await;
    let mut notes = times::Notes::find(&gateway.state_dir());
    let bare = BareCommits::open(&gateway.state_dir().join("bare.db")).unwrap();
    let mut table = Table::new(Comparison::head("from → to", "bare commits"));
    let mut pairs = Pairs::new();
    for _ in 0..WARM {
        turn(&mut brain, &read).await;
        bare.commit().unwrap();
    }
    let rounds = rounds(ROUNDS);
    let before = commits::made(&gateway.state_dir());
    let (mut spans, mut dice) = (Vec::new(), Dice::of(1));
    for _ in 0..rounds {
        pause(&mut dice).await;
        spans.push(turn(&mut brain, &read).await);
        pairs.bare(&bare, &mut dice).await;
    }
    let made = commits::made(&gateway.state_dir()) - before;
    assert_eq!(made, (COMMITS * rounds) as u64, "commits of the ledger, for {rounds} turns");
    brain.finish("Measured.").await.expect("the run ends");
    for (at, (sent, returned)) in spans.into_iter().enumerate() {
        let (answered, next) = (notes.turn(WARM + at), notes.turn(WARM + at + 1));
        pairs.answered.ours(seconds(sent, answered.began));
        pairs.asked.ours(seconds(next.asked, returned));
    }
    for pair in [pairs.asked, pairs.answered] {
        table.row(pair.row());
    }
    table.save(Place::Turns).unwrap();
    gateway.finish().await;
}

/// A reply with one call, until the next turn is there: when it was sent, and when that call returned.
async fn turn(brain: &mut Brain, call: &Call) -> (Duration, Duration) {
    let arguments = brain.reply_arguments(None, std::slice::from_ref(call));
    let sent = now();
    let state = brain.call("native_session_reply_and_wait", arguments).await.expect("the reply is taken");
    let returned = now();
    assert!(state.status() == "waiting_for_gpt" && state.tool_results()[0].ok, "{}", state.0);
    (sent, returned)
}
