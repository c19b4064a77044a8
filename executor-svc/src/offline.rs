//! Verifying while no executor runs.

use std::io::Write;
use std::path::Path;

use executor_svc::action::{ContentCheck, check_contents};
use executor_svc::content::ContentStore;
use executor_svc::ledger::{self, Readers, SCHEMA_VERSION, verify};
use executor_svc::state_lock::{LockError, StateLock};
use serde_json::{Value, json};

use super::Failure;

/// Prints one JSON line per step, and a last one with what was found.
pub(super) fn verify(state_dir: &Path, content_bytes: u64) -> Result<(), Failure> {
    if ledger::is_absent(state_dir)? {
        return Ok(say(&json!({ "result": null }))?);
    }
    let _lock = match StateLock::take(state_dir) {
        Ok(lock) => Some(lock),
        Err(taken @ LockError::Taken { .. }) => return Err(taken.into()),
        // A directory that cannot be written can be verified all the same.
        Err(LockError::Io { .. }) => None,
    };
    let mut report = verify::offline(state_dir, |done, total| {
        let _ = say(&json!({ "part": "journal", "done": done, "total": total }));
    })?;
    say(&json!({ "part": "contents", "done": 0, "total": 0 }))?;
    let store = ContentStore::as_it_is(&state_dir.join("content"), content_bytes)
        .with_ledger(Readers::to_look(state_dir));
    let check = || ledger::look_at(state_dir).and_then(|connection| check_contents(&connection, &store));
    let contents = match check() {
        Ok(checked) => checked,
        // What names contents came to the ledger with a later version.
        Err(_) if (1..SCHEMA_VERSION).contains(&report.version) => ContentCheck::default(),
        Err(error) => {
            report.problems.push(format!("the kept contents could not be checked ({error})"));
            ContentCheck::default()
        }
    };
    let broken = report.broken.as_ref();
    say(&json!({ "result": {
        "ok": report.is_whole() && contents.faults == 0,
        "entries": report.entries,
        "broken_at_seq": broken.map(|broken| broken.seq),
        "broken_session_id": broken.and_then(|broken| broken.session.clone()),
        "broken_why": broken.map(|broken| broken.why.clone()),
        "ledger_problems": report.problems,
        "contents": contents.whole,
        "contents_pruned": contents.pruned,
        "content_faults": contents.faults,
        "content_problems": contents.told,
    }}))?;
    Ok(())
}

fn say(line: &Value) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
