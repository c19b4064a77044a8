//! Server-sent events, put together to the message that they tell piece by piece.

use serde_json::{Value, json};

use crate::subagent::failure::AskError;

/// What has come so far.
#[derive(Default)]
pub(super) struct Events {
    /// The line that has begun.
    line: Vec<u8>,
    /// The data lines of the event that has begun.
    data: Vec<u8>,
    message: Value,
    blocks: Vec<Block>,
    ended: bool,
}

struct Block {
    value: Value,
    /// The pieces of a call's input.
    input: String,
}

fn invalid(what: &str) -> AskError {
    AskError::Invalid(what.to_owned())
}

impl Events {
    /// The events that are whole with this piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<Value>, AskError> {
        let mut whole = Vec::new();
        for &byte in piece {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                if !data.is_empty() {
                    whole.push(serde_json::from_slice(&data).map_err(|_| invalid("an event is no JSON"))?);
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                self.data.extend_from_slice(data);
                self.data.push(b'\n');
            }
        }
        Ok(whole)
    }

    /// Adds what an event says. Kinds that are not known say nothing.
    pub(super) fn take(&mut self, mut event: Value) -> Result<(), AskError> {
        match event["type"].as_str() {
            Some("message_start") if self.message.is_null() => self.message = event["message"].take(),
            Some("message_start") => return Err(invalid("it begins twice")),
            Some("content_block_start") => {
                if event["index"].as_u64() != u64::try_from(self.blocks.len()).ok() {
                    return Err(invalid("its blocks are out of order"));
                }
                self.blocks.push(Block { value: event["content_block"].take(), input: String::new() });
            }
            Some("content_block_delta") => self.grow(&event)?,
            Some("message_delta") => {
                self.message["stop_reason"] = event["delta"]["stop_reason"].take();
                if let Value::Object(counts) = event["usage"].take() {
                    for (name, count) in counts {
                        self.message["usage"][name] = count;
                    }
                }
            }
            Some("message_stop") => self.ended = true,
            _ => {}
        }
        Ok(())
    }

    fn grow(&mut self, event: &Value) -> Result<(), AskError> {
        let index = event["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let block = index.and_then(|index| self.blocks.get_mut(index));
        let block = block.ok_or_else(|| invalid("a piece belongs to no block"))?;
        let delta = &event["delta"];
        let name = match delta["type"].as_str() {
            Some("text_delta") => "text",
            Some("thinking_delta") => "thinking",
            Some("signature_delta") => "signature",
            Some("input_json_delta") => {
                block.input.push_str(delta["partial_json"].as_str().unwrap_or_default());
                return Ok(());
            }
            _ => return Ok(()),
        };
        let more = delta[name].as_str().unwrap_or_default();
        let Value::Object(fields) = &mut block.value else { return Err(invalid("a block is no object")) };
        match fields.get_mut(name) {
            Some(Value::String(text)) => text.push_str(more),
            _ => drop(fields.insert(name.to_owned(), json!(more))),
        }
        Ok(())
    }

    /// The message, if it has come to its end.
    pub(super) fn message(mut self) -> Result<Value, AskError> {
        if !self.ended || !self.message.is_object() {
            return Err(AskError::Cut("the stream ended before the message did".to_owned()));
        }
        let mut content = Vec::with_capacity(self.blocks.len());
        for mut block in self.blocks {
            if block.value["type"] == "tool_use" && !block.input.is_empty() {
                // What is no JSON is told as the call's fault; it is the model's own.
                block.value["input"] =
                    serde_json::from_str(&block.input).unwrap_or_else(|_| json!(block.input));
            }
            content.push(block.value);
        }
        self.message["content"] = Value::Array(content);
        Ok(self.message)
    }
}
