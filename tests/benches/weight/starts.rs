//! Sizes of the binaries, and their cold starts.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use gatehouse_figures::{Goal, Spread, Table, Unit};
use gatehouse_tests::binaries::binary;

use super::ready::House;

const STARTS: usize = 21;
const LARGEST: Goal = Goal::AtMost(15.0);
const SLOWEST: Goal = Goal::AtMost(0.020);
/// What the kernel keeps of files can be forgotten by writing this here, by root alone.
const FORGET: (&str, &str) = ("/proc/sys/vm/drop_caches", "1");

pub fn table() -> Table {
    Table::new(["what", "measured", "goal", "reached"])
}

/// Each release binary: its size, and how long `--version` takes from start to end.
pub fn binaries(table: &mut Table) {
    let names = ["executor-svc", "mcp-front", "runner-shim", "gatehouse", "sandbox-launch"];
    for name in names {
        let size = binary(name).metadata().unwrap().len() as f64 / f64::from(1 << 20);
        let shown = Unit::Mebibytes.show(size);
        table.measured(&format!("{name}, size"), &[shown], Unit::Mebibytes, size, LARGEST);
    }
    let cold = std::fs::write(FORGET.0, FORGET.1).is_ok();
    if !cold {
        table.note(
            "Only root can make the kernel forget files; so no start with an empty cache was measured.",
        );
    }
    for name in names.into_iter().filter(|name| *name != "sandbox-launch") {
        let program = binary(name);
        version(&program);
        timed(table, &format!("{name} --version"), SLOWEST, || version(&program));
        if cold {
            timed(table, &format!("{name} --version, nothing of it in memory"), Goal::None, || {
                std::fs::write(FORGET.0, FORGET.1).unwrap();
                version(&program)
            });
        }
    }
}

fn timed(table: &mut Table, name: &str, goal: Goal, mut once: impl FnMut() -> f64) {
    let times: Vec<f64> = (0..STARTS).map(|_| once()).collect();
    told(table, name, goal, &times);
}

fn told(table: &mut Table, name: &str, goal: Goal, times: &[f64]) {
    let spread = Spread::of(times).unwrap();
    table.measured(name, &[spread.show(Unit::Time)], Unit::Time, spread.median, goal);
}

fn version(program: &Path) -> f64 {
    let began = Instant::now();
    let status = Command::new(program).arg("--version").stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{}", program.display());
    began.elapsed().as_secs_f64()
}

/// Both daemons, again and again, until each is ready.
pub async fn daemons(table: &mut Table) {
    let (mut executors, mut fronts) = (Vec::new(), Vec::new());
    let house = House::new();
    // The first one makes the ledger.
    drop(house.executor().await);
    for _ in 0..STARTS {
        let (executor, took) = house.executor().await;
        executors.push(took);
        let (front, took) = house.front();
        fronts.push(took);
        drop((front, executor));
    }
    told(table, "executor-svc, on a ledger that is there, until it answers", SLOWEST, &executors);
    told(table, "mcp-front, until it says that it is ready", SLOWEST, &fronts);
}
