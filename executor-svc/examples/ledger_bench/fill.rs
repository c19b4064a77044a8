//! Fills a ledger through the writer that the daemon uses, with rows as the daemon makes them.

use std::path::Path;

use executor_svc::clock::Timestamp;
use executor_svc::ledger::{
    self, AfterCommit, LedgerError, Opened, WriteError, actions, journal, runs, sessions, turns,
};
use executor_svc::session::{NewSession, Profile, RootBinding, State, SubagentPolicy, Terminal, create};
use gatehouse_proto::digest::{digest, sha256_hex};
use gatehouse_proto::ids::{LeaseId, RequestKey, RunId, SessionId, ToolCallId, TurnId};
use rusqlite::Connection;
use serde_json::json;

/// Entries that a turn with one call leaves: opened, answered, prepared or not, settled.
const ENTRIES_OF_A_TURN: u64 = 3;
const TURNS_OF_A_SESSION: u64 = 300;

/// Appends about so many entries, of sessions that have ended, with their turns, replies and receipts.
pub async fn fill(state_dir: &Path, entries: u64) {
    let Opened { writer, .. } = ledger::open(state_dir).unwrap();
    let of_a_session = 3 + TURNS_OF_A_SESSION * ENTRIES_OF_A_TURN;
    for number in 0..entries.div_ceil(of_a_session) {
        let written = writer.write::<(), (), _>(move |tx| {
            session(tx, number).map_err(WriteError::Ledger)?;
            Ok(((), Box::new(|| ()) as AfterCommit))
        });
        written.await.unwrap();
    }
}

fn session(tx: &Connection, number: u64) -> Result<(), LedgerError> {
    let mut now = 1_700_000_000_000 + number * 1_000_000;
    let (id, run) = (SessionId::mint(), RunId::mint());
    let prompt = format!("Look at part {number} of the project and say what could be simpler. ").repeat(8);
    let new = NewSession {
        id: id.clone(),
        label: Some(format!("part {number}")),
        profile: Profile::ReadOnly,
        subagents: SubagentPolicy::None,
        root: RootBinding { path: "/srv/project".into(), device: 1, inode: 2 },
        isolation: None,
        source_directory: "/srv/project".into(),
        claude_session_id: uuid::Uuid::new_v4().to_string(),
        lease_id: LeaseId::mint(),
        lease_ttl: std::time::Duration::from_secs(1800),
        recovery_hash: sha256_hex(id.as_str().as_bytes()),
        run_id: run.clone(),
        prompt: prompt.clone(),
        skills: Vec::new(),
    };
    let mut session = create(new, Timestamp::from_millis(now)).session;
    session.state =
        State::Stopped(Terminal { reason: "done".into(), at: Timestamp::from_millis(now + 900_000) });
    let row = sessions::SessionRow {
        id: id.clone(),
        status: session.state.status().as_str(),
        is_live: session.state.status().is_live(),
        revision: 3 * TURNS_OF_A_SESSION,
        created_at: session.created_at,
        state: serde_json::to_string(&session)
            .map_err(|error| LedgerError::Damaged { what: "session", why: error.to_string() })?,
    };
    sessions::save(tx, &row)?;
    let at = Timestamp::from_millis(now);
    runs::insert(
        tx,
        &runs::NewRun { id: &run, session: &id, ordinal: 1, epoch: 1, prompt: &prompt, at, subagent: None },
    )?;
    journal::append(tx, at, &id, "session.created", &json!({ "profile": "read_only" }))?;
    journal::append(
        tx,
        at,
        &id,
        "run.opened",
        &json!({ "run_id": run, "prompt_sha256": sha256_hex(prompt.as_bytes()) }),
    )?;
    for ordinal in 0..TURNS_OF_A_SESSION {
        now += 2_000;
        turn(tx, &id, &run, ordinal, Timestamp::from_millis(now))?;
    }
    journal::append(tx, Timestamp::from_millis(now), &id, "session.stopped", &json!({}))?;
    Ok(())
}

fn turn(
    tx: &Connection,
    id: &SessionId,
    run: &RunId,
    ordinal: u64,
    at: Timestamp,
) -> Result<(), LedgerError> {
    let (turn, call) = (TurnId::mint(), ToolCallId::mint());
    let new = turns::NewTurn {
        id: &turn,
        session: id,
        run,
        ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
        key: &format!("key {ordinal}"),
        kind: "tool_results",
        request_hash: &sha256_hex(turn.as_str().as_bytes()),
        at,
    };
    turns::insert(tx, &new)?;
    journal::append(
        tx,
        at,
        id,
        "turn.opened",
        &json!({ "turn_id": turn, "run_id": run, "ordinal": ordinal }),
    )?;
    let key = RequestKey::try_from(format!("reply-{ordinal}"))
        .map_err(|error| LedgerError::Damaged { what: "key", why: error.to_string() })?;
    turns::answer(tx, &turn, &key, "Next I read the rest of that file.", at)?;
    let input = json!({ "file_path": format!("/srv/project/src/part_{ordinal}.rs"), "start_line": ordinal });
    let action = actions::NewAction {
        id: &call,
        session: id,
        run,
        turn: &turn,
        position: 0,
        name: "Read",
        client_id: None,
        input: &gatehouse_proto::digest::canonical_json(&input),
        input_sha256: &digest(&input),
        budget: 65_536,
        at,
    };
    actions::insert(tx, &action)?;
    let calls = json!([{ "tool_call_id": call, "name": "Read", "input_sha256": digest(&input) }]);
    journal::append(
        tx,
        at,
        id,
        "reply.committed",
        &json!({ "turn_id": turn, "reply_id": key.as_str(), "calls": calls }),
    )?;
    let receipt = json!({ "tool_call_id": call, "ok": true, "content": "let simpler = whole.iter().map(part).sum();\n".repeat(12) }).to_string();
    actions::settle(tx, &call, &actions::NewReceipt { ok: true, code: None, json: &receipt, at })?;
    let settled = json!({ "tool_call_id": call, "ok": true, "code": null, "receipt_sha256": sha256_hex(receipt.as_bytes()) });
    journal::append(tx, at, id, "action.settled", &settled)?;
    Ok(())
}
