//! Measuring all ways in turns, and telling the medians.

use std::path::{Path, PathBuf};

use gatehouse_figures::{Goal, Place, Spread, Table, Unit, peers, rounds};
use gatehouse_sandbox::launch::Launcher;

use super::launches::Way;

const ROUNDS: usize = 50;
const BUBBLEWRAP: &str = "bubblewrap";

struct Row {
    name: String,
    way: Way,
    /// Seconds.
    times: Vec<f64>,
}

impl Row {
    fn new(name: impl Into<String>, way: Way) -> Self {
        Self { name: name.into(), way, times: Vec::new() }
    }

    async fn measure(&mut self) {
        self.times.push(self.way.once().await.unwrap().as_secs_f64());
    }

    fn is_ours(&self) -> bool {
        matches!(self.way, Way::Ours(_) | Way::OursToTheEnd(_))
    }
}

fn median(times: &[f64]) -> f64 {
    Spread::of(times).unwrap().median
}

/// The launchers that are measured, each with what its row is called.
fn launchers() -> Vec<(String, Launcher)> {
    let named = std::env::var_os("GATEHOUSE_BENCH_LAUNCHER");
    let paths = named.map_or_else(
        || vec![PathBuf::from(env!("CARGO_BIN_EXE_sandbox-launch"))],
        |list| std::env::split_paths(&list).collect(),
    );
    paths.iter().map(|path| (kind(path).to_owned(), Launcher::at(path))).collect()
}

/// One without a C library that is linked at each start lies in the folder of its own target.
fn kind(path: &Path) -> &'static str {
    let is_static = path.iter().any(|part| part.to_string_lossy().ends_with("-musl"));
    if is_static { "static launcher" } else { "ordinary launcher" }
}

fn rows() -> (Vec<Row>, Vec<String>) {
    let mut rows = vec![Row::new("plain fork and exec", Way::Plain)];
    for (name, launcher) in launchers() {
        let unconfined = format!("{name}, nothing confined");
        rows.push(Row::new(unconfined, Way::Unconfined(launcher.clone())));
        rows.push(Row::new(format!("{name}, until the end is told"), Way::OursToTheEnd(launcher.clone())));
        rows.push(Row::new(format!("{name}, until its keeper is gone too"), Way::Ours(launcher)));
    }
    let peers = peers();
    let mut absent = Vec::new();
    for (name, way) in [
        (BUBBLEWRAP, Way::bubblewrap()),
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

/// Measures, and keeps the table.
pub async fn measure() {
    let mut table =
        Table::new(["launch of `/bin/true`", "whole", "over a plain start", "beside", "goal", "reached"]);
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
    for _ in 0..rounds(ROUNDS) {
        for row in &mut working {
            row.measure().await;
        }
    }
    absent.iter().for_each(|name| table.absent(name));
    save(&working, table);
}

fn save(rows: &[Row], mut table: Table) {
    let plain = median(&rows[0].times);
    let others: Vec<&Row> = rows.iter().filter(|row| matches!(row.way, Way::Other(..))).collect();
    for row in rows {
        let ratios: Vec<String> = others.iter().map(|other| ratio(row, other, plain)).collect();
        let over = median(&row.times) - plain;
        let cells =
            [row.name.clone(), Spread::of(&row.times).unwrap().show(Unit::Time), Unit::Time.show(over)];
        let ratios = if row.is_ours() { ratios.join(", ") } else { String::new() };
        let [goal, reached] = goal(row, &others, plain);
        table.row(cells.into_iter().chain([ratios, goal, reached]));
    }
    table.save(Place::Launch).unwrap();
}

/// Ours to another's: what is over a plain start, and the whole.
fn ratio(ours: &Row, other: &Row, plain: f64) -> String {
    let (time, others) = (median(&ours.times), median(&other.times));
    format!(
        "{:.2} of {}'s overhead ({:.2} of the whole)",
        (time - plain) / (others - plain),
        other.name,
        time / others
    )
}

/// Of the overhead: at most 0.6 of bubblewrap's, a tenth of everybody else's.
fn goal(ours: &Row, others: &[&Row], plain: f64) -> [String; 2] {
    if !matches!(ours.way, Way::OursToTheEnd(_)) {
        return [String::new(), String::new()];
    }
    let over = |row: &Row| median(&row.times) - plain;
    let reached = others.iter().all(|other| {
        let wanted = if other.name == BUBBLEWRAP { 0.6 } else { 0.1 };
        Goal::AtMost(wanted).is_reached(over(ours) / over(other))
    });
    let reached = if others.is_empty() {
        "not measured"
    } else if reached {
        "yes"
    } else {
        "**no**"
    };
    ["at most 0.6 of bubblewrap's, 0.1 of the others'".to_owned(), reached.to_owned()]
}
