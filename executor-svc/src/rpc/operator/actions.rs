//! Actions as the operator sees them.

use gatehouse_proto::ids::{SessionId, ToolCallId};
use gatehouse_proto::v1;
use tonic::Status as Wire;

use super::{OperatorService, ledger};
use crate::action::Difference;
use crate::clock::Timestamp;
use crate::engine;
use crate::files::replace::Intent;
use crate::ledger::LedgerError;
use crate::ledger::actions::{self, ActionRow};

/// How much of inputs and receipts a list of actions carries: well within the message that a client takes.
const LISTED_BYTES: usize = 4 * 1024 * 1024;

/// The state of an action that waits for a person.
const UNCERTAIN: &str = "uncertain";

impl OperatorService {
    /// An action, if there is one of this id.
    pub(super) async fn find_action(&self, id: ToolCallId) -> Result<Option<v1::ActionView>, Wire> {
        let found = self.engine.read(move |connection| {
            let Some(row) = actions::load(connection, &id)? else { return Ok(None) };
            let session = SessionId::try_from(row.session_id.clone())
                .map_err(|error| LedgerError::damaged("action.session_id", error))?;
            let uncertain = engine::load(connection, &session)?.map(|s| s.uncertain).unwrap_or_default();
            action_view(row, &uncertain).map(Some)
        });
        found.await.map_err(ledger)
    }

    /// An action that was just recorded.
    pub(super) async fn shown(&self, row: ActionRow) -> Result<v1::ActionView, Wire> {
        let missing = || ledger(LedgerError::damaged("action.id", "an action that is not there"));
        let id = ToolCallId::try_from(row.id).map_err(|_| missing())?;
        self.find_action(id).await?.ok_or_else(missing)
    }
}

/// The newest actions with input and receipt, as far as these fit into a message; the older ones without.
pub(super) fn listed(
    rows: Vec<ActionRow>,
    uncertain: &[ToolCallId],
) -> Result<Vec<v1::ActionView>, LedgerError> {
    let mut left = LISTED_BYTES;
    let mut actions = Vec::with_capacity(rows.len());
    for mut row in rows.into_iter().rev() {
        let bytes = row.input.len() + row.receipt.as_ref().map_or(0, String::len);
        left = left.saturating_sub(bytes);
        if left == 0 {
            row.input.clear();
            row.receipt = None;
        }
        actions.push(action_view(row, uncertain)?);
    }
    actions.reverse();
    Ok(actions)
}

pub(super) fn action_view(row: ActionRow, uncertain: &[ToolCallId]) -> Result<v1::ActionView, LedgerError> {
    let waits = uncertain.iter().any(|id| id.as_str() == row.id);
    Ok(v1::ActionView {
        write: row.intent.as_deref().map(write_view).transpose()?,
        tool_call_id: row.id,
        native_session_id: row.session_id,
        run_id: row.run_id.unwrap_or_default(),
        turn_id: row.turn_id.unwrap_or_default(),
        name: row.name,
        state: if waits { UNCERTAIN.to_owned() } else { row.state },
        authorised_at_ms: row.authorised_at.millis(),
        finished_at_ms: row.finished_at.map(Timestamp::millis),
        ok: row.ok,
        code: row.code,
        input_json: row.input,
        receipt_json: row.receipt,
        receipt_sha256: row.receipt_sha256,
        undoes: row.reverts,
        subsession_id: row.subagent_id,
    })
}

/// Where a write goes and both hashes: nothing of what else the intent holds.
fn write_view(intent: &str) -> Result<v1::WriteView, LedgerError> {
    let intent: Intent =
        serde_json::from_str(intent).map_err(|error| LedgerError::damaged("action.intent", error))?;
    Ok(v1::WriteView {
        before_sha256: intent.before.sha256().map(str::to_owned),
        after_sha256: intent.after.sha256().map(str::to_owned),
        file_path: intent.path.to_string_lossy().into_owned(),
    })
}

pub(super) fn diff_view(found: Difference) -> v1::DiffView {
    let content = |side: Option<(String, u64)>| side.map(|(sha256, bytes)| v1::ContentView { sha256, bytes });
    let counts =
        found.lines.as_ref().map(|lines| (lines.added as u64, lines.removed as u64, lines.truncated));
    let (lines_added, lines_removed, truncated) = counts.unwrap_or_default();
    v1::DiffView {
        tool_call_id: found.row.id,
        name: found.row.name,
        state: if found.uncertain { UNCERTAIN.to_owned() } else { found.row.state },
        ok: found.row.ok,
        file_path: found.path.to_string_lossy().into_owned(),
        before: content(found.before),
        after: content(found.after),
        diff: found.lines.map(|lines| lines.text),
        truncated,
        lines_added,
        lines_removed,
        note: found.note,
    }
}
