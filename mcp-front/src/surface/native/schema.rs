//! The one output schema of all six tools.
//!
//! Clients cache it, so it only ever grows. A field that may be null has a description and no type; nothing is referred
//! to, nothing is alternative, and no object is closed.

use serde_json::{Map, Value, json};

/// The fields that every result has, in the order in which results carry them.
pub(super) const ALWAYS: [&str; 23] = [
    "route",
    "fallback",
    "replay",
    "native_session_id",
    "lease_id",
    "lease_expires_at",
    "status",
    "revision",
    "session_label",
    "capability_profile",
    "working_directory",
    "source_directory",
    "workspace",
    "network_boundary",
    "claude_session_id",
    "runtime_attached",
    "recovery_required",
    "current_run",
    "pending_turn",
    "skill_snapshot",
    "subagent_policy",
    "deepseek_route",
    "deepseek_subsessions",
];

/// The last of them, and those that are there only when there is something to say.
const ACTIVE_SUBSESSION: &str = "active_deepseek_subsession_id";

pub(super) fn output() -> Map<String, Value> {
    let mut properties = identity();
    properties.extend(place());
    properties.extend(work());
    properties.extend(subagents());
    properties.extend(occasional());
    let required: Vec<_> = ALWAYS.iter().copied().chain([ACTIVE_SUBSESSION]).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    schema
}

fn part(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn boolean(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn integer(description: &str) -> Value {
    json!({"type": "integer", "description": description})
}

/// A field that is null when there is nothing.
fn or_null(description: &str) -> Value {
    json!({"description": description})
}

fn identity() -> Map<String, Value> {
    part(json!({
        "route": {"type": "string", "enum": ["chatgpt-main"], "description": "Who the session's model is."},
        "fallback": {"type": "string", "enum": ["none"], "description": "There is never another model."},
        "replay": boolean("True when an earlier result of the same id is given again; nothing was done anew."),
        "native_session_id": text("The session. Give it with every further call."),
        "lease_id": text("The lease to give with the next call."),
        "lease_expires_at": text("When the lease ends if nobody calls (RFC 3339). Each valid call renews it."),
        "status": {
            "type": "string",
            "enum": ["starting", "waiting_for_gpt", "running", "idle", "stopping", "stopped", "failed", "lease_expired",
                     "recovery_required"],
            "description": "starting, running, stopping: wait with native_session_status. waiting_for_gpt: answer \
                            pending_turn. idle: the run is over. failed: see launch_error. lease_expired: recover. \
                            recovery_required: a person has to decide. stopped: final.",
        },
        "revision": integer("Grows with each change of the session."),
        "session_label": or_null("The name the session was given, or null."),
    }))
}

fn place() -> Map<String, Value> {
    part(json!({
        "capability_profile": {
            "type": "string",
            "enum": ["read_only", "direct_write", "worktree_write"],
            "description": "What the session may do, for good.",
        },
        "working_directory": text("Where the session works."),
        "source_directory": text("The directory that was named at the start; differs only for a worktree."),
        "workspace": {
            "type": "object",
            "description": "The place that can be written, if any.",
            "properties": {
                "kind": {"type": "string", "enum": ["read_only", "direct", "worktree"],
                         "description": "What kind of place it is."},
                "root": text("Its topmost directory."),
                "writable": boolean("Whether the session may write there."),
                "source_head": text("The commit a worktree was made at; worktrees only."),
                "note": text("What is worth knowing about it."),
            },
            "required": ["kind", "root", "writable", "note"],
        },
        "network_boundary": {
            "type": "object",
            "description": "What can be reached over the network.",
            "properties": {
                "claude": text("What Claude Code reaches."),
                "commands": text("What commands reach."),
                "enforced_by": {"type": "array", "items": {"type": "string"},
                                "description": "The layers of the operating system's sandbox that Claude Code is in, in the order in which they were \
                                    put up; empty before it was started."},
            },
            "required": ["claude", "commands", "enforced_by"],
        },
    }))
}

fn work() -> Map<String, Value> {
    part(json!({
        "claude_session_id": or_null("Claude Code's own id of the session, or null before it has one."),
        "runtime_attached": boolean("Whether a Claude Code process is running and connected; false is normal when idle."),
        "recovery_required": boolean("Whether an uncertain action waits for a person's decision."),
        "current_run": or_null(
            "The run under way, or null: {run_id, ordinal, started_at, state, attachment (attached, reattaching or \
             gone), actions: [{tool_call_id, name, state, started_at, elapsed_ms, output_bytes (of a command that runs)}]}.",
        ),
        "pending_turn": or_null(
            "The turn that waits for your reply, or null: {turn_id, ordinal, opened_at, kind (prompt, tool_results or \
             resumed), prompt, tool_results: [{tool_call_id, client_id, name, ok, receipt}], unreported: receipts of \
             finished actions that no earlier turn told, tools: [{name, description, input_schema}] (schemas in the \
             first turn of a run), skills: [{skill_id, content_sha256, body}], reply_with}.",
        ),
        "skill_snapshot": {
            "type": "array",
            "description": "The skills the session carries.",
            "items": {
                "type": "object",
                "properties": {
                    "skill_id": text("The skill."),
                    "content_sha256": text("The hash of its whole text."),
                    "bytes": integer("The size of its instructions."),
                },
                "required": ["skill_id", "content_sha256", "bytes"],
            },
        },
    }))
}

fn subagents() -> Map<String, Value> {
    part(json!({
        "subagent_policy": {"type": "string", "enum": ["none", "deepseek_explicit"],
                            "description": "Whether work may be handed to a DeepSeek subagent."},
        "deepseek_route": or_null("The subagents' fixed route, or null when there is none."),
        "deepseek_subsessions": {"type": "array", "items": {"type": "object"},
                                 "description": "The subagents of this session."},
        "active_deepseek_subsession_id": or_null("The subagent that is at work, or null."),
    }))
}

fn occasional() -> Map<String, Value> {
    part(json!({
        "recovery_token": text("Only in the result of native_session_start: keep it for native_session_recover."),
        "last_result": {
            "type": "object",
            "description": "How the latest run ended.",
            "properties": {
                "run_id": text("The run."),
                "ok": boolean("Whether it ended with your final answer."),
                "text": text("The final answer, or why there is none."),
                "finished_at": text("When (RFC 3339)."),
                "turns": integer("How many turns it had."),
                "actions": integer("How many tool calls it had."),
            },
            "required": ["run_id", "ok", "text", "finished_at", "turns", "actions"],
        },
        "launch_error": {
            "type": "object",
            "description": "Why Claude Code could not be started.",
            "properties": {
                "code": text("A stable code."),
                "message": text("What happened."),
                "what_to_do": text("What to do about it."),
            },
            "required": ["code", "message", "what_to_do"],
        },
        "stop_request": {
            "type": "object",
            "description": "The stop that was asked for.",
            "properties": {
                "request_id": text("Its id."),
                "reason": text("Its reason."),
                "requested_at": text("When (RFC 3339)."),
                "state": text("How far it is."),
            },
            "required": ["request_id", "reason", "requested_at", "state"],
        },
        "terminal": {
            "type": "object",
            "description": "How the session ended.",
            "properties": {
                "status": text("The status it ended with."),
                "reason": text("Why."),
                "at": text("When (RFC 3339)."),
            },
            "required": ["status", "reason", "at"],
        },
    }))
}
