//! Medians and spread of what was measured in turns.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// What the numbers are.
#[derive(Clone, Copy)]
pub enum Unit {
    /// How long each takes; less is better.
    Each,
    /// How many are done in a second; more is better.
    Second,
}

/// What something took, or all up to a moment.
#[derive(Clone, Copy)]
pub struct Spent {
    time: Duration,
    /// Processor time of this process, all threads, in the kernel too. Other processes lengthen the time, hardly this.
    processor: Duration,
}

impl Spent {
    pub fn until_now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        let micros =
            [usage.user_time(), usage.system_time()].map(|time| time.num_microseconds().unsigned_abs());
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self { time, processor: Duration::from_micros(micros.iter().sum()) }
    }

    pub fn since(self) -> Self {
        let now = Self::until_now();
        Self { time: now.time - self.time, processor: now.processor - self.processor }
    }
}

pub fn timed(work: impl FnOnce()) -> Spent {
    let started = Spent::until_now();
    work();
    started.since()
}

/// Ours and bare, pair by pair.
pub struct Pairs {
    name: &'static str,
    unit: Unit,
    ours: Vec<f64>,
    bare: Vec<f64>,
    ratios: Vec<f64>,
    /// Of the whole.
    processor: [Duration; 2],
    done: usize,
}

impl Pairs {
    pub const fn new(name: &'static str, unit: Unit) -> Self {
        Self {
            name,
            unit,
            ours: Vec::new(),
            bare: Vec::new(),
            ratios: Vec::new(),
            processor: [Duration::ZERO; 2],
            done: 0,
        }
    }

    /// Adds a pair that was measured in turn: so many of each were done.
    pub fn add(&mut self, done: usize, ours: Spent, bare: Spent) {
        let in_unit = |time: Duration| match self.unit {
            Unit::Each => time.as_secs_f64() * 1e6 / done as f64,
            Unit::Second => done as f64 / time.as_secs_f64(),
        };
        self.done += done;
        self.processor = [self.processor[0] + ours.processor, self.processor[1] + bare.processor];
        let (ours, bare) = (in_unit(ours.time), in_unit(bare.time));
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
    println!("| {title} | ours | bare | medians' ratio | ratio, pair by pair | processor time of each |");
    println!("| --- | --- | --- | --- | --- | --- |");
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
        let [processor, bare] = row.processor.map(|all| all.as_secs_f64() * 1e6 / row.done as f64);
        println!(
            "| {} | {} | {} | {ratio:.2} | {middle:.2} ({low:.2}–{high:.2}) | {processor:.0} and {bare:.0} µs ({:.2}) |",
            row.name,
            shown(&row.ours),
            shown(&row.bare),
            processor / bare
        );
    }
    println!();
}
