//! A reply in the two forms that the Messages API has: server-sent events, and one JSON message.

use bytes::Bytes;
use gatehouse_proto::digest::digest;
use gatehouse_proto::v1::CommittedReply;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::binding::GivenCall;
use crate::plan::claude_tool_name;

/// A reply that can be rendered.
#[derive(Debug)]
pub struct Reply {
    text: String,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// Logical.
    name: String,
    /// A JSON object, passed on letter by letter.
    input: Box<RawValue>,
}

/// A call whose input is no JSON object; the executor checks that before it commits a reply.
#[derive(Debug, thiserror::Error)]
#[error("the committed reply holds a call without an input object")]
pub struct BadReply;

impl TryFrom<CommittedReply> for Reply {
    type Error = BadReply;

    fn try_from(reply: CommittedReply) -> Result<Self, BadReply> {
        let call = |call: gatehouse_proto::v1::AuthorisedCall| {
            serde_json::from_str::<Map<String, Value>>(&call.input_json).map_err(|_| BadReply)?;
            let input = RawValue::from_string(call.input_json).map_err(|_| BadReply)?;
            Ok(Call { id: call.tool_call_id, name: call.name, input })
        };
        Ok(Self { text: reply.text, calls: reply.calls.into_iter().map(call).collect::<Result<_, _>>()? })
    }
}

impl Reply {
    /// Whether Claude Code ends its run on this answer.
    pub const fn ends_the_run(&self) -> bool {
        self.calls.is_empty()
    }

    /// The calls, as they are told apart when the reply is given as one message.
    pub fn given_calls(&self) -> Vec<GivenCall> {
        let given = |call: &Call| GivenCall {
            id: call.id.clone(),
            name: call.name.clone(),
            input_sha256: serde_json::from_str(call.input.get())
                .map(|input| digest(&input))
                .unwrap_or_default(),
        };
        self.calls.iter().map(given).collect()
    }

    const fn stop_reason(&self) -> &'static str {
        if self.ends_the_run() { "end_turn" } else { "tool_use" }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text { text: &'a str },
    ToolUse { id: &'a str, name: String, input: &'a RawValue },
}

/// Constant and small: what we reported here would only make Claude Code shorten a history that costs nothing.
fn usage() -> Value {
    json!({"input_tokens": 10, "output_tokens": 10})
}

/// An id for a message; no meaning hangs on it.
pub fn message_id() -> String {
    format!("msg_{}", uuid::Uuid::new_v4().simple())
}

/// The reply as one JSON message.
pub fn whole(reply: &Reply, model: &str) -> Result<Bytes, serde_json::Error> {
    #[derive(Serialize)]
    struct Message<'a> {
        id: String,
        #[serde(rename = "type")]
        kind: &'static str,
        role: &'static str,
        model: &'a str,
        content: Vec<Block<'a>>,
        stop_reason: &'static str,
        stop_sequence: Option<&'static str>,
        usage: Value,
    }
    let text = (!reply.text.is_empty()).then_some(Block::Text { text: &reply.text });
    let calls = reply.calls.iter().map(|call| Block::ToolUse {
        id: &call.id,
        name: claude_tool_name(&call.name),
        input: &call.input,
    });
    let message = Message {
        id: message_id(),
        kind: "message",
        role: "assistant",
        model,
        content: text.into_iter().chain(calls).collect(),
        stop_reason: reply.stop_reason(),
        stop_sequence: None,
        usage: usage(),
    };
    serde_json::to_vec(&message).map(Bytes::from)
}

/// The first event, sent before anything is known of the reply.
pub fn message_start(model: &str) -> Bytes {
    event(json!({"type": "message_start", "message": {
        "id": message_id(), "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage(),
    }}))
}

/// A sign of life.
pub fn ping() -> Bytes {
    event(json!({"type": "ping"}))
}

