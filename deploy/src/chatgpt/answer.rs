//! What a session tool answers, read the way ChatGPT reads it.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::client::ClientError;

/// The error object of a tool that refused.
#[derive(Debug, Clone, PartialEq, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolError {
    /// The stable code.
    pub code: String,
    /// What happened.
    pub message: String,
    /// Whether asking again unchanged may help.
    pub retryable: bool,
    /// What to do.
    pub what_to_do: String,
    /// Further facts.
    #[serde(default)]
    pub details: Map<String, Value>,
}

/// A finished tool call as the pending turn shows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ToolResult {
    /// The executor's id of the call.
    pub tool_call_id: String,
    /// The logical tool.
    pub name: String,
    /// Whether it did what was asked.
    pub ok: bool,
    /// The ledger's receipt.
    pub receipt: Value,
    /// The id that the caller gave the call.
    #[serde(default)]
    pub client_id: Option<String>,
}

/// The `structuredContent` of a session tool's result.
#[derive(Debug, Clone, PartialEq)]
pub struct State(pub Value);

impl State {
    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// `native_session_id`.
    #[must_use]
    pub fn session_id(&self) -> &str {
        self.text("native_session_id")
    }

    /// `lease_id`.
    #[must_use]
    pub fn lease_id(&self) -> &str {
        self.text("lease_id")
    }

    /// `status`.
    #[must_use]
    pub fn status(&self) -> &str {
        self.text("status")
    }

    /// `claude_session_id`.
    #[must_use]
    pub fn claude_session_id(&self) -> &str {
        self.text("claude_session_id")
    }

    /// `replay`.
    #[must_use]
    pub fn replay(&self) -> bool {
        self.0["replay"] == true
    }

    /// `revision`.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.0["revision"].as_u64().unwrap_or_default()
    }

    /// `recovery_token`, if this result carries it.
    #[must_use]
    pub fn recovery_token(&self) -> Option<&str> {
        self.0["recovery_token"].as_str()
    }

    /// The pending turn's id, if one is open.
    #[must_use]
    pub fn turn_id(&self) -> Option<&str> {
        self.0["pending_turn"]["turn_id"].as_str()
    }

    /// The pending turn's tool results; empty where there are none.
    #[must_use]
    pub fn tool_results(&self) -> Vec<ToolResult> {
        self.results("tool_results")
    }

    /// The receipts that no answered turn has shown yet.
    #[must_use]
    pub fn unreported(&self) -> Vec<ToolResult> {
        self.results("unreported")
    }

    fn results(&self, field: &str) -> Vec<ToolResult> {
        Vec::deserialize(&self.0["pending_turn"][field]).unwrap_or_default()
    }
}

/// Splits a `tools/call` result into a state or the tool's own error.
pub(super) fn tool_answer(mut result: Value) -> Result<State, ClientError> {
    if result["isError"] == true {
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let error: ToolError = serde_json::from_str(text)
            .map_err(|error| ClientError::Shape(format!("{error} in the tool error {text:?}")))?;
        return Err(Box::new(error).into());
    }
    match result["structuredContent"].take() {
        Value::Object(state) => Ok(State(Value::Object(state))),
        other => Err(ClientError::Shape(format!("structuredContent is {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_told_from_a_state_by_is_error_alone() {
        let text = json!({"code": "session_busy", "message": "m", "retryable": true, "what_to_do": "w", "details": {}});
        let refused =
            tool_answer(json!({"isError": true, "content": [{"type": "text", "text": text.to_string()}]}));
        assert_eq!(refused.unwrap_err().code(), Some("session_busy"));

        let state = tool_answer(json!({"structuredContent": {
            "status": "waiting_for_gpt",
            "pending_turn": {"turn_id": "t", "tool_results": [
                {"tool_call_id": "c", "name": "Read", "ok": true, "receipt": {"a": 1}}]}}}));
        let state = state.unwrap();
        assert_eq!((state.status(), state.turn_id()), ("waiting_for_gpt", Some("t")));
        assert_eq!(state.tool_results()[0].receipt, json!({"a": 1}));
        assert!(matches!(tool_answer(json!({"content": []})), Err(ClientError::Shape(_))));
    }
}
