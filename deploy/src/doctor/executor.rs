//! The executor: whether it answers, and what it says of the ledger, of what it keeps, and of the disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gatehouse_proto::v1::{DiagnoseReply, DiagnoseRequest, HealthReply};

use super::Line;
use crate::operator;
use crate::screen::size;
use crate::settings::Settings;

/// Below this much free space a warning is due, and below a tenth of it nothing can be relied on.
const FEW_BYTES: u64 = 1 << 30;

/// How long it may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to look at its ledger and count what it keeps.
const DIAGNOSIS: Duration = Duration::from_secs(120);

/// Why there is no word of an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Nobody is at the socket.
    Nobody,
    /// Somebody is, and says nothing.
    Silent,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// What it says of itself.
    pub health: Result<HealthReply, Absence>,
    /// What it finds out for us; an error in its own words.
    pub diagnosis: Option<Result<DiagnoseReply, String>>,
    /// The version of this program.
    pub ours: &'static str,
    /// Where the state is, and how much is free there, in bytes.
    pub disk: Option<(PathBuf, u64)>,
}

/// Looks.
pub async fn gather(settings: &Settings) -> Facts {
    let mut facts = Facts {
        health: Err(Absence::Nobody),
        diagnosis: None,
        ours: env!("CARGO_PKG_VERSION"),
        disk: free(&settings.state_dir),
    };
    let Ok(mut operator) = operator::client(&settings.runtime_dir) else { return facts };
    facts.health = match tokio::time::timeout(PATIENCE, operator::health(&mut operator)).await {
        Ok(answered) => answered.map_err(|_| Absence::Nobody),
        Err(_) => Err(Absence::Silent),
    };
    if facts.health.is_ok() {
        let asked = tokio::time::timeout(DIAGNOSIS, operator.diagnose(DiagnoseRequest {})).await;
        facts.diagnosis = Some(match asked {
            Ok(answered) => {
                answered.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
            }
            Err(_) => Err(format!("no answer within {} s", DIAGNOSIS.as_secs())),
        });
    }
    facts
}

/// How much is free for us where a directory is, or will be.
fn free(directory: &Path) -> Option<(PathBuf, u64)> {
    let there = directory.ancestors().find(|path| path.is_dir())?;
    let found = nix::sys::statvfs::statvfs(there).ok()?;
    #[allow(clippy::useless_conversion, reason = "the types are narrower on macOS")]
    let bytes = u64::from(found.blocks_available()).saturating_mul(u64::from(found.fragment_size()));
    Some((there.to_owned(), bytes))
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    let mut lines = Vec::new();
    match &facts.health {
        Err(Absence::Nobody) => lines.push(Line::failed(
            "executor",
            "none answers",
            "Start it: `gatehouse up`, or `gatehouse install` for services. If it does not stay, its log says why.",
        )),
        Err(Absence::Silent) => lines.push(Line::failed(
            "executor",
            format!("one is there and says nothing within {} s", PATIENCE.as_secs()),
            "Is it stopped, or the disk of the state directory stuck? Look at its log; if nothing moves, kill executor-svc and start the gateway again: sessions go on.",
        )),
        Ok(health) => lines.extend(alive(health, facts.ours)),
    }
    match &facts.diagnosis {
        None => {}
        Some(Err(why)) => {
            lines.push(Line::failed("ledger", format!("it cannot be looked at: {why}"), RESTORE));
        }
        Some(Ok(found)) => lines.extend([ledger(found), content(found)]),
    }
    lines.extend(facts.disk.as_ref().map(|(path, free)| disk(path, *free)));
    lines
}

const RESTORE: &str = "Stop the gateway, keep the state directory as it is, and restore the last good copy. `gatehouse verify` looks at all of it.";

fn alive(health: &HealthReply, ours: &str) -> [Line; 2] {
    let found =
        format!("answers; {} live sessions, {} journal entries", health.live_sessions, health.journal_seq);
    let version = if health.version == ours {
        Line::ok("executor_version", health.version.clone())
    } else {
        Line::warning(
            "executor_version",
            format!("the executor is {}, this program {ours}", health.version),
            "Start the gateway again, or use the program that belongs to it.",
        )
    };
    [Line::ok("executor", found), version]
}

