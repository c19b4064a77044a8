//! A session as text and as JSON, with the names that the MCP results use too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gatehouse_proto::v1::{ActionView, CurrentRun, PendingTurn, SessionView, SubsessionView, ToolResult};
use serde_json::{Value, json};

/// A time as RFC 3339, in UTC, to the second.
pub(crate) fn moment(at_ms: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(at_ms)).to_string()
}

/// How long ago that was, in the largest unit that fits.
pub(super) fn ago(at_ms: u64) -> String {
    if at_ms == 0 {
        return "never".to_owned();
    }
    let then = UNIX_EPOCH + Duration::from_millis(at_ms);
    let seconds = SystemTime::now().duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// A name of the contract; a newer executor may send what this program does not know.
pub(crate) fn known(name: Option<&'static str>) -> &'static str {
    name.unwrap_or("unknown")
}

/// The beginning of a hash, enough to tell two apart.
pub(super) fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

/// A JSON text of the executor as JSON; `null` where there is none.
pub(super) fn parsed(text: Option<&str>) -> Value {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

/// The whole public state of a session.
pub(super) fn session_json(session: &SessionView) -> Value {
    let mut all = json!({
        "native_session_id": session.native_session_id,
        "status": known(session.status().name()),
        "revision": session.revision,
        "session_label": session.session_label,
        "capability_profile": known(session.capability_profile().name()),
        "subagent_policy": known(session.subagent_policy().name()),
        "active_deepseek_subsession_id": session.active_deepseek_subsession_id,
        "deepseek_subsessions": session.deepseek_subsessions.iter().map(subsession_json).collect::<Vec<_>>(),
        "working_directory": session.working_directory,
        "source_directory": session.source_directory,
        "claude_session_id": session.claude_session_id,
        "runtime_attached": session.runtime_attached,
        "recovery_required": session.recovery_required,
        "created_at": moment(session.created_at_ms),
        "last_call_at": moment(session.last_call_at_ms),
        "current_run": session.current_run.as_ref().map(run_json),
        "pending_turn": session.pending_turn.as_ref().map(turn_json),
    });
    all["workspace"] = json!(session.workspace.as_ref().map(|workspace| json!({
        "kind": known(workspace.kind().name()), "root": workspace.root, "writable": workspace.writable,
        "source_head": workspace.source_head, "note": workspace.note,
    })));
    all["network_boundary"] = json!(session.network_boundary.as_ref().map(|network| json!({
        "claude": network.claude, "commands": network.commands, "enforced_by": network.enforced_by,
    })));
    all["skill_snapshot"] = session
        .skill_snapshot
        .iter()
        .map(|skill| json!({"skill_id": skill.skill_id, "content_sha256": skill.content_sha256, "bytes": skill.bytes}))
        .collect();
    add_endings(&mut all, session);
    all
}

fn add_endings(all: &mut Value, session: &SessionView) {
    all["last_result"] = json!(session.last_result.as_ref().map(|last| json!({
        "run_id": last.run_id, "ok": last.ok, "text": last.text, "finished_at": moment(last.finished_at_ms),
        "turns": last.turns, "actions": last.actions,
    })));
    all["launch_error"] = json!(session.launch_error.as_ref().map(|error| json!({
        "code": error.code, "message": error.message, "what_to_do": error.what_to_do,
    })));
    all["stop_request"] = json!(session.stop_request.as_ref().map(|stop| json!({
        "request_id": stop.request_id, "reason": stop.reason, "requested_at": moment(stop.requested_at_ms),
        "state": stop.state,
    })));
    all["terminal"] = json!(session.terminal.as_ref().map(|end| json!({
        "status": known(end.status().name()), "reason": end.reason, "at": moment(end.at_ms),
    })));
}

fn subsession_json(subsession: &SubsessionView) -> Value {
    json!({
        "subsession_id": subsession.subsession_id, "status": subsession.status, "grade": subsession.grade,
        "route": subsession.route, "started_by": subsession.started_by,
        "started_at": moment(subsession.started_at_ms), "ended_at": subsession.ended_at_ms.map(moment),
        "model": subsession.model, "model_verified": subsession.model_verified, "requests": subsession.requests,
        "input_tokens": subsession.input_tokens, "output_tokens": subsession.output_tokens, "error": subsession.error,
    })
}

fn run_json(run: &CurrentRun) -> Value {
    let actions: Vec<_> = run
        .actions
        .iter()
        .map(|action| {
            json!({"tool_call_id": action.tool_call_id, "name": action.name, "state": action.state,
                "started_at": moment(action.started_at_ms), "elapsed_ms": action.elapsed_ms,
                "output_bytes": action.output_bytes})
        })
        .collect();
    json!({
        "run_id": run.run_id, "ordinal": run.ordinal, "started_at": moment(run.started_at_ms), "state": run.state,
        "attachment": known(run.attachment().name()), "actions": actions,
    })
}

fn turn_json(turn: &PendingTurn) -> Value {
    let results = |all: &[ToolResult]| all.iter().map(result_json).collect::<Vec<_>>();
    json!({
        "turn_id": turn.turn_id, "ordinal": turn.ordinal, "opened_at": moment(turn.opened_at_ms),
        "kind": known(turn.kind().name()), "prompt": turn.prompt,
        "tool_results": results(&turn.tool_results), "unreported": results(&turn.unreported),
    })
}

fn result_json(result: &ToolResult) -> Value {
    json!({"tool_call_id": result.tool_call_id, "name": result.name, "ok": result.ok,
        "receipt": parsed(Some(&result.receipt_json))})
}

/// An action with its input and receipt.
pub(super) fn action_json(action: &ActionView) -> Value {
    json!({
        "tool_call_id": action.tool_call_id,
        "run_id": action.run_id,
        "turn_id": action.turn_id,
        "name": action.name,
        "state": action.state,
        "authorised_at": moment(action.authorised_at_ms),
        "finished_at": action.finished_at_ms.map(moment),
        "ok": action.ok,
        "code": action.code,
        "input": parsed(Some(&action.input_json)),
        "receipt": parsed(action.receipt_json.as_deref()),
        "receipt_sha256": action.receipt_sha256,
        "write": action.write.as_ref().map(|write| json!({
            "file_path": write.file_path, "before_sha256": write.before_sha256, "after_sha256": write.after_sha256,
        })),
        "undoes": action.undoes,
        "subsession_id": action.subsession_id,
    })
}

#[cfg(test)]
mod tests {
    use gatehouse_proto::v1::SessionStatus;

    use super::*;

    #[test]
    fn a_session_in_json_carries_the_names_of_the_contract() {
        let session = SessionView { status: SessionStatus::Idle.into(), ..SessionView::default() };
        let json = session_json(&session);
        assert_eq!(json["status"], "idle");
        for field in
            ["current_run", "pending_turn", "last_result", "launch_error", "stop_request", "terminal"]
        {
            assert_eq!(json.get(field), Some(&Value::Null), "{field}");
        }
    }

    #[test]
    fn ages_are_in_the_largest_unit_that_fits() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let before = |seconds: u64| u64::try_from((now - Duration::from_secs(seconds)).as_millis()).unwrap();
        assert_eq!(ago(before(125)), "2 min ago");
        assert_eq!(ago(before(90_000)), "1 d ago");
        assert_eq!(ago(0), "never");
    }
}
