//! What a step says of a subagent, as rows and journal entries.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::ledger::{LedgerError, runs, subagents};
use crate::session::{Effect, Session, SubagentEnd, SubagentStart};

/// Writes the effect's rows and gives the journal entry's body: ids, hashes and numbers, no content.
pub(super) fn record(
    tx: &Connection,
    session: &Session,
    effect: &Effect,
    now: Timestamp,
) -> Result<Value, LedgerError> {
    Ok(match effect {
        Effect::SubagentStarted(ask) => started(tx, session, ask, now)?,
        Effect::SubagentAttached { id, enforced_by } => {
            json!({ "subsession_id": id, "enforced_by": enforced_by })
        }
        Effect::SubagentRequested { id, turn_id, requests } => {
            subagents::requested(tx, id, *requests)?;
            json!({ "subsession_id": id, "turn_id": turn_id, "requests": requests })
        }
        Effect::SubagentAnswered { id, turn_id, ordinal, content, model, usage } => {
            let answer = subagents::NewAnswer {
                id,
                turn: turn_id,
                ordinal: *ordinal,
                content,
                model,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
            };
            subagents::answered(tx, &answer)?;
            json!({ "subsession_id": id, "turn_id": turn_id, "model": model, "usage": usage })
        }
        Effect::SubagentStopping { id, end } => {
            stands(tx, id, "stopping", end, None, None)?;
            json!({ "subsession_id": id, "end": end })
        }
        Effect::SubagentOver { id, run_id, result_turn, end } => {
            runs::close(tx, run_id, now)?;
            let result = result_turn.as_ref().filter(|_| *end == SubagentEnd::Finished);
            stands(tx, id, end.status(), end, result, Some(now))?;
            json!({ "subsession_id": id, "run_id": run_id, "end": end })
        }
        _ => Value::Null,
    })
}

fn started(
    tx: &Connection,
    session: &Session,
    ask: &SubagentStart,
    now: Timestamp,
) -> Result<Value, LedgerError> {
    let new = subagents::NewSubagent {
        id: &ask.id,
        session: &session.id,
        started_by: &ask.action,
        ordinal: session.subsessions,
        grade: ask.grade.as_str(),
        at: now,
    };
    subagents::insert(tx, &new)?;
    let run = runs::NewRun {
        id: &ask.run_id,
        session: &session.id,
        ordinal: 1,
        epoch: 1,
        prompt: &ask.prompt,
        at: now,
        subagent: Some(&ask.id),
    };
    runs::insert(tx, &run)?;
    Ok(json!({
        "subsession_id": ask.id, "run_id": ask.run_id, "tool_call_id": ask.action, "grade": ask.grade,
        "prompt_sha256": gatehouse_proto::digest::sha256_hex(ask.prompt.as_bytes()),
    }))
}

fn stands(
    tx: &Connection,
    id: &gatehouse_proto::ids::SubagentId,
    status: &str,
    end: &SubagentEnd,
    result_turn: Option<&gatehouse_proto::ids::TurnId>,
    ended_at: Option<Timestamp>,
) -> Result<(), LedgerError> {
    let failure = match end {
        SubagentEnd::Finished => None,
        SubagentEnd::Failed(failure) => Some(json!(failure)),
        SubagentEnd::Stopped(why) => Some(json!({ "kind": "stopped", "message": why })),
    };
    let other_model = match end {
        SubagentEnd::Failed(failure) => failure.answered_model.as_deref(),
        _ => None,
    };
    let failure = failure.map(|failure| failure.to_string());
    let standing = subagents::NewStanding {
        id,
        status,
        failure: failure.as_deref(),
        other_model,
        result_turn,
        ended_at,
    };
    subagents::stands(tx, &standing)
}
