//! From the executor's reply to the structured result.

use std::time::{Duration, SystemTime};

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::{
    CurrentRun, DeepseekRoute, LastResult, NetworkBoundary, PendingTurn, SessionReply, SessionStatus,
    SessionView, SkillSnapshot, StopRequestView, SubsessionView, Terminal, ToolDescription, ToolResult,
    Workspace,
};
use serde_json::{Map, Value, json};

use crate::errors;

/// Whether this result may hold the recovery token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// The result of a start.
    Given,
    /// Any other: not even if the executor sent one.
    Withheld,
}

/// 9999-12-31T23:59:59.999Z, the last moment that can be written.
const LAST_MOMENT_MS: u64 = 253_402_300_799_999;

/// The structured result, with all fields that are always there.
///
/// # Errors
/// `internal`, when the reply holds a value that no executor of this version sends.
pub(super) fn render(reply: &SessionReply, token: Token) -> Result<Map<String, Value>, Refusal> {
    let view =
        reply.session.as_ref().ok_or_else(|| errors::internal("The executor's answer has no session."))?;
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("route", "chatgpt-main".into());
    put("fallback", "none".into());
    put("replay", reply.replay.into());
    put("native_session_id", view.native_session_id.clone().into());
    put("lease_id", reply.lease_id.clone().into());
    put("lease_expires_at", time(reply.lease_expires_at_ms));
    put("status", status(view.status())?.into());
    put("revision", view.revision.into());
    put("session_label", view.session_label.clone().into());
    let profile = view.capability_profile().name().ok_or_else(|| unknown("profile"))?;
    put("capability_profile", profile.into());
    put("working_directory", view.working_directory.clone().into());
    put("source_directory", view.source_directory.clone().into());
    put(
        "workspace",
        view.workspace.as_ref().map(workspace).transpose()?.ok_or_else(|| unknown("workspace"))?,
    );
    put("network_boundary", boundary(view.network_boundary.as_ref()));
    put("claude_session_id", or_null(&view.claude_session_id));
    put("runtime_attached", view.runtime_attached.into());
    put("recovery_required", view.recovery_required.into());
    put("current_run", view.current_run.as_ref().map(run).transpose()?.into());
    put("pending_turn", view.pending_turn.as_ref().map(turn).transpose()?.into());
    put("skill_snapshot", view.skill_snapshot.iter().map(skill_snapshot).collect());
    let policy = view.subagent_policy().name().ok_or_else(|| unknown("subagent policy"))?;
    put("subagent_policy", policy.into());
    put("deepseek_route", view.deepseek_route.as_ref().map(route).into());
    put("deepseek_subsessions", view.deepseek_subsessions.iter().map(subsession).collect());
    put("active_deepseek_subsession_id", view.active_deepseek_subsession_id.clone().into());
    if let (Token::Given, Some(token)) = (token, &reply.recovery_token) {
        put("recovery_token", token.clone().into());
    }
    add_occasional(&mut out, view)?;
    Ok(out)
}

fn add_occasional(out: &mut Map<String, Value>, view: &SessionView) -> Result<(), Refusal> {
    let launch_error = view
        .launch_error
        .as_ref()
        .map(|error| json!({"code": error.code, "message": error.message, "what_to_do": error.what_to_do}));
    let occasional = [
        ("last_result", view.last_result.as_ref().map(last_result)),
        ("launch_error", launch_error),
        ("stop_request", view.stop_request.as_ref().map(stop_request)),
        ("terminal", view.terminal.as_ref().map(terminal).transpose()?),
    ];
    out.extend(occasional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Ok(())
}

fn unknown(what: &str) -> Refusal {
    errors::internal(&format!("The executor's answer has a {what} that this front does not know."))
}

fn status(status: SessionStatus) -> Result<&'static str, Refusal> {
    status.name().ok_or_else(|| unknown("status"))
}

fn workspace(workspace: &Workspace) -> Result<Value, Refusal> {
    let kind = workspace.kind().name().ok_or_else(|| unknown("workspace"))?;
    let mut out = json!({"kind": kind, "root": workspace.root, "writable": workspace.writable});
    if let Some(head) = &workspace.source_head {
        out["source_head"] = head.clone().into();
    }
    out["note"] = workspace.note.clone().into();
    Ok(out)
}

/// An executor that has not launched anything yet has no boundary to tell.
fn boundary(boundary: Option<&NetworkBoundary>) -> Value {
    let Some(boundary) = boundary else {
        return json!({"claude": "none", "commands": "none", "enforced_by": []});
    };
    json!({"claude": boundary.claude, "commands": boundary.commands, "enforced_by": boundary.enforced_by})
}

