//! What `gatehouse doctor` cannot see from outside.

use gatehouse_proto::ids::ToolCallId;
use gatehouse_proto::v1;
use rusqlite::Connection;
use serde_json::Value;
use tonic::Status as Wire;

use super::{OperatorService, ledger};
use crate::ledger::verify::{self, Verdict};
use crate::ledger::{LedgerError, actions as rows, health, journal};

/// How much of the journal's end is looked at.
const LATEST: u64 = 1000;

impl OperatorService {
    pub(super) async fn diagnosis(&self) -> Result<v1::DiagnoseReply, Wire> {
        let mut reply = self.engine.read_long(look).await.map_err(ledger)?;
        let actions = self.actions.clone();
        let counted = tokio::task::spawn_blocking(move || actions.content_bytes()).await;
        reply.content_bytes = match counted {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => {
                reply.ledger_problems.push(format!("the kept contents cannot be counted: {error}"));
                0
            }
            Err(error) => return Err(Wire::internal(error.to_string())),
        };
        reply.content_limit_bytes = self.engine.settings().writing.content_bytes;
        reply.contact = Some(self.engine.contact().known());
        Ok(reply)
    }
}

fn look(connection: &Connection) -> Result<v1::DiagnoseReply, LedgerError> {
    let last = journal::last_seq(connection)?;
    let from = last.saturating_sub(LATEST - 1).max(1);
    let (entries_checked, broken_at_seq) = match verify::walk_from(connection, from)? {
        Verdict::Whole(_) => (last + 1 - from, None),
        Verdict::Broken(seq) => (seq - from, Some(seq)),
    };
    let ends = ends(connection, from, entries_checked)?;
    Ok(v1::DiagnoseReply {
        ledger_bytes: health::file_bytes(connection)?,
        ledger_problems: health::quick_check(connection)?,
        entries_checked,
        broken_at_seq,
        last_action: ends.last().cloned(),
        last_failed_action: ends.iter().rev().find(|end| !end.ok).cloned(),
        ..v1::DiagnoseReply::default()
    })
}

/// The actions that got their receipts lately, as far as the chain is whole; oldest first.
fn ends(connection: &Connection, from: u64, sound: u64) -> Result<Vec<v1::ActionEnd>, LedgerError> {
    let entries = journal::entries(connection, from, None, u32::try_from(sound).unwrap_or(u32::MAX))?;
    let mut ends: Vec<v1::ActionEnd> = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.kind == "action.settled") {
        let body: Value =
            serde_json::from_str(&entry.body).map_err(|error| LedgerError::damaged("journal.body", error))?;
        ends.push(v1::ActionEnd {
            native_session_id: entry.session_id,
            tool_call_id: body["tool_call_id"].as_str().unwrap_or_default().to_owned(),
            name: String::new(),
            ok: body["ok"].as_bool().unwrap_or_default(),
            code: body["code"].as_str().map(str::to_owned),
            at_ms: entry.at.millis(),
        });
    }
    // Only what is shown needs its tool's name: the last one, and the last that failed.
    let shown = [ends.len().checked_sub(1), ends.iter().rposition(|end| !end.ok)];
    for index in shown.into_iter().flatten() {
        let id = ToolCallId::try_from(ends[index].tool_call_id.clone());
        let row = id.ok().map(|id| rows::load(connection, &id)).transpose()?.flatten();
        ends[index].name = row.map(|row| row.name).unwrap_or_default();
    }
    Ok(ends)
}
