//! `gatehouse verify`.

use gatehouse_proto::v1::VerifyLedgerRequest;
use serde_json::json;

use super::progress::Progress;
use crate::cli::Json;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::{Screen, clean};

pub(super) async fn run(mut operator: Operator, options: &Json, screen: &mut Screen) -> Result<(), Failure> {
    let work = operator.verify_ledger(VerifyLedgerRequest {});
    let found = Progress::new().during("verifying", work).await?.into_inner();
    if options.json {
        let line = json!({
            "ok": found.ok, "entries": found.entries, "broken_at_seq": found.broken_at_seq, "message": found.message,
            "contents": found.contents, "contents_pruned": found.contents_pruned,
            "content_faults": found.content_faults, "content_problems": found.content_problems,
        });
        screen.line(line.to_string())?;
    } else if found.ok {
        screen.line(format!(
            "The ledger is whole: {} entries, each chained to the one before.",
            found.entries
        ))?;
        let pruned = match found.contents_pruned {
            0 => String::new(),
            pruned => format!(" {pruned} more were pruned."),
        };
        screen.line(format!(
            "Of changed files {} contents are kept, each what its hash says.{pruned}",
            found.contents
        ))?;
    }
    if found.ok {
        return Ok(());
    }
    if found.broken_at_seq.is_none() {
        let problems: Vec<_> =
            found.content_problems.iter().map(|problem| format!("\n  {}", clean(problem, 300))).collect();
        return Err(Failure::failed(format!(
            "{} of the kept contents and receipts are missing or changed:{}",
            found.content_faults,
            problems.concat()
        ))
        .hint("The changes that they belong to can be neither shown nor undone. Look at the disk, or restore a copy of the state directory."));
    }
    let place = found.broken_at_seq.map(|seq| format!(" at entry {seq}")).unwrap_or_default();
    Err(Failure::failed(format!("the ledger is broken{place}: {}", found.message))
        .hint("Stop the gateway, keep the state directory as it is, and restore the last good copy."))
}