fn run(run: &CurrentRun) -> Result<Value, Refusal> {
    let attachment = run.attachment().name().ok_or_else(|| unknown("attachment"))?;
    let actions: Vec<_> = run
        .actions
        .iter()
        .map(|action| {
            let mut shown = json!({
                "tool_call_id": action.tool_call_id, "name": action.name, "state": action.state,
                "started_at": time(action.started_at_ms), "elapsed_ms": action.elapsed_ms,
            });
            if let Some(bytes) = action.output_bytes {
                shown["output_bytes"] = bytes.into();
            }
            shown
        })
        .collect();
    Ok(json!({
        "run_id": run.run_id, "ordinal": run.ordinal, "started_at": time(run.started_at_ms), "state": run.state,
        "attachment": attachment, "actions": actions,
    }))
}

fn turn(turn: &PendingTurn) -> Result<Value, Refusal> {
    let kind = turn.kind().name().ok_or_else(|| unknown("kind of turn"))?;
    let skills: Vec<_> = turn
        .skills
        .iter()
        .map(|skill| json!({"skill_id": skill.skill_id, "content_sha256": skill.content_sha256, "body": skill.body}))
        .collect();
    Ok(json!({
        "turn_id": turn.turn_id,
        "ordinal": turn.ordinal,
        "opened_at": time(turn.opened_at_ms),
        "kind": kind,
        "prompt": turn.prompt,
        "tool_results": turn.tool_results.iter().map(tool_result).collect::<Result<Vec<_>, _>>()?,
        "unreported": turn.unreported.iter().map(tool_result).collect::<Result<Vec<_>, _>>()?,
        "tools": turn.tools.iter().map(tool).collect::<Result<Vec<_>, _>>()?,
        "skills": skills,
        "reply_with": turn.reply_with,
    }))
}

fn tool_result(result: &ToolResult) -> Result<Value, Refusal> {
    let mut out = json!({"tool_call_id": result.tool_call_id});
    if let Some(id) = &result.client_id {
        out["client_id"] = id.clone().into();
    }
    out["name"] = result.name.clone().into();
    out["ok"] = result.ok.into();
    out["receipt"] = embedded(&result.receipt_json, "receipt")?;
    Ok(out)
}

/// Later turns of a run only name the tools.
fn tool(tool: &ToolDescription) -> Result<Value, Refusal> {
    let mut out = json!({"name": tool.name});
    if !tool.description.is_empty() {
        out["description"] = tool.description.clone().into();
    }
    if !tool.input_schema_json.is_empty() {
        out["input_schema"] = embedded(&tool.input_schema_json, "tool schema")?;
    }
    Ok(out)
}

/// JSON text of the executor as a value. Keys keep their order, so that it is written in the same bytes again.
fn embedded(text: &str, what: &str) -> Result<Value, Refusal> {
    serde_json::from_str(text).map_err(|_| unknown(what))
}

fn route(route: &DeepseekRoute) -> Value {
    json!({"sonnet": route.sonnet, "opus": route.opus, "fable": route.fable})
}

fn subsession(subsession: &SubsessionView) -> Value {
    json!({
        "subsession_id": subsession.subsession_id, "status": subsession.status, "grade": subsession.grade,
        "route": subsession.route, "started_by": subsession.started_by, "started_at": time(subsession.started_at_ms),
        "ended_at": subsession.ended_at_ms.map(time), "model": subsession.model,
        "model_verified": subsession.model_verified, "requests": subsession.requests,
        "input_tokens": subsession.input_tokens, "output_tokens": subsession.output_tokens, "error": subsession.error,
    })
}

fn skill_snapshot(skill: &SkillSnapshot) -> Value {
    json!({"skill_id": skill.skill_id, "content_sha256": skill.content_sha256, "bytes": skill.bytes})
}

fn last_result(result: &LastResult) -> Value {
    json!({
        "run_id": result.run_id, "ok": result.ok, "text": result.text, "finished_at": time(result.finished_at_ms),
        "turns": result.turns, "actions": result.actions,
    })
}

fn stop_request(stop: &StopRequestView) -> Value {
    json!({
        "request_id": stop.request_id, "reason": stop.reason, "requested_at": time(stop.requested_at_ms),
        "state": stop.state,
    })
}

fn terminal(terminal: &Terminal) -> Result<Value, Refusal> {
    Ok(json!({"status": status(terminal.status())?, "reason": terminal.reason, "at": time(terminal.at_ms)}))
}

fn or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

/// Milliseconds since 1970 as RFC 3339 text.
fn time(ms: u64) -> Value {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(ms.min(LAST_MOMENT_MS));
    humantime::format_rfc3339_millis(moment).to_string().into()
}
