//! A step's effects as rows and journal entries.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::subagent_record;
use crate::clock::Timestamp;
use crate::files::replace::Intent;
use crate::ledger::{LedgerError, actions, journal, runs, sessions, skills, turns};
use crate::session::{Effect, Receipt, ResolveAsk, Session, TurnKind, UndoAsk};
use crate::skill::Skill;
use crate::tools;

/// Writes the session's value.
pub(super) fn save(tx: &Connection, session: &Session) -> Result<(), LedgerError> {
    let state =
        serde_json::to_string(session).map_err(|error| LedgerError::damaged("session.state", error))?;
    sessions::save(
        tx,
        &sessions::SessionRow {
            id: session.id.clone(),
            status: session.state.status().as_str(),
            is_live: session.state.status().is_live(),
            revision: session.revision,
            created_at: session.created_at,
            state,
        },
    )
}

/// Writes what a step brought about; gives the journal's last place if it grew.
pub(super) fn effects(
    tx: &Connection,
    session: &Session,
    effects: &[Effect],
    now: Timestamp,
) -> Result<Option<u64>, LedgerError> {
    let mut head = None;
    for effect in effects {
        let body = record(tx, session, effect, now)?;
        if let Some(kind) = effect.kind() {
            head = Some(journal::append(tx, now, &session.id, kind, &body)?);
        }
    }
    Ok(head)
}

/// Writes one effect's rows and gives the journal entry's body: ids and hashes, no content.
fn record(tx: &Connection, session: &Session, effect: &Effect, now: Timestamp) -> Result<Value, LedgerError> {
    Ok(match effect {
        Effect::SessionCreated => {
            json!({ "profile": session.profile, "claude_session_id": session.claude_session_id })
        }
        Effect::SkillsFrozen(skills) => record_skills(tx, session, skills)?,
        Effect::RunOpened { .. } => record_run(tx, session, effect, now)?,
        Effect::RunRelaunched { run_id, epoch } => {
            runs::relaunch(tx, run_id, *epoch)?;
            json!({ "run_id": run_id, "epoch": epoch })
        }
        Effect::RunClosed { run_id, ok, why } => {
            runs::close(tx, run_id, now)?;
            json!({ "run_id": run_id, "ok": ok, "why": why })
        }
        Effect::TurnOpened { turn_id, run_id, ordinal, key, kind, request_hash } => {
            let turn = turns::NewTurn {
                id: turn_id,
                session: &session.id,
                run: run_id,
                ordinal: *ordinal,
                key: &key.as_text(),
                kind: kind_text(*kind),
                request_hash,
                at: now,
            };
            turns::insert(tx, &turn)?;
            json!({ "turn_id": turn_id, "run_id": run_id, "ordinal": ordinal, "kind": kind_text(*kind) })
        }
        Effect::TurnAbandoned { turn_id, why } => {
            turns::abandon(tx, turn_id, why)?;
            json!({ "turn_id": turn_id, "why": why })
        }
        Effect::ReplyCommitted { .. } => record_reply(tx, session, effect, now)?,
        Effect::ActionPrepared { .. }
        | Effect::UndoPrepared(_)
        | Effect::ResolvePrepared(_)
        | Effect::ActionSettled { .. }
        | Effect::ActionCancelled { .. }
        | Effect::ActionUncertain { .. } => record_action(tx, session, effect, now)?,
        Effect::StopRequested => {
            json!({ "request_id": session.stop.as_ref().map(|stop| stop.request_id.as_str()) })
        }
        Effect::WorktreeMade { head, registration } => json!({ "head": head, "registration": registration }),
        Effect::WorktreeRemoved { registration } => json!({ "registration": registration }),
        Effect::LeaseRotated | Effect::LeaseRanOut | Effect::Stopped => json!({}),
        Effect::Attached => json!({ "enforced_by": session.enforced_by }),
        Effect::Launch { .. } | Effect::EndRunner { .. } | Effect::AskModel { .. } => Value::Null,
        of_subagent => subagent_record::record(tx, session, of_subagent, now)?,
    })
}

fn record_run(
    tx: &Connection,
    session: &Session,
    effect: &Effect,
    now: Timestamp,
) -> Result<Value, LedgerError> {
    let Effect::RunOpened { run_id, prompt, ordinal, epoch } = effect else { return Ok(Value::Null) };
    let run = runs::NewRun {
        id: run_id,
        session: &session.id,
        ordinal: *ordinal,
        epoch: *epoch,
        prompt,
        at: now,
        subagent: None,
    };
    runs::insert(tx, &run)?;
    let prompt_sha256 = gatehouse_proto::digest::sha256_hex(prompt.as_bytes());
    Ok(json!({ "run_id": run_id, "ordinal": ordinal, "prompt_sha256": prompt_sha256 }))
}

/// The instructions go into their table; the journal has what everybody may know.
fn record_skills(tx: &Connection, session: &Session, frozen: &[Skill]) -> Result<Value, LedgerError> {
    for (position, skill) in frozen.iter().enumerate() {
        let row = skills::SkillRow {
            skill_id: skill.facts.skill_id.to_string(),
            content_sha256: skill.facts.content_sha256.clone(),
            body: skill.body.clone(),
        };
        skills::insert(tx, &session.id, position, &row)?;
    }
    Ok(json!({ "skills": session.skills }))
}

