//! A session as callers see it. What is not put in here does not leave.

use gatehouse_proto::ids::{ToolCallId, TurnId};
use gatehouse_proto::v1;
use rusqlite::Connection;

use super::subagents;
use crate::clock::Timestamp;
use crate::engine::{Engine, Performed};
use crate::ledger::{LedgerError, actions, runs, skills, turns};
use crate::session::{
    Attachment, Call, CallState, Isolation, LastResult, Profile, ResultText, Run, Session, State, Status,
    SubagentPolicy, TurnKind,
};
use crate::skill::SkillFacts;
use crate::tools::{self, Toolset};

/// What is in flight for the session, and since when.
pub(super) type InFlight = Vec<Performed>;

/// The public state of a session as it stands in a list: without what makes a single one large (prompt, receipts, tool
/// and skill texts, the words of the last result).
pub(super) fn listed_view(
    connection: &Connection,
    session: &Session,
    in_flight: &InFlight,
    engine: &Engine,
    now: Timestamp,
) -> Result<v1::SessionView, LedgerError> {
    let mut view = session_view(connection, session, in_flight, engine, now)?;
    if let Some(turn) = view.pending_turn.take() {
        view.pending_turn = Some(v1::PendingTurn {
            turn_id: turn.turn_id,
            ordinal: turn.ordinal,
            opened_at_ms: turn.opened_at_ms,
            kind: turn.kind,
            reply_with: turn.reply_with,
            ..v1::PendingTurn::default()
        });
    }
    if let Some(last) = &mut view.last_result {
        last.text.clear();
    }
    Ok(view)
}

/// The state of a session for ChatGPT: with the instructions of its skills in the first turn of each run.
pub(super) fn brain_view(
    connection: &Connection,
    session: &Session,
    in_flight: &InFlight,
    engine: &Engine,
    now: Timestamp,
) -> Result<v1::SessionView, LedgerError> {
    let mut view = session_view(connection, session, in_flight, engine, now)?;
    if let (State::Waiting(_, turn), Some(shown)) = (&session.state, &mut view.pending_turn)
        && turn.kind != TurnKind::ToolResults
    {
        shown.skills = skills::of_session(connection, &session.id)?.into_iter().map(skill).collect();
        if !shown.skills.is_empty() {
            shown.reply_with.insert_str(0, SKILLS_HINT);
        }
    }
    Ok(view)
}

/// Stands before the hint how to reply.
const SKILLS_HINT: &str = "The user wants the bodies of `skills` followed as instructions in this run. ";

fn skill_facts(facts: &SkillFacts) -> v1::SkillSnapshot {
    v1::SkillSnapshot {
        skill_id: facts.skill_id.to_string(),
        content_sha256: facts.content_sha256.clone(),
        bytes: facts.bytes,
    }
}

fn skill(row: skills::SkillRow) -> v1::Skill {
    v1::Skill { skill_id: row.skill_id, content_sha256: row.content_sha256, body: row.body }
}

/// The public state of a session, for everybody.
pub(super) fn session_view(
    connection: &Connection,
    session: &Session,
    in_flight: &InFlight,
    engine: &Engine,
    now: Timestamp,
) -> Result<v1::SessionView, LedgerError> {
    let status = session.state.status();
    let root = session.root.path.to_string_lossy().into_owned();
    let subagents = subagents::shown(connection, session, engine.settings().deepseek.as_ref())?;
    Ok(v1::SessionView {
        native_session_id: session.id.to_string(),
        status: status_of(status).into(),
        revision: session.revision,
        session_label: session.label.clone(),
        capability_profile: profile_of(session.profile).into(),
        working_directory: root.clone(),
        source_directory: session.source_directory.to_string_lossy().into_owned(),
        workspace: Some(workspace(session, root)),
        network_boundary: Some(v1::NetworkBoundary {
            claude: "loopback-two-ports".to_owned(),
            commands: "none".to_owned(),
            enforced_by: session.enforced_by.clone(),
        }),
        claude_session_id: session.claude_session_id.clone(),
        runtime_attached: session.state.run().is_some_and(|run| run.attachment == Attachment::Attached),
        recovery_required: status == Status::RecoveryRequired,
        current_run: session
            .state
            .run()
            .map(|run| current_run(connection, session, run, in_flight, now))
            .transpose()?,
        pending_turn: pending_turn(connection, session)?,
        skill_snapshot: session.skills.iter().map(skill_facts).collect(),
        subagent_policy: match session.subagents {
            SubagentPolicy::None => v1::SubagentPolicy::None.into(),
            SubagentPolicy::DeepseekExplicit => v1::SubagentPolicy::DeepseekExplicit.into(),
        },
        last_result: session.last_result.as_ref().map(|last| last_result(connection, last)).transpose()?,
        launch_error: match &session.state {
            State::Failed(failure) => Some(v1::LaunchError {
                code: failure.code.clone(),
                message: failure.message.clone(),
                what_to_do: failure.what_to_do.clone(),
            }),
            _ => None,
        },
        stop_request: session.stop.as_ref().map(|stop| v1::StopRequestView {
            request_id: stop.request_id.to_string(),
            reason: stop.reason.clone(),
            requested_at_ms: stop.requested_at.millis(),
            state: if status == Status::Stopped { "done" } else { "in_progress" }.to_owned(),
        }),
        terminal: match &session.state {
            State::Stopped(end) => Some(v1::Terminal {
                status: v1::SessionStatus::Stopped.into(),
                reason: end.reason.clone(),
                at_ms: end.at.millis(),
            }),
            _ => None,
        },
        created_at_ms: session.created_at.millis(),
        last_call_at_ms: session.last_call_at.millis(),
        deepseek_route: subagents.route,
        deepseek_subsessions: subagents.subsessions,
        active_deepseek_subsession_id: subagents.active,
    })
}

