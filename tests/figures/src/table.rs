//! Tables, and where they are kept.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs, io};

use serde::{Deserialize, Serialize};

use super::machine::load;
use super::{Place, Spread, Unit, folder};

/// What is wanted of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// It is not more.
    AtMost(f64),
    /// It is not less.
    AtLeast(f64),
    /// Nothing was said.
    None,
}

impl Goal {
    /// The goal's cell and that of whether it is reached.
    pub fn cells(self, number: Option<f64>, show: impl Fn(f64) -> String) -> [String; 2] {
        let (words, wanted) = match self {
            Self::AtMost(wanted) => ("at most ", wanted),
            Self::AtLeast(wanted) => ("at least ", wanted),
            Self::None => return [String::new(), String::new()],
        };
        let reached =
            number.map_or("not measured", |number| if self.is_reached(number) { "yes" } else { "**no**" });
        [format!("{words}{}", show(wanted)), reached.to_owned()]
    }

    /// Whether the number is as wanted.
    #[must_use]
    pub fn is_reached(self, number: f64) -> bool {
        match self {
            Self::AtMost(wanted) => number <= wanted,
            Self::AtLeast(wanted) => number >= wanted,
            Self::None => true,
        }
    }
}

/// Ours beside another's, measured in turn.
#[derive(Debug, Clone)]
pub struct Comparison {
    name: String,
    unit: Unit,
    goal: Goal,
    ours: Vec<f64>,
    other: Vec<f64>,
}

impl Comparison {
    /// Nothing measured yet. The goal is one of the ratio, ours to the other's.
    pub fn new(name: impl Into<String>, unit: Unit, goal: Goal) -> Self {
        Self { name: name.into(), unit, goal, ours: Vec::new(), other: Vec::new() }
    }

    /// Adds a measurement of ours.
    pub fn ours(&mut self, number: f64) {
        self.ours.push(number);
    }

    /// Adds one of the other's.
    pub fn other(&mut self, number: f64) {
        self.other.push(number);
    }

    /// The heads of its columns.
    #[must_use]
    pub fn head(first: &str, other: &str) -> Vec<String> {
        [first, "ours", other, "ratio", "goal", "reached"].map(str::to_owned).to_vec()
    }

    /// The medians' ratio, if both were measured.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        Some(Spread::of(&self.ours)?.median / Spread::of(&self.other)?.median)
    }

    /// Its row.
    #[must_use]
    pub fn row(&self) -> Vec<String> {
        let shown =
            |numbers: &[f64]| Spread::of(numbers).map_or_else(String::new, |spread| spread.show(self.unit));
        let ratio = self.ratio();
        let [goal, reached] = self.goal.cells(ratio, |wanted| format!("{wanted}"));
        let ratio = ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        vec![self.name.clone(), shown(&self.ours), shown(&self.other), ratio, goal, reached]
    }
}

/// A table and when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// When, and at which load.
    taken: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// What has to be said below it.
    notes: Vec<String>,
}

impl Table {
    /// An empty one with these columns; made before anything is measured, so that the load is that of others.
    pub fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let day = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let mut taken = day.chars().take(10).collect::<String>();
        if let Some(load) = load() {
            taken.push_str(&format!(", load before it {load}"));
        }
        let head = head.into_iter().map(Into::into).collect();
        Self { taken, head, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds a row of one number with a goal.
    pub fn measured(&mut self, name: &str, cells: &[String], unit: Unit, number: f64, goal: Goal) {
        let [goal, reached] = goal.cells(Some(number), |wanted| unit.show(wanted));
        self.row([name.to_owned()].into_iter().chain(cells.iter().cloned()).chain([goal, reached]));
    }

    /// Adds a sentence.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Says that something is not there to be compared with.
    ///
    /// # Panics
    /// When `GATEHOUSE_BENCH_COMPARE` asks for comparison.
    pub fn absent(&mut self, peer: &str) {
        let must = env::var_os("GATEHOUSE_BENCH_COMPARE").is_some_and(|set| !set.is_empty() && set != "0");
        assert!(!must, "{peer} is not here, or does not work here, and GATEHOUSE_BENCH_COMPARE is set");
        self.note(format!("{peer} is not installed, or does not work here: not measured."));
    }

    /// The table as Markdown, with what belongs to it.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&self.head);
        text.push_str(&line(&vec!["---".to_owned(); self.head.len()]));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text.push_str(&format!("\n*{}.*", self.taken));
        self.notes.iter().for_each(|note| text.push_str(&format!(" {note}")));
        text.push('\n');
        text
    }

    /// Keeps the table, and shows it.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn save(&self, place: Place) -> io::Result<()> {
        let folder = folder();
        fs::create_dir_all(&folder)?;
        fs::write(file(&folder, place), serde_json::to_vec_pretty(self)?)?;
        let mut out = io::stdout().lock();
        io::Write::write_all(&mut out, format!("\n{}\n{}", place.as_str(), self.markdown()).as_bytes())
    }

    /// The table that was kept for a place; `None` if none was.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn load(folder: &Path, place: Place) -> io::Result<Option<Self>> {
        match fs::read(file(folder, place)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn file(folder: &Path, place: Place) -> PathBuf {
    folder.join(format!("{}.json", place.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_tells_its_ratio_and_whether_that_is_enough() {
        let mut pair = Comparison::new("a turn", Unit::Time, Goal::AtMost(1.3));
        assert_eq!(pair.row()[5], "not measured");
        for number in [0.002, 0.004, 0.003] {
            pair.ours(number);
            pair.other(number / 1.25);
        }
        assert_eq!(
            pair.row(),
            ["a turn", "3.00 ms (2.00–3.00)", "2.40 ms (1.60–2.40)", "1.25", "at most 1.3", "yes"]
        );
        pair.goal = Goal::AtMost(1.2);
        assert_eq!(pair.row()[5], "**no**");
        pair.goal = Goal::AtLeast(1.2);
        assert_eq!(pair.row()[5], "yes");
    }

    #[test]
    fn a_table_is_the_same_after_it_was_kept_and_one_that_is_broken_is_no_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = Table::new(["what", "size", "goal", "reached"]);
        table.measured("a binary", &["16.0 MiB".to_owned()], Unit::Mebibytes, 16.0, Goal::AtMost(15.0));
        table.note("It is large.");
        let text = serde_json::to_vec(&table).unwrap();
        fs::write(file(folder.path(), Place::Binaries), text).unwrap();
        assert_eq!(Table::load(folder.path(), Place::Binaries).unwrap().unwrap(), table);
        let shown = table.markdown();
        let expected = "| what | size | goal | reached |\n| --- | --- | --- | --- |\n\
                        | a binary | 16.0 MiB | at most 15.0 MiB | **no** |\n\n*";
        assert!(shown.starts_with(expected) && shown.ends_with(".* It is large.\n"), "{shown}");
        assert!(Table::load(folder.path(), Place::Turns).unwrap().is_none());
        fs::write(file(folder.path(), Place::Turns), "{").unwrap();
        assert!(Table::load(folder.path(), Place::Turns).is_err());
    }
}