fn ledger(found: &DiagnoseReply) -> Line {
    const CHECK: &str = "ledger";
    if let Some(problem) = found.ledger_problems.first() {
        return Line::failed(CHECK, format!("the file is damaged: {problem}"), RESTORE);
    }
    match found.broken_at_seq {
        Some(seq) => {
            Line::failed(CHECK, format!("journal entry {seq} is missing or is not what was written"), RESTORE)
        }
        None => Line::ok(
            CHECK,
            format!(
                "{}, sound; the last {} entries are chained",
                size(found.ledger_bytes),
                found.entries_checked
            ),
        ),
    }
}

fn content(found: &DiagnoseReply) -> Line {
    const CHECK: &str = "content_store";
    let (used, limit) = (found.content_bytes, found.content_limit_bytes);
    let told = format!("{} of {}", size(used), size(limit));
    const PRUNE: &str = "`gatehouse prune --older-than 30d --dry-run` shows what could go; writing.content_bytes is the limit.";
    if used >= limit {
        Line::failed(CHECK, format!("{told}: full, so writes are refused"), PRUNE)
    } else if used >= limit / 5 * 4 {
        Line::warning(CHECK, format!("{told}: nearly full; writes are refused when it is"), PRUNE)
    } else {
        Line::ok(CHECK, told)
    }
}

fn disk(path: &Path, free: u64) -> Line {
    const CHECK: &str = "disk_space";
    let told = format!("{} free at {}", size(free), path.display());
    const ROOM: &str =
        "Make room: without it, replies and receipts cannot be recorded and writes are refused.";
    if free < FEW_BYTES / 10 {
        Line::failed(CHECK, told, ROOM)
    } else if free < FEW_BYTES {
        Line::warning(CHECK, told, ROOM)
    } else {
        Line::ok(CHECK, told)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{self, Failed, Ok as Fine, Warning};
    use super::*;

    fn facts() -> Facts {
        let health = HealthReply { version: "1".into(), ..HealthReply::default() };
        let found = DiagnoseReply { content_limit_bytes: 100, ..DiagnoseReply::default() };
        Facts {
            health: Ok(health),
            diagnosis: Some(Ok(found)),
            ours: "1",
            disk: Some(("/".into(), u64::MAX)),
        }
    }

    fn with(change: impl FnOnce(&mut DiagnoseReply)) -> Facts {
        let mut facts = facts();
        if let Some(Ok(found)) = &mut facts.diagnosis {
            change(found);
        }
        facts
    }

    fn verdict(facts: &Facts, check: &str) -> Verdict {
        judge(facts).iter().find(|line| line.check == check).unwrap().verdict
    }

    #[test]
    fn a_sound_gateway_has_nothing_but_good_lines() {
        assert!(judge(&facts()).iter().all(|line| line.verdict == Fine && line.what_to_do.is_none()));
        assert_eq!(judge(&facts()).len(), 5);
    }

    #[test]
    fn each_fault_has_its_line() {
        for absence in [Absence::Nobody, Absence::Silent] {
            let none = Facts { health: Err(absence), diagnosis: None, ..facts() };
            assert_eq!(verdict(&none, "executor"), Failed);
        }
        assert_eq!(verdict(&Facts { ours: "2", ..facts() }, "executor_version"), Warning);
        assert_eq!(verdict(&with(|found| found.ledger_problems.push("row 1".into())), "ledger"), Failed);
        assert_eq!(verdict(&with(|found| found.broken_at_seq = Some(3)), "ledger"), Failed);
        assert_eq!(verdict(&Facts { diagnosis: Some(Err("io".into())), ..facts() }, "ledger"), Failed);
        for (bytes, expected) in [(79, Fine), (80, Warning), (99, Warning), (100, Failed)] {
            assert_eq!(
                verdict(&with(|found| found.content_bytes = bytes), "content_store"),
                expected,
                "{bytes}"
            );
        }
        for (free, expected) in [(FEW_BYTES, Fine), (FEW_BYTES - 1, Warning), (FEW_BYTES / 10 - 1, Failed)] {
            let facts = Facts { disk: Some(("/".into(), free)), ..facts() };
            assert_eq!(verdict(&facts, "disk_space"), expected, "{free}");
        }
    }
}
