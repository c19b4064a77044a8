//! What the stand-in has noted.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A model turn, seen from Claude Code's place; since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Its request was about to be sent.
    pub asked: Duration,
    /// The first byte of its reply was there.
    pub began: Duration,
}

/// The notes of a run.
pub struct Notes {
    path: PathBuf,
    turns: Vec<Turn>,
}

impl Notes {
    /// Those of the one run below the state directory that notes anything.
    pub fn find(state_dir: &Path) -> Self {
        let mut folders = vec![state_dir.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else if entry.path().extension().is_some_and(|ending| ending == "times") {
                    return Self { path: entry.path(), turns: Vec::new() };
                }
            }
        }
        panic!("no notes below {}", state_dir.display());
    }

    /// The turn of that number, from 0.
    pub fn turn(&mut self, number: usize) -> Turn {
        if self.turns.len() <= number {
            let text = std::fs::read_to_string(&self.path).unwrap();
            let nanoseconds = |text: &str| Duration::from_nanos(text.parse().unwrap());
            let turn = |line: &str| {
                let (asked, began) = line.split_once(' ').unwrap();
                Turn { asked: nanoseconds(asked), began: nanoseconds(began) }
            };
            self.turns = text.lines().map(turn).collect();
        }
        self.turns[number]
    }
}