fn record_action(
    tx: &Connection,
    session: &Session,
    effect: &Effect,
    now: Timestamp,
) -> Result<Value, LedgerError> {
    Ok(match effect {
        Effect::ActionPrepared { id, intent } => {
            let text = intent.as_deref().map(intent_text).transpose()?;
            actions::prepare(tx, id, text.as_deref())?;
            json!({ "tool_call_id": id, "write": intent.as_deref().map(intent_facts) })
        }
        Effect::UndoPrepared(ask) => record_undo(tx, session, ask, now)?,
        Effect::ResolvePrepared(ask) => record_resolve(tx, session, ask, now)?,
        Effect::ActionSettled { id, receipt } => record_receipt(tx, id, receipt, now)?,
        Effect::ActionCancelled { id, name, why } => {
            record_receipt(tx, id, &cancelled_receipt(id, name, why)?, now)?
        }
        Effect::ActionUncertain { id, why } => json!({ "tool_call_id": id, "why": why }),
        _ => Value::Null,
    })
}

/// What the receipt of what the operator does may take, in bytes: several have to fit beside each other into a turn.
const RECEIPT_OF_OPERATION: u32 = 24 * 1024;

fn record_undo(
    tx: &Connection,
    session: &Session,
    ask: &UndoAsk,
    now: Timestamp,
) -> Result<Value, LedgerError> {
    let undo = actions::NewOperation {
        id: &ask.id,
        session: &session.id,
        name: actions::UNDO,
        input: &json!({ "tool_call_id": ask.reverts, "request_id": ask.request_id }),
        reverts: Some(&ask.reverts),
        intent: Some(&intent_text(&ask.intent)?),
        budget: RECEIPT_OF_OPERATION,
        at: now,
    };
    actions::insert_operation(tx, &undo)?;
    Ok(json!({ "tool_call_id": ask.id, "reverts": ask.reverts, "write": intent_facts(&ask.intent) }))
}

fn record_resolve(
    tx: &Connection,
    session: &Session,
    ask: &ResolveAsk,
    now: Timestamp,
) -> Result<Value, LedgerError> {
    let text = ask.intent.as_ref().map(intent_text).transpose()?;
    let resolve = actions::NewOperation {
        id: &ask.id,
        session: &session.id,
        name: actions::RESOLVE,
        input: &json!({
            "tool_call_id": ask.resolves, "decision": ask.decision, "request_id": ask.request_id,
        }),
        reverts: None,
        intent: text.as_deref(),
        budget: RECEIPT_OF_OPERATION,
        at: now,
    };
    actions::insert_operation(tx, &resolve)?;
    let write = ask.intent.as_ref().map(intent_facts);
    Ok(json!({
        "tool_call_id": ask.id, "resolves": ask.resolves, "decision": ask.decision, "write": write,
    }))
}

fn intent_text(intent: &Intent) -> Result<String, LedgerError> {
    serde_json::to_string(intent).map_err(|error| LedgerError::damaged("action.intent", error))
}

/// What the journal says of a write before it is made: where, and both hashes.
fn intent_facts(intent: &Intent) -> Value {
    json!({ "path": intent.path, "before": intent.before.sha256(), "after": intent.after.sha256() })
}

fn record_reply(
    tx: &Connection,
    session: &Session,
    effect: &Effect,
    now: Timestamp,
) -> Result<Value, LedgerError> {
    let Effect::ReplyCommitted { turn_id, run_id, reply_id, text, calls, budget } = effect else {
        return Ok(Value::Null);
    };
    turns::answer(tx, turn_id, reply_id, text, now)?;
    for (position, call) in calls.iter().enumerate() {
        let action = actions::NewAction {
            id: &call.id,
            session: &session.id,
            run: run_id,
            turn: turn_id,
            position,
            name: &call.name,
            client_id: call.client_id.as_deref(),
            input: &call.input,
            input_sha256: &call.input_sha256,
            budget: *budget,
            at: now,
        };
        actions::insert(tx, &action)?;
    }
    let calls: Vec<_> = calls
        .iter()
        .map(|c| json!({ "tool_call_id": c.id, "name": c.name, "input_sha256": c.input_sha256 }))
        .collect();
    Ok(json!({
        "turn_id": turn_id,
        "reply_id": reply_id,
        "text_sha256": gatehouse_proto::digest::sha256_hex(text.as_bytes()),
        "calls": calls,
    }))
}

fn cancelled_receipt(
    id: &gatehouse_proto::ids::ToolCallId,
    name: &str,
    why: &str,
) -> Result<Receipt, LedgerError> {
    let tool = tools::ToolName::parse(name).ok_or_else(|| LedgerError::damaged("action.name", name))?;
    Ok(tools::cancelled_receipt(id, tool, why, tools::ReceiptBudget::MIN))
}

fn record_receipt(
    tx: &Connection,
    id: &gatehouse_proto::ids::ToolCallId,
    receipt: &Receipt,
    now: Timestamp,
) -> Result<Value, LedgerError> {
    let code = receipt.code.map(gatehouse_proto::codes::ActionCode::as_str);
    actions::settle(tx, id, &actions::NewReceipt { ok: receipt.ok, code, json: &receipt.json, at: now })?;
    let hash = gatehouse_proto::digest::sha256_hex(receipt.json.as_bytes());
    Ok(json!({ "tool_call_id": id, "ok": receipt.ok, "code": code, "receipt_sha256": hash }))
}

const fn kind_text(kind: TurnKind) -> &'static str {
    match kind {
        TurnKind::Prompt => "prompt",
        TurnKind::ToolResults => "tool_results",
        TurnKind::Resumed => "resumed",
    }
}
