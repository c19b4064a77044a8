//! Reading JSON-RPC messages strictly, and refusing with the request's id.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};

/// The requests that exist here. Everything else is refused.
pub const METHODS: [&str; 5] = ["initialize", "ping", "server/discover", "tools/list", "tools/call"];
/// What the method of every notification begins with.
const NOTIFICATIONS: &str = "notifications/";
/// How many characters of a caller's own text are repeated in an error.
const QUOTED: usize = 80;

/// The text is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// It is JSON, and no message.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters have another form.
pub const INVALID_PARAMS: i64 = -32602;
/// A fault of ours.
pub const INTERNAL_ERROR: i64 = -32603;
/// A header contradicts the message.
pub const HEADER_MISMATCH: i64 = -32020;
/// A protocol revision that is not offered.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// What HTTP refuses has the code `HTTP_REFUSAL - (status - 400)`: 401 is -32001, 413 is -32013.
pub const HTTP_REFUSAL: i64 = -32000;

/// A message that was not let through, as a JSON-RPC error and as an HTTP status.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// The HTTP status; over stdio without meaning.
    pub status: StatusCode,
    /// The JSON-RPC code.
    pub code: i64,
    /// What is wrong, and what would be right.
    pub message: Cow<'static, str>,
    /// Further facts.
    pub data: Option<Value>,
    /// The request's id, if it has one that can be repeated.
    pub id: Option<Value>,
}

impl Rejection {
    /// A rejection with a code of JSON-RPC's own or of the protocol.
    #[must_use]
    pub fn new(status: StatusCode, code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into(), data: None, id: None }
    }

    /// A rejection by HTTP's rules.
    #[must_use]
    pub fn http(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(status, HTTP_REFUSAL - i64::from(status.as_u16()) + 400, message)
    }

    fn malformed(message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
    }

    /// The same, for the request with this id.
    #[must_use]
    pub fn about(mut self, id: Option<Value>) -> Self {
        self.id = id;
        self
    }

    /// The same, with further facts.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The JSON-RPC error. The id is left out where there is none, as the protocol's latest revision has it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        match &self.id {
            Some(id) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
            None => json!({"jsonrpc": "2.0", "error": error}),
        }
    }
}

/// A message that may go on to the library.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// One of [`METHODS`].
    Request {
        /// Which.
        method: &'static str,
        /// A string or a whole number.
        id: Value,
        /// All of it.
        whole: Map<String, Value>,
    },
    /// A `notifications/…`.
    Notification {
        /// All of it.
        whole: Map<String, Value>,
    },
}

/// Reads one message.
///
/// # Errors
/// When it is not JSON, not one JSON-RPC request or notification, or names a method that does not exist here.
pub fn read(bytes: &[u8]) -> Result<Message, Rejection> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let what = format!("The message is not valid JSON: {}.", position(&error));
        Rejection::new(StatusCode::BAD_REQUEST, PARSE_ERROR, what)
    })?;
    match value {
        Value::Object(whole) => envelope(whole),
        Value::Array(_) => {
            Err(Rejection::malformed("Batches are not part of the protocol; send one message at a time."))
        }
        _ => Err(Rejection::malformed("A message is one JSON object.")),
    }
}

/// Where the fault is; serde's own text could repeat the caller's data.
fn position(error: &serde_json::Error) -> String {
    let kind = if error.is_eof() { "it ends too early" } else { "it cannot be read" };
    format!("{kind}, at line {}, column {}", error.line(), error.column())
}

fn envelope(whole: Map<String, Value>) -> Result<Message, Rejection> {
    let id = match whole.get("id") {
        None => None,
        Some(id) if repeatable(id) => Some(id.clone()),
        Some(_) => return Err(Rejection::malformed("`id` must be a string or a whole number.")),
    };
    let refuse = |message| Err(Rejection::malformed(message).about(id.clone()));
    if whole.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse("`jsonrpc` must be \"2.0\".");
    }
    let Some(method) = whole.get("method") else {
        return Err(Rejection::malformed("Only requests and notifications are taken; this has no `method`."));
    };
    let Some(method) = method.as_str() else { return refuse("`method` must be a string.") };
    if whole.get("params").is_some_and(|params| !params.is_object()) {
        return refuse("`params` must be an object.");
    }
    match (METHODS.iter().find(|known| **known == method && !withdrawn(known, &whole)), id) {
        (Some(method), Some(id)) => Ok(Message::Request { method, id, whole }),
        (None, Some(id)) => Err(not_found(method, &whole).about(Some(id))),
        (_, None) if method.starts_with(NOTIFICATIONS) => Ok(Message::Notification { whole }),
        (_, None) => Err(Rejection::malformed("A request needs an `id`; without one nothing was done.")),
    }
}

/// The latest revision has no ping.
fn withdrawn(method: &str, whole: &Map<String, Value>) -> bool {
    method == "ping" && declared_version(whole).is_some_and(|version| version >= "2026-07-28")
}

/// Whether an id is one that the protocol has: a string, or a number that every peer reads alike.
fn repeatable(id: &Value) -> bool {
    id.is_string() || id.is_i64()
}

/// The latest revision answers an unknown method with HTTP 404, the others with 200.
fn not_found(method: &str, whole: &Map<String, Value>) -> Rejection {
    let status = if declared_version(whole).is_some() { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let shown: String = method.chars().take(QUOTED).collect();
    Rejection::new(status, METHOD_NOT_FOUND, format!("There is no method `{shown}` here."))
}

/// The protocol revision that the message itself declares, as the latest revision has it.
#[must_use]
pub fn declared_version(whole: &Map<String, Value>) -> Option<&str> {
    whole.get("params")?.get("_meta")?.get("io.modelcontextprotocol/protocolVersion")?.as_str()
}

/// The id of a message that will not be read in full: cut off, malformed further on, or refused beforehand.
#[must_use]
pub fn peek_id(bytes: &[u8]) -> Option<Value> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // The reading ends in an error where the bytes end; what was found before stays.
    let _ = reader.deserialize_map(IdSeeker(&mut found));
    found.filter(repeatable)
}

struct IdSeeker<'a>(&'a mut Option<Value>);

impl<'de> Visitor<'de> for IdSeeker<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "id" {
                *self.0 = Some(map.next_value::<ShallowId>()?.0);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct ShallowId(Value);

impl<'de> Deserialize<'de> for ShallowId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if repeatable(&value) { Ok(Self(value)) } else { Err(de::Error::custom("not an id")) }
    }
}

#[cfg(test)]
mod tests;
