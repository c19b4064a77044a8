//! What is read of a model request: whether a stream is wanted, and the last user message.

use gatehouse_proto::digest;
use gatehouse_proto::v1::OpenTurnRequest;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::turn_key;

/// How the answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Server-sent events.
    Stream,
    /// One JSON message.
    Whole,
}

/// A model request that has a turn key.
#[derive(Debug, PartialEq)]
pub struct Asked {
    /// How the answer is wanted.
    pub form: Form,
    /// What the executor is asked.
    pub turn: OpenTurnRequest,
}

/// Why a request has no turn key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoKey {
    /// Not the JSON of a model request.
    #[error("the model request cannot be read")]
    Malformed,
    /// Nobody asks anything.
    #[error("the model request holds no user message")]
    NoUserMessage,
    /// Neither marker nor tool results.
    #[error("the last user message holds neither this run's marker nor tool results")]
    Unmarked,
    /// A tool result that belongs to no call.
    #[error("a tool result names no call")]
    NamelessResult,
    /// More tool results than a reply can ask for.
    #[error("the last user message holds too many tool results")]
    TooManyResults,
}

/// Everything that is not named here is passed over unread, whatever it is.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default)]
    stream: Value,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default)]
    role: Value,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// Reads a request of the run with this ordinal.
///
/// # Errors
/// When it fits no turn.
pub fn parse(body: &[u8], ordinal: u32) -> Result<Asked, NoKey> {
    let body: Body<'_> = serde_json::from_slice(body).map_err(|_| NoKey::Malformed)?;
    let last = body.messages.iter().rfind(|message| message.role == "user").ok_or(NoKey::NoUserMessage)?;
    let content: Value = match last.content {
        Some(raw) => serde_json::from_str(raw.get()).map_err(|_| NoKey::Malformed)?,
        None => Value::Null,
    };
    let key = turn_key::of(&content, ordinal)?;
    let form = if body.stream == true { Form::Stream } else { Form::Whole };
    Ok(Asked { form, turn: OpenTurnRequest { key: Some(key), request_sha256: normalised_hash(content) } })
}

/// For diagnosis: the same for a request and its repetition, unless Claude Code changed what it says.
fn normalised_hash(mut content: Value) -> String {
    for block in content.as_array_mut().into_iter().flatten() {
        if let Some(block) = block.as_object_mut() {
            block.remove("cache_control");
        }
    }
    digest::digest(&content)
}

#[cfg(test)]
mod tests;
