//! Start to first pending turn, beside `claude --bare -p` to its first model request.
//!
//! `make bench`, or `cargo bench -p gatehouse-tests --bench first_turn`. And beside Claude Code with a server of tools, which is what we
//! start, without anything of ours. All are measured in turn, in one run, so that whatever else the machine does meets each.
//! `GATEHOUSE_BENCH_ROUNDS`: another number of rounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement fails by panicking"
)]

mod alone;

use std::time::Instant;

use alone::{Tools, first_request};
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
    let mut table = Table::new(Comparison::head(
        "`native_session_start` to the first pending turn, confined",
        "from its start to its first request",
    ));
    let mut plain = Comparison::new("beside `claude --bare -p`", Unit::Time, Goal::AtMost(1.1));
    let mut with_tools =
        Comparison::new("beside `claude --bare -p` with a server of tools", Unit::Time, Goal::None);
    for round in 0..WARM + rounds(ROUNDS) {
        let alone = [Tools::BuiltIn, Tools::OfAServer];
        let mut others = Vec::new();
        for tools in alone {
            others.push(first_request(&claude, tools).await.as_secs_f64());
        }
        let begin = Instant::now();
        let mut brain = gateway.session(&Start::new(format!("round {round}"), "/")).await;
        let ours = begin.elapsed().as_secs_f64();
        if round >= WARM {
            for (pair, other) in [&mut plain, &mut with_tools].into_iter().zip(others) {
                pair.other(other);
                pair.ours(ours);
            }
        }
        brain.stop("measured").await.expect("the session stops");
    }
    table.row(plain.row());
    table.row(with_tools.row());
    table.save(Place::FirstTurn).unwrap();
    gateway.finish().await;
}
