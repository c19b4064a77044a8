//! Finding out what is not in its place.
//!
//! One file per group of checks. In each, `gather` looks and decides nothing, and `judge` decides and looks at nothing: so every
//! line that may be printed is tested without bringing about what it tells of. [`CHECKS`] is the list of all lines; the
//! operator's guide has a row for each.

pub mod calls;
pub mod claude;
pub mod executor;
pub mod front;
pub mod links;
pub mod places;
pub mod sandbox;
pub mod services;
pub mod tools;
pub mod tunnel;

use serde::Serialize;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and something should be known or mended.
    Warning,
    /// It does not work.
    Failed,
}

impl Verdict {
    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One line of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Which check: one of [`CHECKS`].
    pub check: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found, in a sentence.
    pub found: String,
    /// What to do about it; with every line that is not ok.
    pub what_to_do: Option<String>,
}

impl Line {
    /// As it should be.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), what_to_do: None }
    }

    /// It works, but.
    pub fn warning(check: &'static str, found: impl Into<String>, what_to_do: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warning, found: found.into(), what_to_do: Some(what_to_do.into()) }
    }

    /// It does not work.
    pub fn failed(check: &'static str, found: impl Into<String>, what_to_do: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Failed, found: found.into(), what_to_do: Some(what_to_do.into()) }
    }
}

/// Every check that there is, in the order of the screen.
pub const CHECKS: [&str; 31] = [
    "configuration",
    "private_directories",
    "key_file",
    "configuration_file",
    "claude_code",
    "claude_version",
    "node",
    "git",
    "sandbox_layers",
    "sandbox_canaries",
    "protected_links",
    "executor",
    "executor_version",
    "ledger",
    "content_store",
    "disk_space",
    "front",
    "front_ready",
    "front_version",
    "front_key",
    "front_discovery",
    "front_protocol",
    "tunnel_client",
    "tunnel_profile",
    "tunnel_key",
    "tunnel_running",
    "tool_list",
    "clients",
    "services",
    "service_environment",
    "linger",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_a_row_for_every_check_and_for_nothing_else() {
        let guide = include_str!("../../docs/operations.md");
        let part = guide.split("## The doctor").nth(1).unwrap().split("\n## ").next().unwrap();
        let table = part.split("\nAt its end").next().unwrap();
        let rows: Vec<&str> =
            table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        assert_eq!(rows, CHECKS);
    }
}
