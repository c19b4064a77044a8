//! The request as it is sent: made from the ledger alone.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::failure::AskError;
use crate::config::DeepseekSettings;
use crate::engine::Engine;
use crate::files::Profile;
use crate::ledger::{LedgerError, actions, runs, subagents};
use crate::session::{Session, Subagent};
use crate::tools;

/// What a subagent is told of its situation.
fn system(session: &Session) -> String {
    format!(
        "You are a coding subagent. You work alone, in one pass, in the Git worktree {root}; it is the only place that you \
         can change. Work with the tools that you are given: file paths are absolute, there is no network, and a \
         result with \"ok\": false says what went wrong. When the task is done, answer with a short report of what you \
         found and changed, and call no tool: that ends your work and is all that whoever asked will see.",
        root = session.root.path.display()
    )
}

/// The body of the next request of the Messages API.
///
/// # Errors
/// When the ledger cannot be read, or the conversation has grown too large.
pub(super) async fn request(
    engine: &Engine,
    deepseek: &DeepseekSettings,
    session: &Session,
    subagent: &Subagent,
) -> Result<Bytes, AskError> {
    let (run, id) = (subagent.run.id.clone(), subagent.id.clone());
    let messages = engine.read(move |connection| {
        let prompt = runs::prompt(connection, &run)?.unwrap_or_default();
        let mut messages = vec![json!({ "role": "user", "content": prompt })];
        for (turn, content) in subagents::answers(connection, &id)? {
            let content: Value = serde_json::from_str(&content)
                .map_err(|error| LedgerError::damaged("subagent_answer.content", error))?;
            let results = results(&content, &actions::of_turn(connection, &turn)?);
            messages.push(json!({ "role": "assistant", "content": content }));
            if !results.is_empty() {
                messages.push(json!({ "role": "user", "content": results }));
            }
        }
        Ok(messages)
    });
    let messages = messages.await?;
    let left = subagent.limits.output_tokens.saturating_sub(subagent.usage.output_tokens);
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(deepseek.model(subagent.grade.route()).name));
    body.insert("max_tokens".to_owned(), json!(u64::from(deepseek.answer_tokens).min(left)));
    body.insert("stream".to_owned(), json!(deepseek.stream));
    body.insert("system".to_owned(), json!(system(session)));
    body.insert("tools".to_owned(), described());
    body.insert("messages".to_owned(), Value::Array(messages));
    let body = Value::Object(body).to_string();
    if body.len() > deepseek.request_bytes {
        return Err(AskError::RequestTooLarge { bytes: body.len(), limit: deepseek.request_bytes });
    }
    Ok(body.into())
}

/// The tools under their logical names.
fn described() -> Value {
    let tools = tools::descriptions(Profile::WorktreeWrite).into_iter();
    tools
        .map(|tool| {
            json!({ "name": tool.name.as_str(), "description": tool.description, "input_schema": tool.input_schema })
        })
        .collect()
}

/// The receipt of each call of an answer, in its order.
fn results(content: &Value, rows: &[actions::ActionRow]) -> Vec<Value> {
    let calls = content.as_array().into_iter().flatten().filter(|block| block["type"] == "tool_use");
    let result = |call: &Value| {
        let id = call["id"].as_str().unwrap_or_default();
        let row = rows.iter().find(|row| row.id == id);
        let receipt = row.and_then(|row| row.receipt.as_deref()).unwrap_or("{}");
        json!({
            "type": "tool_result", "tool_use_id": id, "content": receipt,
            "is_error": row.is_none_or(|row| row.ok != Some(true)),
        })
    };
    calls.map(result).collect()
}
