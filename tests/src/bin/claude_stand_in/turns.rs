//! Model turns over the Messages API.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::http::Connection;
use crate::times::Times;

/// How often a turn is asked again before the run fails.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// A call that the model asks for.
#[derive(Debug)]
pub struct Call {
    /// The id of its block.
    pub id: String,
    /// The tool, with its server's prefix.
    pub name: String,
    /// Its input.
    pub input: Value,
}

/// What the model says.
#[derive(Debug, Default)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Its calls.
    pub calls: Vec<Call>,
}

/// The conversation of this run; of what came before, the model is told nothing.
#[derive(Debug)]
pub struct Turns {
    connection: Connection,
    model: String,
    messages: Vec<Value>,
    times: Times,
}

impl Turns {
    /// Begins with the prompt, and writes it down.
    pub fn begin(arguments: &Arguments, prompt: &str) -> Result<Self, String> {
        let first = json!({"role": "user", "content": [{"type": "text", "text": prompt}]});
        note(arguments, &first).map_err(|error| format!("the transcript: {error}"))?;
        let times =
            Times::of(prompt, &arguments.transcript).map_err(|error| format!("the times: {error}"))?;
        let header = format!("x-api-key: {}", arguments.api_key);
        Ok(Self {
            times,
            connection: Connection::new(arguments.model_port, header),
            model: arguments.model.clone(),
            messages: vec![first],
        })
    }

    /// Asks the model, again if the answer breaks off.
    pub fn ask(&mut self) -> Result<Answer, String> {
        let body =
            json!({"model": self.model, "max_tokens": 32000, "stream": true, "messages": self.messages});
        let body = body.to_string();
        let mut why = String::new();
        for _ in 0..TRIES {
            let mut stream = Stream::default();
            let times = &mut self.times;
            times.asked();
            let posted = self.connection.post("/v1/messages?beta=true", &body, |part| {
                stream.take(part);
                if stream.begun {
                    times.reply();
                }
            });
            match posted {
                Ok(()) if stream.over => {
                    self.times.over().map_err(|error| format!("the times: {error}"))?;
                    return stream.answer();
                }
                Ok(()) => why = format!("the answer broke off: {:?}", stream.error),
                Err(error) => why = error.to_string(),
            }
            std::thread::sleep(PAUSE);
        }
        Err(format!("no answer from the model: {why}"))
    }

    /// Adds what came of the calls.
    pub fn results(&mut self, answer: &Answer, results: &[Value]) {
        let calls = answer
            .calls
            .iter()
            .map(|call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}));
        let said = json!({"role": "assistant", "content": calls.collect::<Vec<_>>()});
        // Only the last message matters to whoever answers; the ones before need not pile up.
        self.messages.truncate(1);
        self.messages.extend([said, json!({"role": "user", "content": results})]);
    }
}

fn note(arguments: &Arguments, message: &Value) -> std::io::Result<()> {
    let path = &arguments.transcript;
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    let mut file = std::fs::File::options().create(true).append(true).open(path)?;
    writeln!(file, "{}", json!({"type": "user", "message": message}))
}

/// Server-sent events, put together.
#[derive(Debug, Default)]
struct Stream {
    rest: Vec<u8>,
    text: String,
    calls: Vec<(String, String, String)>,
    error: Option<Value>,
    /// More than the head has come, and more than a sign of life.
    begun: bool,
    over: bool,
}

impl Stream {
    fn take(&mut self, part: &[u8]) {
        self.rest.extend_from_slice(part);
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Some(data) = line.strip_prefix(b"data: ")
                && let Ok(event) = serde_json::from_slice::<Value>(data)
            {
                self.event(event);
            }
        }
    }

    fn event(&mut self, mut event: Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = event["type"].as_str().unwrap_or_default();
        self.begun |= !matches!(kind, "message_start" | "ping");
        match kind {
            "content_block_start" if event["content_block"]["type"] == "tool_use" => {
                let block = &event["content_block"];
                self.calls.push((text(&block["id"]), text(&block["name"]), String::new()));
            }
            "content_block_delta" => {
                self.text += &text(&event["delta"]["text"]);
                if let Some((.., input)) = self.calls.last_mut() {
                    *input += &text(&event["delta"]["partial_json"]);
                }
            }
            "message_stop" => self.over = true,
            "error" => self.error = Some(event["error"].take()),
            _ => {}
        }
    }

    fn answer(self) -> Result<Answer, String> {
        let call = |(id, name, input): (String, String, String)| {
            let input = serde_json::from_str(&input).map_err(|error| format!("{name}: {error}"))?;
            Ok(Call { id, name, input })
        };
        Ok(Answer {
            text: self.text,
            calls: self.calls.into_iter().map(call).collect::<Result<_, String>>()?,
        })
    }
}