fn current_run(
    connection: &Connection,
    session: &Session,
    run: &Run,
    in_flight: &InFlight,
    now: Timestamp,
) -> Result<v1::CurrentRun, LedgerError> {
    let latest = run.calls.iter().rposition(|call| call.state == CallState::Settled);
    let actions = run
        .calls
        .iter()
        .enumerate()
        .filter(|(index, call)| call.state != CallState::Settled || Some(*index) == latest)
        .map(|(_, call)| current_action(connection, call, in_flight, now))
        .collect::<Result<_, _>>()?;
    Ok(v1::CurrentRun {
        run_id: run.id.to_string(),
        ordinal: run.ordinal,
        started_at_ms: run.started_at.millis(),
        state: session.state.status().as_str().to_owned(),
        attachment: match run.attachment {
            Attachment::Attached => v1::Attachment::Attached.into(),
            Attachment::Reattaching => v1::Attachment::Reattaching.into(),
        },
        actions,
    })
}

/// One that is not in flight counts from when it was authorised, and until it had its receipt.
fn current_action(
    connection: &Connection,
    call: &Call,
    in_flight: &InFlight,
    now: Timestamp,
) -> Result<v1::CurrentAction, LedgerError> {
    let performed = in_flight.iter().find(|performed| performed.id == call.id);
    let times = actions::times(connection, &call.id)?;
    let started_at = performed.map_or(times.authorised_at, |performed| performed.since);
    let until = times.finished_at.unwrap_or(now);
    Ok(v1::CurrentAction {
        tool_call_id: call.id.to_string(),
        name: call.name.clone(),
        state: match (call.state, performed) {
            (CallState::Settled, _) => "done",
            (_, Some(_)) => "performing",
            (CallState::Authorised, None) => "authorised",
            (CallState::Prepared, None) => "prepared",
        }
        .to_owned(),
        started_at_ms: started_at.millis(),
        elapsed_ms: u64::try_from(until.since(started_at).as_millis()).unwrap_or(u64::MAX),
        output_bytes: performed.map(|performed| performed.output_bytes).filter(|bytes| *bytes > 0),
    })
}

fn pending_turn(connection: &Connection, session: &Session) -> Result<Option<v1::PendingTurn>, LedgerError> {
    let State::Waiting(run, turn) = &session.state else { return Ok(None) };
    let first = turn.kind != TurnKind::ToolResults;
    Ok(Some(v1::PendingTurn {
        turn_id: turn.id.to_string(),
        ordinal: turn.ordinal,
        opened_at_ms: turn.opened_at.millis(),
        kind: match turn.kind {
            TurnKind::Prompt => v1::TurnKind::Prompt,
            TurnKind::ToolResults => v1::TurnKind::ToolResults,
            TurnKind::Resumed => v1::TurnKind::Resumed,
        }
        .into(),
        prompt: if first { runs::prompt(connection, &run.id)? } else { None },
        tool_results: match &run.answered {
            Some(answered) => results_of_turn(connection, answered)?,
            None => Vec::new(),
        },
        unreported: session.unreported.iter().map(|id| result(connection, id)).collect::<Result<_, _>>()?,
        tools: descriptions(Toolset::of(session), first),
        // Only the brain's view has them.
        skills: Vec::new(),
        reply_with: "Call native_session_reply_and_wait with this turn_id, a new reply_id, and text and/or tool_calls \
                     [{name, input}]; text without tool_calls ends the run."
            .to_owned(),
    }))
}

