//! What idle processes hold, how large the binaries are, and how soon they start.
//!
//! `make bench`, or `cargo bench -p gatehouse-tests --bench weight`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement fails by panicking"
)]

mod ready;
mod starts;

use std::time::Duration;

use gatehouse::chatgpt::Start;
use gatehouse_figures::{Goal, Place, Table, Unit};
use gatehouse_tests::gateway::{Gateway, Setup};
use gatehouse_tests::memory::Memory;
use gatehouse_tests::peers::{Kind, Peer};
use gatehouse_tests::places::Project;
use gatehouse_tests::{claude, processes};

/// How long nothing happens before memory is looked at.
const IDLE: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    let mut binaries = starts::table();
    starts::binaries(&mut binaries);
    starts::daemons(&mut binaries).await;
    binaries.save(Place::Binaries).unwrap();
    let Some(claude) = claude() else { return };
    let setup = Setup::with_claude(claude).environment("GATEHOUSE_LOG", "warn");
    let mut gateway = Gateway::start(setup).await;
    memory(&mut gateway).await;
    gateway.finish().await;
}

/// One session waits, and everybody else's server has shaken hands.
async fn memory(gateway: &mut Gateway) {
    let project = Project::small();
    let mut brain = gateway.session(&Start::new("Wait.", project.text())).await;
    let mut table =
        Table::new(["process", "resident", "in proportion", "its own", "goal (resident)", "reached"]);
    let mut peers = Vec::new();
    for kind in Kind::ALL {
        match Peer::start(kind, &project.path()) {
            Some(peer) => peers.push(peer),
            None => table.absent(kind.name()),
        }
    }
    tokio::time::sleep(IDLE).await;
    let claude = processes::claude_of(brain.state().claude_session_id());
    let one = |pid: Option<u32>| pid.into_iter().collect::<Vec<_>>();
    for (name, pids, goal) in [
        ("executor-svc, one session waiting", one(gateway.executor_pid()), Goal::AtMost(30.0)),
        ("mcp-front", one(gateway.front_pid()), Goal::AtMost(20.0)),
        ("runner-shim, waiting", processes::shims_of(&gateway.runtime_dir()), Goal::AtMost(10.0)),
        ("claude, waiting", one(claude), Goal::None),
    ] {
        weigh(&mut table, name, &pids, goal);
    }
    for peer in &peers {
        weigh(&mut table, peer.kind().name(), &[peer.pid()], Goal::None);
    }
    table.save(Place::Memory).unwrap();
    brain.stop("measured").await.expect("the session stops");
}

fn weigh(table: &mut Table, name: &str, pids: &[u32], goal: Goal) {
    let all = pids.iter().map(|pid| Memory::of(*pid)).fold(Memory::default(), |sum, one| sum + one);
    assert!(all.resident > 0, "{name} is not there");
    let shown = all.mebibytes();
    table.measured(name, &shown.map(|size| Unit::Mebibytes.show(size)), Unit::Mebibytes, shown[0], goal);
}