/// The reply as the events after `message_start`.
pub fn events(reply: &Reply) -> Vec<Bytes> {
    let mut events = Vec::new();
    let mut block = |start: Value, delta: Value| {
        let index = events.len() / 3;
        events.push(event(json!({"type": "content_block_start", "index": index, "content_block": start})));
        events.push(event(json!({"type": "content_block_delta", "index": index, "delta": delta})));
        events.push(event(json!({"type": "content_block_stop", "index": index})));
    };
    if !reply.text.is_empty() {
        block(json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": reply.text}));
    }
    for call in &reply.calls {
        block(
            json!({"type": "tool_use", "id": call.id, "name": claude_tool_name(&call.name), "input": {}}),
            json!({"type": "input_json_delta", "partial_json": call.input.get()}),
        );
    }
    let end = json!({"stop_reason": reply.stop_reason(), "stop_sequence": null});
    events.push(event(json!({"type": "message_delta", "delta": end, "usage": usage()})));
    events.push(event(json!({"type": "message_stop"})));
    events
}

/// An error, as a body.
pub fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// An error, as an event: ends a stream that has begun.
pub fn error_event(kind: &str, message: &str) -> Bytes {
    event(error(kind, message))
}

/// One server-sent event. JSON text holds no line breaks, so it is one data line.
#[expect(clippy::needless_pass_by_value, reason = "built for this call")]
fn event(data: Value) -> Bytes {
    let name = data["type"].as_str().unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use gatehouse_proto::v1::AuthorisedCall;

    use super::*;

    fn reply(text: &str, inputs: &[&str]) -> Result<Reply, BadReply> {
        let call = |input: &&str| AuthorisedCall {
            tool_call_id: "toolu_1".into(),
            name: "Read".into(),
            input_json: (*input).to_owned(),
        };
        Reply::try_from(CommittedReply { text: text.into(), calls: inputs.iter().map(call).collect() })
    }

    fn parsed(event: &Bytes) -> Value {
        let text = std::str::from_utf8(event).unwrap();
        let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap();
        assert_eq!(data["type"], name);
        data
    }

    #[test]
    fn a_stream_holds_the_text_and_then_each_call_and_its_stop_reason() {
        let reply = reply("a\n\nb\u{2028}", &[r#"{"file_path": "/x",  "n": 1.0}"#, "{}"]).unwrap();
        let events: Vec<Value> = events(&reply).iter().map(parsed).collect();
        assert_eq!(events.len(), 3 * 3 + 2);
        assert_eq!(events[1]["delta"], json!({"type": "text_delta", "text": "a\n\nb\u{2028}"}));
        assert_eq!(events[3]["content_block"]["name"], "mcp__gatehouse__Read");
        assert_eq!(events[4]["delta"]["partial_json"], r#"{"file_path": "/x",  "n": 1.0}"#);
        assert_eq!(events[8]["index"], 2);
        assert_eq!(events[9]["delta"]["stop_reason"], "tool_use");
        assert_eq!(events[10], json!({"type": "message_stop"}));
        assert_eq!(parsed(&message_start("m"))["message"]["model"], "m");
        assert_eq!(parsed(&ping()), json!({"type": "ping"}));
    }

    #[test]
    fn one_message_holds_the_same() {
        let whole: Value =
            serde_json::from_slice(&whole(&reply("t", &[r#"{"a":1}"#]).unwrap(), "m").unwrap()).unwrap();
        assert_eq!(whole["content"][0], json!({"type": "text", "text": "t"}));
        assert_eq!(whole["content"][1]["input"], json!({"a": 1}));
        assert_eq!(whole["stop_reason"], "tool_use");
        assert_eq!(whole["stop_sequence"], Value::Null);
    }

    #[test]
    fn no_empty_text_block_is_rendered_and_a_text_alone_ends_the_turn() {
        assert_eq!(events(&reply("", &["{}"]).unwrap()).len(), 3 + 2);
        let alone = events(&reply("done", &[]).unwrap());
        assert_eq!(parsed(&alone[3])["delta"]["stop_reason"], "end_turn");
    }

    #[test]
    fn an_input_that_is_no_object_is_refused() {
        for bad in ["", "[]", "1", "{} {}", "{"] {
            assert!(reply("t", &[bad]).is_err(), "{bad}");
        }
    }
}
