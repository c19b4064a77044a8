//! The allowlist: which skills are allowed, each pinned to one text.
//!
//! One fault anywhere makes the whole list void: somebody who meant to pin a skill and mistyped must not learn of it by
//! a session that goes on without. The fault is named, and the gateway starts all the same.

use std::collections::BTreeMap;

use gatehouse_proto::skill::SkillId;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::config::{ALLOWLIST_VARIABLE, AllowlistText};

/// How the list in the configuration file is called.
const FILE_KEY: &str = "skills.allow";
/// How many faults are told to a caller, and how much of a parser's words about one.
const TOLD: usize = 5;
const WORDS: usize = 120;

/// The allowlist, or what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowlist {
    origin: &'static str,
    pins: BTreeMap<SkillId, String>,
    faults: Vec<EntryFault>,
}

/// What is wrong with an allowlist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFault {
    /// Which entry, from 0; `None` if it is the list itself.
    pub entry: Option<usize>,
    /// What is wrong.
    pub problem: String,
}

impl std::fmt::Display for EntryFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.entry {
            Some(entry) => write!(f, "entry {entry} {}", self.problem),
            None => write!(f, "it {}", self.problem),
        }
    }
}

/// The first faults, in one line.
pub(super) fn told(faults: &[EntryFault]) -> String {
    let mut said: Vec<_> = faults.iter().take(TOLD).map(ToString::to_string).collect();
    if faults.len() > TOLD {
        said.push(format!("and {} more faults", faults.len() - TOLD));
    }
    said.join("; ")
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    skill_id: String,
    content_sha256: String,
}

impl Allowlist {
    /// Reads the list as it was written.
    #[must_use]
    pub fn read(text: &AllowlistText) -> Self {
        match text {
            AllowlistText::Absent => Self { origin: FILE_KEY, ..Self::default() },
            AllowlistText::Variable(text) => Self::of(ALLOWLIST_VARIABLE, from_json(text.to_str())),
            AllowlistText::File(value) => Self::of(FILE_KEY, from_toml(value)),
        }
    }

    fn of(origin: &'static str, entries: Result<Vec<Result<Entry, String>>, String>) -> Self {
        let mut list = Self { origin, ..Self::default() };
        match entries {
            Ok(entries) => {
                for (index, entry) in entries.into_iter().enumerate() {
                    if let Err(problem) = entry.and_then(|entry| list.add(entry)) {
                        list.faults.push(EntryFault { entry: Some(index), problem });
                    }
                }
            }
            Err(problem) => list.faults.push(EntryFault { entry: None, problem }),
        }
        list
    }

    fn add(&mut self, entry: Entry) -> Result<(), String> {
        let shown: String = entry.skill_id.chars().take(WORDS).collect();
        let shown = shown.escape_default();
        let id =
            SkillId::try_from(entry.skill_id).map_err(|error| format!("(`{shown}`): skill_id {error}"))?;
        if !is_sha256(&entry.content_sha256) {
            return Err(format!("(`{shown}`): content_sha256 is not 64 lower-case hexadecimal digits"));
        }
        // Nobody can tell which of two pins is meant, and one that is there twice was meant to be another.
        if self.pins.insert(id, entry.content_sha256).is_some() {
            return Err(format!(
                "(`{shown}`): skill_id stands in an earlier entry too; each skill has one pin"
            ));
        }
        Ok(())
    }

    /// The hash that a skill must have; `None` if it is not allowed.
    #[must_use]
    pub fn pin(&self, id: &SkillId) -> Option<&str> {
        if self.faults.is_empty() { self.pins.get(id).map(String::as_str) } else { None }
    }

    /// Where the list stands and what is wrong with it; `None` if nothing is.
    #[must_use]
    pub fn faults(&self) -> Option<(&'static str, &[EntryFault])> {
        (!self.faults.is_empty()).then_some((self.origin, self.faults.as_slice()))
    }

    /// What `--check-config` says of it.
    #[must_use]
    pub fn summary(&self) -> serde_json::Value {
        let faults: Vec<_> = self.faults.iter().map(ToString::to_string).collect();
        let allowed: Vec<_> = if faults.is_empty() { self.pins.keys().collect() } else { Vec::new() };
        serde_json::json!({ "allowlist": self.origin, "allowed": allowed, "faults": faults })
    }

    /// Tells the log what is wrong.
    pub fn log_faults(&self) {
        for fault in &self.faults {
            tracing::error!(allowlist = self.origin, %fault, "the allowlist of skills is malformed: no session starts with skills");
        }
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

type Entries = Result<Vec<Result<Entry, String>>, String>;

fn from_json(text: Option<&str>) -> Entries {
    let text = text.ok_or("is not UTF-8")?;
    if text.trim().is_empty() {
        return Err("is empty; `[]` says that no skill is allowed".to_owned());
    }
    let entries: Vec<Box<RawValue>> = serde_json::from_str(text)
        .map_err(|error| format!("is not a JSON array of objects ({})", words(&error)))?;
    Ok(entries.iter().map(|entry| serde_json::from_str(entry.get()).map_err(|e| is_no_entry(&e))).collect())
}

fn from_toml(value: &toml::Value) -> Entries {
    let entries = value.as_array().ok_or("is not a list")?;
    Ok(entries.iter().map(|entry| Entry::deserialize(entry.clone()).map_err(|e| is_no_entry(&e))).collect())
}

fn is_no_entry(error: &impl ToString) -> String {
    format!("is not {{skill_id, content_sha256}}: {}", words(error))
}

fn words(error: &impl ToString) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ").chars().take(WORDS).collect()
}
