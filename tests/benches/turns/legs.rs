//! The figures of a turn, and their tables.

use gatehouse_figures::{Comparison, Goal, Place, Table, Unit};

const GOAL: Goal = Goal::AtMost(1.3);

/// One way between ChatGPT and Claude Code: how long it took, in seconds, and what stands beside it.
#[derive(Debug)]
pub struct Leg {
    name: &'static str,
    /// Of Gatehouse.
    pub ours: Vec<f64>,
    /// Of the commits that it needs.
    pub commits: Vec<f64>,
    /// Of the bare way.
    pub bare_way: Vec<f64>,
}

impl Leg {
    const fn new(name: &'static str) -> Self {
        Self { name, ours: Vec::new(), commits: Vec::new(), bare_way: Vec::new() }
    }

    fn compare(&self, ours: &[f64], other: &[f64], goal: Goal) -> Vec<String> {
        let mut pair = Comparison::new(self.name, Unit::Time, goal);
        ours.iter().for_each(|seconds| pair.ours(*seconds));
        other.iter().for_each(|seconds| pair.other(*seconds));
        pair.row()
    }

    fn beside_commits(&self) -> Vec<String> {
        self.compare(&self.ours, &self.commits, GOAL)
    }

    /// Ours beside the bare way, and how much of the goal that way leaves.
    fn beside_the_bare_way(&self) -> Vec<String> {
        let mut cells = self.compare(&self.ours, &self.bare_way, Goal::None);
        cells.truncate(4);
        cells.extend(self.compare(&self.bare_way, &self.commits, Goal::None).into_iter().nth(3));
        cells
    }
}

/// Both ways.
#[derive(Debug)]
pub struct Legs {
    /// From a request of Claude Code's.
    pub asked: Leg,
    /// From a reply of ChatGPT's.
    pub answered: Leg,
}

impl Legs {
    /// Nothing measured yet.
    pub const fn new() -> Self {
        Self {
            asked: Leg::new("Claude Code's `POST` → the waiting call of ChatGPT returns (1 commit)"),
            answered: Leg::new("ChatGPT's reply is sent → its first byte at Claude Code (1 commit)"),
        }
    }

    /// Keeps the tables.
    pub fn save(&self) {
        let mut table = Table::new(Comparison::head("from → to", "bare commits"));
        table.row(self.asked.beside_commits());
        table.row(self.answered.beside_commits());
        table.save(Place::Turns).unwrap();
        let mut table =
            Table::new(["from → to", "ours", "the bare way", "ours to it", "it to the bare commits"]);
        table.row(self.asked.beside_the_bare_way());
        table.row(self.answered.beside_the_bare_way());
        table.save(Place::TurnsWay).unwrap();
    }
}
