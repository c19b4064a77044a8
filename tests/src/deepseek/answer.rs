//! What the server answers with.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// A message of the model.
#[derive(Debug, Clone)]
pub struct Message {
    /// The model that it says it is.
    pub model: String,
    /// Its blocks.
    pub content: Vec<Value>,
    /// Why it ends; by what it holds unless said otherwise.
    pub stop_reason: Option<&'static str>,
}

impl Message {
    /// A message of Flash.
    #[must_use]
    pub fn flash(content: Vec<Value>) -> Self {
        Self { model: "deepseek-flash".to_owned(), content, stop_reason: None }
    }

    fn stop_reason(&self) -> &'static str {
        let calls = self.content.iter().any(|block| block["type"] == "tool_use");
        self.stop_reason.unwrap_or(if calls { "tool_use" } else { "end_turn" })
    }
}

/// A text.
#[must_use]
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// What a model thinks before it speaks.
#[must_use]
pub fn thought(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": "sig"})
}

/// A call of a tool, under an id of the provider's.
#[must_use]
pub fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// An answer to one request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The message, in the form that was asked for.
    Good(Message),
    /// The same, held back for so long, with signs of life meanwhile.
    Slow(Message, Duration),
    /// Begins as a message does, and says nothing more until the other end is gone.
    Held(Message),
    /// The message as a stream that ends after so many events.
    Cut(Message, usize),
    /// A stream that is no stream of events.
    Garbage,
    /// A text that does not end, of so many bytes.
    Huge(usize),
    /// Another status than 200.
    Status {
        /// The status.
        status: u16,
        /// Further headers.
        headers: Vec<(&'static str, &'static str)>,
        /// The body.
        body: String,
    },
}

impl Answer {
    /// An error as the Messages API has it.
    #[must_use]
    pub fn status(status: u16, kind: &str, message: &str) -> Self {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}}).to_string();
        Self::Status { status, headers: Vec::new(), body }
    }

    pub(super) async fn write(self, out: &mut (impl AsyncWrite + Unpin), streamed: bool) {
        // Whoever asked may have gone away.
        let _ = self.try_write(out, streamed).await;
    }

    async fn try_write(self, out: &mut (impl AsyncWrite + Unpin), streamed: bool) -> std::io::Result<()> {
        match self {
            Self::Good(message) if streamed => {
                head(out, 200, "text/event-stream", &[]).await?;
                for event in events(&message) {
                    put(out, &event).await?;
                }
            }
            Self::Good(message) => {
                head(out, 200, "application/json", &[]).await?;
                put(out, &whole(&message)).await?;
            }
            Self::Slow(message, time) => {
                head(out, 200, "text/event-stream", &[]).await?;
                let deadline = tokio::time::Instant::now() + time;
                while tokio::time::Instant::now() < deadline {
                    put(out, "event: ping\ndata: {\"type\": \"ping\"}\n\n").await?;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                for event in events(&message) {
                    put(out, &event).await?;
                }
            }
            Self::Held(message) => {
                head(out, 200, "text/event-stream", &[]).await?;
                put(out, &events(&message)[0]).await?;
                loop {
                    put(out, ": still here\n\n").await?;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            Self::Cut(message, count) => {
                head(out, 200, "text/event-stream", &[]).await?;
                for event in events(&message).iter().take(count) {
                    put(out, event).await?;
                }
            }
            Self::Garbage => {
                head(out, 200, "text/event-stream", &[]).await?;
                put(out, "data: {\"type\": \n\n<html>\n\n").await?;
            }
            Self::Huge(bytes) => {
                head(out, 200, "text/event-stream", &[]).await?;
                put(out, &events(&Message::flash(vec![text("")]))[0]).await?;
                let piece = format!(": {}\n", "x".repeat(16 * 1024));
                for _ in 0..bytes / piece.len() + 1 {
                    put(out, &piece).await?;
                }
            }
            Self::Status { status, headers, body } => {
                head(out, status, "application/json", &headers).await?;
                put(out, &body).await?;
            }
        }
        Ok(())
    }
}

async fn put(out: &mut (impl AsyncWrite + Unpin), text: &str) -> std::io::Result<()> {
    out.write_all(text.as_bytes()).await?;
    out.flush().await
}

async fn head(
    out: &mut (impl AsyncWrite + Unpin),
    status: u16,
    kind: &str,
    headers: &[(&str, &str)],
) -> std::io::Result<()> {
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    put(out, &format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n{more}\r\n")).await
}

fn whole(message: &Message) -> String {
    json!({
        "id": "msg_fake", "type": "message", "role": "assistant", "model": message.model, "content": message.content,
        "stop_reason": message.stop_reason(), "usage": {"input_tokens": 11, "output_tokens": 7},
    })
    .to_string()
}

/// Each block in two pieces, so that nothing can be taken for whole too early.
fn events(message: &Message) -> Vec<String> {
    let mut events = vec![json!({"type": "message_start", "message": {
        "id": "msg_fake", "type": "message", "role": "assistant", "model": message.model, "content": [],
        "usage": {"input_tokens": 11, "output_tokens": 1},
    }})];
    for (index, block) in message.content.iter().enumerate() {
        let (start, deltas) = pieces(block);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(
            deltas.map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": message.stop_reason()}, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    let line =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(line).collect()
}

fn pieces(block: &Value) -> (Value, [Value; 2]) {
    let halves = |text: &str| {
        let middle = text.floor_char_boundary(text.len() / 2);
        (text[..middle].to_owned(), text[middle..].to_owned())
    };
    match block["type"].as_str() {
        Some("tool_use") => {
            let (one, two) = halves(&block["input"].to_string());
            let delta = |piece: String| json!({"type": "input_json_delta", "partial_json": piece});
            (
                json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                [delta(one), delta(two)],
            )
        }
        Some("thinking") => (
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            [
                json!({"type": "thinking_delta", "thinking": block["thinking"]}),
                json!({"type": "signature_delta", "signature": block["signature"]}),
            ],
        ),
        _ => {
            let (one, two) = halves(block["text"].as_str().unwrap_or_default());
            let delta = |piece: String| json!({"type": "text_delta", "text": piece});
            (json!({"type": "text", "text": ""}), [delta(one), delta(two)])
        }
    }
}
