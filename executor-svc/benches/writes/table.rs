//! Medians and spread of what was measured in turns.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatehouse_figures::{Goal, Place, Spread, Table, Unit as Shown};
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
    goal: Goal,
    ours: Vec<f64>,
    bare: Vec<f64>,
    ratios: Vec<f64>,
    /// Of the whole.
    processor: [Duration; 2],
    done: usize,
}

impl Pairs {
    pub const fn new(name: &'static str, unit: Unit, goal: Goal) -> Self {
        Self {
            name,
            unit,
            goal,
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
            Unit::Each => time.as_secs_f64() / done as f64,
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

/// Keeps the rows as a table of docs/performance.md.
pub fn save(place: Place, mut table: Table, rows: &[Pairs]) {
    for row in rows {
        let unit = match row.unit {
            Unit::Each => Shown::Time,
            Unit::Second => Shown::PerSecond,
        };
        let shown = |numbers: &[f64]| Spread::of(numbers).unwrap().show(unit);
        let ratio = Spread::of(&row.ours).unwrap().median / Spread::of(&row.bare).unwrap().median;
        let Spread { low, median, high } = Spread::of(&row.ratios).unwrap();
        let [ours, bare] = row.processor.map(|all| all.as_secs_f64() / row.done as f64);
        let [goal, reached] = row.goal.cells(Some(ratio), |wanted| format!("{wanted}"));
        table.row([
            row.name.to_owned(),
            shown(&row.ours),
            shown(&row.bare),
            format!("{ratio:.2}"),
            format!("{median:.2} ({low:.2}–{high:.2})"),
            format!("{} and {} ({:.2})", Shown::Time.show(ours), Shown::Time.show(bare), ours / bare),
            goal,
            reached,
        ]);
    }
    table.save(place).unwrap();
}

/// The empty table; made before anything is measured.
pub fn table(title: &str) -> Table {
    let head = ["ours", "bare", "ratio", "pair by pair", "processor time of each", "goal", "reached"];
    Table::new([title].into_iter().chain(head))
}
