//! The short text beside a structured result: the ids, the status, the turn, and what to do next.

use serde_json::{Map, Value};

pub(super) fn text(result: &Map<String, Value>) -> String {
    let mut lines = vec![
        format!(
            "status: {} (revision {})",
            word(result, "status"),
            result.get("revision").unwrap_or(&Value::Null)
        ),
        format!("native_session_id: {}", word(result, "native_session_id")),
        format!("lease_id: {} (until {})", word(result, "lease_id"), word(result, "lease_expires_at")),
    ];
    if result.get("replay") == Some(&Value::Bool(true)) {
        lines.push("replay: true (an earlier result of the same id; nothing was done anew)".to_owned());
    }
    if let Some(Value::Object(turn)) = result.get("pending_turn") {
        lines.push(format!("turn_id: {} ({})", word(turn, "turn_id"), word(turn, "kind")));
    }
    if result.contains_key("recovery_token") {
        lines.push("recovery_token: see structuredContent; keep it for native_session_recover".to_owned());
    }
    lines.push(format!("next: {}", next(result)));
    lines.join("\n")
}

fn word<'a>(map: &'a Map<String, Value>, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or("-")
}

fn next(result: &Map<String, Value>) -> &'static str {
    match word(result, "status") {
        "waiting_for_gpt" => {
            "answer pending_turn with native_session_reply_and_wait: these ids, a new reply_id, and text and/or tool_calls"
        }
        "starting" | "running" => "wait with native_session_status (wait_seconds 25)",
        "stopping" => "the session is being ended; native_session_status shows when it has ended",
        "idle" if result.contains_key("last_result") => {
            "the run is over, see last_result; native_session_continue starts the next, native_session_stop ends the session"
        }
        "idle" => "native_session_continue starts the next run, native_session_stop ends the session",
        "failed" => {
            "see launch_error; when its cause is removed, native_session_continue tries again, native_session_stop gives up"
        }
        "lease_expired" => "get a new lease with native_session_recover and the recovery_token",
        "recovery_required" => {
            "an action is uncertain: ask the user to settle it at the computer with `gatehouse resolve`, then recover"
        }
        _ => "nothing; the session has ended for good",
    }
}
