//! Measuring all ways in turns, and telling the medians.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gatehouse_sandbox::launch::Launcher;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::launches::Way;

const ROUNDS: usize = 50;

struct Row {
    name: String,
    way: Way,
    times: Vec<f64>,
    processor: Vec<f64>,
}

impl Row {
    fn new(name: impl Into<String>, way: Way) -> Self {
        Self { name: name.into(), way, times: Vec::new(), processor: Vec::new() }
    }

    async fn measure(&mut self) {
        let used = processor_time();
        self.times.push(milliseconds(self.way.once().await.unwrap()));
        self.processor.push(milliseconds(processor_time() - used));
    }

    fn is_ours(&self) -> bool {
        matches!(self.way, Way::Ours(_) | Way::OursToTheEnd(_))
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Of all processes that were waited for so far, also by those that we have waited for. What bubblewrap leaves behind is
/// not in it: nobody waits for that.
fn processor_time() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let sum = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    Duration::from_micros(sum.try_into().unwrap())
}

/// The launchers that are measured, each with what its row is called.
fn launchers() -> Vec<(String, Launcher)> {
    let named = std::env::var_os("GATEHOUSE_BENCH_LAUNCHER");
    let paths = named.map_or_else(
        || vec![PathBuf::from(env!("CARGO_BIN_EXE_sandbox-launch"))],
        |list| std::env::split_paths(&list).collect(),
    );
    let name = |path: &Path| if paths.len() == 1 { String::new() } else { format!(" ({})", path.display()) };
    paths.iter().map(|path| (name(path), Launcher::at(path))).collect()
}

fn rows() -> (Vec<Row>, Vec<String>) {
    let mut rows = vec![Row::new("plain fork and exec", Way::Plain)];
    for (name, launcher) in launchers() {
        rows.push(Row::new(format!("launched, not confined{name}"), Way::Unconfined(launcher.clone())));
        rows.push(Row::new(format!("in our sandbox{name}"), Way::Ours(launcher.clone())));
        rows.push(Row::new(format!("the same, its end told{name}"), Way::OursToTheEnd(launcher)));
    }
    let peers = std::env::var_os("GATEHOUSE_BENCH_PEERS").map_or_else(
        // Beside the folder of the profile.
        || Path::new(env!("CARGO_BIN_EXE_sandbox-launch")).ancestors().nth(2).unwrap().join("bench-peers"),
        PathBuf::from,
    );
    let mut absent = Vec::new();
    for (name, way) in [
        ("bubblewrap", Way::bubblewrap()),
        ("sandbox-runtime", Way::sandbox_runtime(&peers)),
        ("codex sandbox", Way::codex(&peers)),
    ] {
        match way {
            Some(way) => rows.push(Row::new(name, way)),
            None => absent.push(name.to_owned()),
        }
    }
    (rows, absent)
}

/// Measures, and prints the table.
pub async fn measure() {
    let (rows, mut absent) = rows();
    // A sandbox that is installed and does not work here is as good as absent. The first launch also warms up.
    let mut working = Vec::new();
    for row in rows {
        match row.way.once().await {
            Err(_) if matches!(row.way, Way::Other(..)) => absent.push(row.name),
            done => {
                let _ = done.unwrap();
                working.push(row);
            }
        }
    }
    let rounds = std::env::var("GATEHOUSE_BENCH_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    for _ in 0..rounds {
        for row in &mut working {
            row.measure().await;
        }
    }
    print(&working, &absent);
}

fn print(rows: &[Row], absent: &[String]) {
    let mut out = std::io::stdout().lock();
    let plain = median(&rows[0].times);
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    writeln!(out, "{:<width$} {:>9} {:>12} {:>9}", "medians, ms", "time", "over plain", "processor").unwrap();
    for row in rows {
        let time = median(&row.times);
        let processor = median(&row.processor);
        writeln!(out, "{:<width$} {time:9.2} {:12.2} {processor:9.2}", row.name, time - plain).unwrap();
    }
    for ours in rows.iter().filter(|row| row.is_ours()) {
        let time = median(&ours.times);
        for other in rows.iter().filter(|row| matches!(row.way, Way::Other(..))) {
            let others = median(&other.times);
            let over = (time - plain) / (others - plain);
            writeln!(
                out,
                "{} to {}: {:.3} whole, {over:.3} over plain",
                ours.name,
                other.name,
                time / others
            )
            .unwrap();
        }
    }
    for name in absent {
        writeln!(out, "{name}: not installed, or does not work here; not measured").unwrap();
    }
}
