//! From a verified message to what is committed: a text, calls under ids of ours, and the blocks for the next request.

use gatehouse_proto::digest::{canonical_json, digest};
use gatehouse_proto::ids::{RequestKey, ToolCallId, TurnId};
use serde_json::{Map, Value, json};

use super::answer::Message;
use super::failure::bounded;
use crate::files::Profile;
use crate::session::{CallRequest, Receipt, Subagent, SubagentAnswer, SubagentFailure};
use crate::tools::{self, ReceiptBudget, ToolName};

/// Text plus calls, in bytes: as for the main session.
const REPLY_BYTES: usize = 768 * 1024;
/// Calls that are performed of one answer.
const CALLS: usize = 16;
/// Calls that an answer may have at all.
const ALL_CALLS: usize = 64;

/// An answer, taken apart.
#[derive(Default)]
struct Taken {
    text: String,
    content: Vec<Value>,
    calls: Vec<CallRequest>,
    refused: Vec<(ToolCallId, Receipt)>,
}

/// What is committed of a message.
///
/// # Errors
/// When nothing of it can be used.
pub(super) fn answer(
    message: Message,
    subagent: &Subagent,
    turn: &TurnId,
) -> Result<SubagentAnswer, SubagentFailure> {
    let invalid =
        |what: &str| SubagentFailure::new("answer_invalid", format!("the answer cannot be used: {what}"));
    match message.stop_reason.as_str() {
        "end_turn" | "tool_use" | "stop_sequence" => {}
        "max_tokens" => {
            let tokens = message.usage.output_tokens;
            let what = format!(
                "the answer was cut at {tokens} tokens (deepseek.answer_tokens, deepseek.output_tokens)"
            );
            return Err(SubagentFailure::new("output_limit", what));
        }
        other => return Err(invalid(&format!("it ended for the reason `{}`", bounded(other)))),
    }
    let mut taken = Taken::default();
    for block in message.content {
        taken.take(block).map_err(|what| invalid(&what))?;
    }
    if taken.text.trim().is_empty() && taken.calls.is_empty() {
        return Err(invalid("it has neither text nor calls"));
    }
    let bytes = taken.text.len() + taken.calls.iter().map(|call| call.input.len()).sum::<usize>();
    if bytes > REPLY_BYTES {
        let what = format!("text and calls have {bytes} bytes; at most {REPLY_BYTES} are taken");
        return Err(SubagentFailure::new("answer_too_large", what));
    }
    let reply_id = RequestKey::try_from(message.id.chars().take(60).collect::<String>())
        .or_else(|_| RequestKey::try_from(turn.to_string()))
        .map_err(|error| invalid(&error.to_string()))?;
    Ok(SubagentAnswer {
        id: subagent.id.clone(),
        turn_id: turn.clone(),
        reply_id,
        text: taken.text,
        calls: taken.calls,
        refused: taken.refused,
        content: Value::Array(taken.content).to_string(),
        model: message.model,
        usage: message.usage,
    })
}

impl Taken {
    /// Takes a block. Thoughts are kept for the next request, where the provider wants them back, and go nowhere else.
    fn take(&mut self, mut block: Value) -> Result<(), String> {
        match block["type"].as_str() {
            Some("text") => {
                let text = block["text"].as_str().ok_or("a text block without text")?;
                self.text.push_str(text);
                // An empty one is refused when it is sent back.
                if !text.is_empty() {
                    self.content.push(json!({ "type": "text", "text": text }));
                }
            }
            Some("thinking" | "redacted_thinking") => self.content.push(block),
            Some("tool_use") => {
                let (id, name) = self.call(&block)?;
                let input = match block["input"].take() {
                    Value::Object(input) => input,
                    _ => Map::new(),
                };
                self.content.push(json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
            }
            other => return Err(format!("a block of the kind `{}`", bounded(other.unwrap_or("nothing")))),
        }
        Ok(())
    }

    /// Takes a call. One that cannot be performed is answered at once, so that the model can correct itself.
    fn call(&mut self, block: &Value) -> Result<(ToolCallId, String), String> {
        if self.calls.len() == ALL_CALLS {
            return Err(format!("more than {ALL_CALLS} calls"));
        }
        let (id, name) = (ToolCallId::mint(), plain(block["name"].as_str().unwrap_or_default()));
        let client_id = block["id"].as_str().map(|theirs| theirs.chars().take(60).collect());
        let (input, problem) = match checked(&name, &block["input"], self.calls.len()) {
            Ok(input) => (input, None),
            Err(problem) => (block["input"].clone(), Some(problem)),
        };
        let input = if input.is_object() { input } else { json!({}) };
        if let Some(problem) = problem {
            let receipt = tools::not_performed_receipt(&id, &name, &bounded(&problem), ReceiptBudget::MIN);
            self.refused.push((id.clone(), receipt));
        }
        self.calls.push(CallRequest {
            id: id.clone(),
            name: name.clone(),
            client_id,
            input_sha256: digest(&input),
            input: canonical_json(&input),
        });
        Ok((id, name))
    }
}

/// A name that can be a tool's; anything else is none.
fn plain(name: &str) -> String {
    let is_plain = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain { name.to_owned() } else { "unknown_tool".to_owned() }
}

fn checked(name: &str, input: &Value, before: usize) -> Result<Value, String> {
    if before >= CALLS {
        return Err(format!("at most {CALLS} calls of one answer are performed"));
    }
    let tool = ToolName::parse(name).filter(|tool| tools::has(Profile::WorktreeWrite, *tool));
    let tool = tool.ok_or_else(|| format!("there is no tool `{name}`"))?;
    tools::check(tool, input).map(|input| input.to_value()).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests;
