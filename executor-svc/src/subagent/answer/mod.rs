//! An answer of the Messages API, whichever way it comes: as events, or as one JSON message.

mod events;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::events::Events;
use super::client::words;
use super::failure::{AskError, bounded};
use crate::config::RouteModel;
use crate::credential::Credential;
use crate::session::Usage;

/// A whole answer of the model that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    /// The provider's id of it.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// Its blocks, as they came.
    pub content: Vec<Value>,
    /// Why it ended.
    pub stop_reason: String,
    /// What it took.
    pub usage: Usage,
}

/// Reads an answer piece by piece.
pub(super) struct Reader<'a> {
    form: Form,
    model: &'a RouteModel,
    credential: &'a Credential,
}

enum Form {
    Events(Events),
    Whole(Vec<u8>),
}

impl<'a> Reader<'a> {
    /// Reads an answer of this content type.
    pub(super) fn new(content_type: &str, model: &'a RouteModel, credential: &'a Credential) -> Self {
        let is_stream = content_type.trim_start().starts_with("text/event-stream");
        let form = if is_stream { Form::Events(Events::default()) } else { Form::Whole(Vec::new()) };
        Self { form, model, credential }
    }

    /// Takes the next piece. Another model is refused as soon as it has named itself.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), AskError> {
        match &mut self.form {
            Form::Whole(bytes) => bytes.extend_from_slice(piece),
            Form::Events(events) => {
                for event in events.push(piece)? {
                    if event["type"] == "error" {
                        return Err(in_stream(&event["error"], self.credential));
                    }
                    if event["type"] == "message_start" {
                        verify(&event["message"], self.model, self.credential)?;
                    }
                    events.take(event)?;
                }
            }
        }
        Ok(())
    }

    /// The whole answer.
    pub(super) fn finish(self) -> Result<Message, AskError> {
        let message = match self.form {
            Form::Events(events) => events.message()?,
            Form::Whole(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| AskError::Invalid(format!("it is no JSON: {error}")))?,
        };
        if message["type"] == "error" {
            return Err(in_stream(&message["error"], self.credential));
        }
        verify(&message, self.model, self.credential)?;
        whole(message)
    }
}

fn in_stream(error: &Value, credential: &Credential) -> AskError {
    let (error_type, message) = words(error, credential);
    AskError::InStream { error_type, message: message.unwrap_or_else(|| "it says no more".to_owned()) }
}

/// Whether the model that answers counts as the one that was asked for.
fn verify(message: &Value, model: &RouteModel, credential: &Credential) -> Result<(), AskError> {
    let answered = message["model"].as_str().unwrap_or_default();
    if model.answers.iter().any(|name| name == answered) {
        return Ok(());
    }
    let answered = match answered {
        "" => "one that does not name itself".to_owned(),
        name => bounded(&credential.redact(name)).chars().take(100).collect(),
    };
    Err(AskError::Model { asked: model.name.clone(), answered })
}

fn whole(mut message: Value) -> Result<Message, AskError> {
    let Value::Array(content) = message["content"].take() else {
        return Err(AskError::Invalid("it has no content".to_owned()));
    };
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let count = |name: &str| message["usage"][name].as_u64().unwrap_or(0);
    let cached = count("cache_read_input_tokens").saturating_add(count("cache_creation_input_tokens"));
    Ok(Message {
        id: text("id"),
        model: text("model"),
        content,
        stop_reason: text("stop_reason"),
        usage: Usage {
            input_tokens: count("input_tokens").saturating_add(cached),
            output_tokens: count("output_tokens"),
        },
    })
}
