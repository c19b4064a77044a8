//! Medians and spread of what was measured in turns.

use std::time::Duration;

/// What the numbers are.
#[derive(Clone, Copy)]
pub enum Unit {
    /// How long each takes; less is better.
    Each,
    /// How many are done in a second; more is better.
    Second,
}

/// Ours and bare, pair by pair.
pub struct Pairs {
    name: &'static str,
    unit: Unit,
    ours: Vec<f64>,
    bare: Vec<f64>,
    ratios: Vec<f64>,
}

impl Pairs {
    pub const fn new(name: &'static str, unit: Unit) -> Self {
        Self { name, unit, ours: Vec::new(), bare: Vec::new(), ratios: Vec::new() }
    }

    /// Adds a pair that was measured in turn: so many of each were done.
    pub fn add(&mut self, done: usize, ours: Duration, bare: Duration) {
        let in_unit = |time: Duration| match self.unit {
            Unit::Each => time.as_secs_f64() * 1e6 / done as f64,
            Unit::Second => done as f64 / time.as_secs_f64(),
        };
        let (ours, bare) = (in_unit(ours), in_unit(bare));
        self.ratios.push(ours / bare);
        self.ours.push(ours);
        self.bare.push(bare);
    }
}

/// The first quartile, the median and the third.
fn spread(numbers: &[f64]) -> (f64, f64, f64) {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: usize| sorted[(sorted.len() - 1) * part / 4];
    (at(1), at(2), at(3))
}

pub fn print(title: &str, rows: &[Pairs]) {
    println!("| {title} | ours | bare | medians' ratio | ratio, pair by pair |");
    println!("| --- | --- | --- | --- | --- |");
    for row in rows {
        let shown = |numbers: &[f64]| {
            let (low, middle, high) = spread(numbers);
            match row.unit {
                Unit::Each => format!("{middle:.0} µs ({low:.0}–{high:.0})"),
                Unit::Second => format!("{middle:.0} a second ({low:.0}–{high:.0})"),
            }
        };
        let (low, middle, high) = spread(&row.ratios);
        let ratio = spread(&row.ours).1 / spread(&row.bare).1;
        println!(
            "| {} | {} | {} | {ratio:.2} | {middle:.2} ({low:.2}–{high:.2}) |",
            row.name,
            shown(&row.ours),
            shown(&row.bare)
        );
    }
    println!();
}