/// The whole list in the first turn of a run, the names later.
fn descriptions(set: Toolset, whole: bool) -> Vec<v1::ToolDescription> {
    tools::descriptions(set)
        .into_iter()
        .map(|tool| v1::ToolDescription {
            name: tool.name.as_str().to_owned(),
            description: if whole { tool.description.to_owned() } else { String::new() },
            input_schema_json: if whole { tool.input_schema.to_string() } else { String::new() },
        })
        .collect()
}

fn results_of_turn(connection: &Connection, turn: &TurnId) -> Result<Vec<v1::ToolResult>, LedgerError> {
    Ok(actions::of_turn(connection, turn)?.into_iter().map(tool_result).collect())
}

fn result(connection: &Connection, id: &ToolCallId) -> Result<v1::ToolResult, LedgerError> {
    let row = actions::load(connection, id)?
        .ok_or_else(|| LedgerError::damaged("session.unreported", "an action that is not there"))?;
    Ok(tool_result(row))
}

fn tool_result(row: actions::ActionRow) -> v1::ToolResult {
    v1::ToolResult {
        tool_call_id: row.id,
        name: row.name,
        ok: row.ok.unwrap_or(false),
        receipt_json: row.receipt.unwrap_or_else(|| "{}".to_owned()),
        client_id: row.client_id,
    }
}

fn last_result(connection: &Connection, last: &LastResult) -> Result<v1::LastResult, LedgerError> {
    let text = match &last.text {
        ResultText::Message(text) => text.clone(),
        ResultText::ReplyTo(turn) => {
            turns::load(connection, turn)?.and_then(|turn| turn.reply_text).unwrap_or_default()
        }
    };
    Ok(v1::LastResult {
        run_id: last.run_id.to_string(),
        ok: last.ok,
        text,
        finished_at_ms: last.finished_at.millis(),
        turns: last.turns,
        actions: last.actions,
    })
}

fn workspace(session: &Session, root: String) -> v1::Workspace {
    let (kind, note) = match session.profile {
        Profile::ReadOnly => {
            (v1::WorkspaceKind::ReadOnly, "Nothing can be changed in this session.".to_owned())
        }
        Profile::DirectWrite => (v1::WorkspaceKind::Direct, "Changes go to the real directory.".to_owned()),
        Profile::WorktreeWrite => (v1::WorkspaceKind::Worktree, worktree_note(session.isolation.as_ref())),
    };
    v1::Workspace {
        kind: kind.into(),
        root,
        writable: session.profile != Profile::ReadOnly,
        source_head: session.isolation.as_ref().map(|isolation| isolation.head().to_owned()),
        note,
    }
}

/// What somebody should know who expects the worktree to be like the source.
fn worktree_note(isolation: Option<&Isolation>) -> String {
    let mut note = "Changes go to a worktree; the source stays as it is.".to_owned();
    let Some(isolation) = isolation else { return note };
    let Some(notes) = isolation.notes() else { return "The worktree was removed.".to_owned() };
    if isolation.made().is_none() {
        note.push_str(" It is being made.");
    }
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            note.push_str(&format!(" {count} {what}."));
        }
    };
    add(notes.submodules, "submodules stay empty directories");
    add(notes.lfs_files, "files of Git LFS stay pointers");
    add(notes.filters.len(), "filters of the repository are not applied");
    add(usize::from(notes.sparse), "sparse checkout is kept: only a part of the files is there");
    note
}

const fn profile_of(profile: Profile) -> v1::CapabilityProfile {
    match profile {
        Profile::ReadOnly => v1::CapabilityProfile::ReadOnly,
        Profile::DirectWrite => v1::CapabilityProfile::DirectWrite,
        Profile::WorktreeWrite => v1::CapabilityProfile::WorktreeWrite,
    }
}

pub(super) const fn status_of(status: Status) -> v1::SessionStatus {
    match status {
        Status::Starting => v1::SessionStatus::Starting,
        Status::WaitingForGpt => v1::SessionStatus::WaitingForGpt,
        Status::Running => v1::SessionStatus::Running,
        Status::Idle => v1::SessionStatus::Idle,
        Status::Failed => v1::SessionStatus::Failed,
        Status::Stopping => v1::SessionStatus::Stopping,
        Status::Stopped => v1::SessionStatus::Stopped,
        Status::LeaseExpired => v1::SessionStatus::LeaseExpired,
        Status::RecoveryRequired => v1::SessionStatus::RecoveryRequired,
    }
}
