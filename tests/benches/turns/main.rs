//! From Claude Code's model request to ChatGPT, and back, beside the commits that it needs.
//!
//! `make bench`, or `cargo bench -p gatehouse-tests --bench turns`. A light stand-in is in Claude Code's place, which notes
//! when it asked and when a reply began to come; shim, executor and front are the real ones, with the sandbox around
//! shim and stand-in. Beside it: as many commits of one small row (SQLite, WAL, `synchronous=FULL`), on the same disk, in
//! turn. How many commits the executor made is read from its ledger. And beside the bare way, which has as many processes and hops and
//! nothing in them. `GATEHOUSE_BENCH_ROUNDS`: another number of rounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement fails by panicking"
)]

mod commits;
mod legs;
mod times;
mod way;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gatehouse::chatgpt::{Brain, Call, Start};
use gatehouse_figures::{BareCommits, rounds};
use gatehouse_tests::binaries::binary;
use gatehouse_tests::dice::Dice;
use gatehouse_tests::gateway::{Gateway, Setup};
use gatehouse_tests::places::Project;
use legs::Legs;
use serde_json::json;

const ROUNDS: usize = 400;
/// Rounds before those that count.
const WARM: usize = 10;
/// Of a reply with one reading call, until the next turn is there: the reply, the receipt, that turn.
const COMMITS: usize = 3;

/// A moment, as the stand-in notes it.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn seconds(from: Duration, to: Duration) -> f64 {
    to.as_secs_f64() - from.as_secs_f64()
}

/// Some disks answer at the beat of a clock; what is measured must not march in step with it. The stand-in does the same
/// before it asks.
async fn pause(dice: &mut Dice) {
    tokio::time::sleep(Duration::from_micros(dice.within(0..8000))).await;
}

/// How long one bare commit takes.
fn committed(bare: &BareCommits) -> f64 {
    let began = Instant::now();
    bare.commit().unwrap();
    began.elapsed().as_secs_f64()
}

fn main() {
    match way::Part::of_this_process() {
        Some(part) => part.run(),
        None => tokio::runtime::Runtime::new().unwrap().block_on(measure()),
    }
}

async fn measure() {
    let setup = Setup::with_claude(binary("claude-stand-in")).environment("GATEHOUSE_LOG", "warn");
    let mut gateway = Gateway::start(setup).await;
    let project = Project::small();
    let read = Call::new("Read", json!({"file_path": project.path().join("README.md")}));
    let start = Start::new("Measure. [note the times]", project.text());
    let mut brain = gateway.session(&start).await;
    let mut notes = times::Notes::find(&gateway.state_dir());
    let bare = BareCommits::open(&gateway.state_dir().join("bare.db")).unwrap();
    let mut legs = Legs::new();
    let mut way = way::Way::open();
    for _ in 0..WARM {
        turn(&mut brain, &read).await;
        bare.commit().unwrap();
        way.turn(&mut Legs::new());
    }
    let rounds = rounds(ROUNDS);
    let before = commits::made(&gateway.state_dir());
    let (mut spans, mut dice) = (Vec::new(), Dice::of(1));
    for _ in 0..rounds {
        pause(&mut dice).await;
        spans.push(turn(&mut brain, &read).await);
        for leg in [&mut legs.asked, &mut legs.answered] {
            pause(&mut dice).await;
            leg.commits.push(committed(&bare));
        }
        pause(&mut dice).await;
        way.turn(&mut legs);
    }
    let made = commits::made(&gateway.state_dir()) - before;
    assert_eq!(made, (COMMITS * rounds) as u64, "commits of the ledger, for {rounds} turns");
    brain.finish("Measured.").await.expect("the run ends");
    for (at, (sent, returned)) in spans.into_iter().enumerate() {
        let (answered, next) = (notes.turn(WARM + at), notes.turn(WARM + at + 1));
        legs.answered.ours.push(seconds(sent, answered.began));
        legs.asked.ours.push(seconds(next.asked, returned));
    }
    legs.save();
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
