//! One table per tool says what its input is: the schema is made from it, and every call is held against it.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The longest path that an input may hold, in bytes; the systems we run on take no more.
pub(super) const MAX_PATH_BYTES: usize = 4096;

/// Why an input does not fit its tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .field.as_ref().map(|f| format!("{f}: ")).unwrap_or_default())]
pub struct InputFault {
    /// The field at fault; `None` when the input as a whole is.
    pub field: Option<String>,
    /// What is wrong, in a sentence.
    pub problem: String,
}

impl InputFault {
    pub(super) fn at(field: &str, problem: impl Into<String>) -> Self {
        Self { field: Some(field.to_owned()), problem: problem.into() }
    }
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// An absolute path.
    Path,
    /// Text of so many bytes, in one line.
    Line { min: usize, max: usize },
    /// Text of so many bytes, of any number of lines.
    Text { min: usize, max: usize },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A SHA-256 in hexadecimal.
    Sha256,
    /// A cursor: text of at most so many bytes.
    Cursor { max: usize },
    /// A whole number.
    Integer { min: u64, max: u64, default: Option<u64> },
    /// true or false; false when left out.
    Flag,
    /// A list of so many strings, with at most so many bytes in all; no NUL, for they are arguments.
    Strings { min: usize, max: usize, bytes: usize },
    /// At most so many environment variables of at most so many bytes each.
    Variables { max: usize, bytes: usize },
}

/// Whether a field can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
}

/// One field of a tool's input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub name: &'static str,
    pub need: Need,
    pub kind: Kind,
    pub description: &'static str,
}

/// The JSON schema of an input.
pub(super) fn schema(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|f| (f.name.to_owned(), property(f))).collect();
    let required: Vec<_> = fields.iter().filter(|f| f.need == Need::Required).map(|f| f.name).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required})
}

fn property(field: &Field) -> Value {
    let description = field.description;
    match field.kind {
        Kind::Path => {
            json!({"type": "string", "minLength": 1, "maxLength": MAX_PATH_BYTES, "description": description})
        }
        Kind::Line { min, max } => {
            json!({"type": "string", "minLength": min.min(1), "maxLength": max, "description": description})
        }
        Kind::Cursor { max } => {
            json!({"type": "string", "minLength": 1, "maxLength": max, "description": description})
        }
        Kind::Text { min, max } => {
            json!({"type": "string", "minLength": min.min(1), "maxLength": max, "description": description})
        }
        Kind::Choice(words) => json!({"type": "string", "enum": words, "description": description}),
        Kind::Sha256 => {
            json!({"type": "string", "pattern": "^[0-9a-fA-F]{64}$", "description": description})
        }
        Kind::Integer { min, max, default: None } => {
            json!({"type": "integer", "minimum": min, "maximum": max, "description": description})
        }
        Kind::Integer { min, max, default: Some(default) } => {
            json!({"type": "integer", "minimum": min, "maximum": max, "default": default, "description": description})
        }
        Kind::Flag => json!({"type": "boolean", "default": false, "description": description}),
        Kind::Strings { min, max, .. } => {
            json!({"type": "array", "items": {"type": "string"}, "minItems": min, "maxItems": max, "description": description})
        }
        Kind::Variables { max, .. } => {
            json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": max, "description": description})
        }
    }
}

/// Holds an input against its table and gives it its type.
pub(super) fn checked<T: DeserializeOwned>(fields: &[Field], input: &Value) -> Result<T, InputFault> {
    let Value::Object(given) = input else {
        return Err(InputFault { field: None, problem: "the input must be a JSON object".to_owned() });
    };
    if let Some(unknown) = given.keys().find(|name| !fields.iter().any(|f| f.name == name.as_str())) {
        let known = fields.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
        return Err(InputFault::at(&cut(unknown), format!("there is no such field; the fields are {known}")));
    }
    let mut clean = Map::new();
    for field in fields {
        match given.get(field.name) {
            Some(value) => {
                clean.insert(field.name.to_owned(), checked_field(field, value)?);
            }
            None if field.need == Need::Required => return Err(InputFault::at(field.name, "is missing")),
            None => {}
        }
    }
    serde_json::from_value(Value::Object(clean))
        .map_err(|error| InputFault { field: None, problem: error.to_string() })
}

/// A name that came from outside, short enough to repeat.
fn cut(name: &str) -> String {
    name.chars().take(60).collect()
}

fn checked_field(field: &Field, value: &Value) -> Result<Value, InputFault> {
    let wrong = |problem: String| Err(InputFault::at(field.name, problem));
    match (field.kind, value) {
        (Kind::Path, Value::String(text)) => checked_path(text).map_or_else(wrong, |()| Ok(value.clone())),
        (Kind::Line { min, max }, Value::String(text)) => {
            checked_line(text, min, max).map_or_else(wrong, |()| Ok(value.clone()))
        }
        (Kind::Text { min, max }, Value::String(text)) => {
            if (min..=max).contains(&text.len()) {
                Ok(value.clone())
            } else {
                wrong(format!("must have {min} to {max} bytes, it has {}", text.len()))
            }
        }
        (Kind::Choice(words), Value::String(text)) => {
            if words.contains(&text.as_str()) {
                Ok(value.clone())
            } else {
                wrong(format!("must be one of {}", words.join(", ")))
            }
        }
        (Kind::Sha256, Value::String(text)) => {
            if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                Ok(Value::String(text.to_ascii_lowercase()))
            } else {
                wrong("must be the 64 hexadecimal digits of a SHA-256".to_owned())
            }
        }
        (Kind::Cursor { max }, Value::String(text)) => {
            if text.len() <= max {
                Ok(value.clone())
            } else {
                wrong("is too long to be a cursor".to_owned())
            }
        }
        (Kind::Integer { min, max, .. }, Value::Number(number)) => match whole(number) {
            Some(n) if (min..=max).contains(&n) => Ok(Value::from(n)),
            _ => wrong(format!("must be a whole number from {min} to {max}")),
        },
        (Kind::Flag, Value::Bool(_)) => Ok(value.clone()),
        (Kind::Strings { min, max, bytes }, Value::Array(items)) => {
            checked_strings(items, min, max, bytes).map_or_else(wrong, |()| Ok(value.clone()))
        }
        (Kind::Variables { max, bytes }, Value::Object(variables)) => {
            checked_variables(variables, max, bytes).map_or_else(wrong, |()| Ok(value.clone()))
        }
        (Kind::Strings { .. }, _) => wrong("must be a list of strings".to_owned()),
        (Kind::Variables { .. }, _) => wrong("must be an object of strings".to_owned()),
        (
            Kind::Path
            | Kind::Line { .. }
            | Kind::Text { .. }
            | Kind::Choice(_)
            | Kind::Sha256
            | Kind::Cursor { .. },
            _,
        ) => wrong("must be a string".to_owned()),
        (Kind::Integer { .. }, _) => wrong("must be a whole number".to_owned()),
        (Kind::Flag, _) => wrong("must be true or false".to_owned()),
    }
}

/// A JSON number without a fraction; `1.0` is 1, for a client's JSON library may write it so.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "in range, checked one line above"
)]
fn whole(number: &serde_json::Number) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && (0.0..EXACT).contains(&float)).then_some(float as u64)
    })
}

fn checked_path(text: &str) -> Result<(), String> {
    if !text.starts_with('/') {
        return Err("must be an absolute path (begin with /)".to_owned());
    }
    if text.contains('\0') {
        return Err("must not contain a NUL character".to_owned());
    }
    if text.len() > MAX_PATH_BYTES {
        return Err(format!("must not be longer than {MAX_PATH_BYTES} bytes"));
    }
    Ok(())
}

fn checked_line(text: &str, min: usize, max: usize) -> Result<(), String> {
    if text.len() < min || text.len() > max {
        return Err(format!("must have {min} to {max} bytes, it has {}", text.len()));
    }
    if text.contains(['\n', '\r']) {
        return Err("must be one line, without line breaks".to_owned());
    }
    Ok(())
}

fn checked_strings(items: &[Value], min: usize, max: usize, bytes: usize) -> Result<(), String> {
    if items.len() < min || items.len() > max {
        return Err(format!("must have {min} to {max} items, it has {}", items.len()));
    }
    let mut total = 0;
    for (place, item) in items.iter().enumerate() {
        let Value::String(text) = item else { return Err(format!("item {place} must be a string")) };
        if text.contains('\0') {
            return Err(format!("item {place} must not contain a NUL character"));
        }
        total += text.len();
    }
    if total > bytes {
        return Err(format!("must have at most {bytes} bytes in all, it has {total}"));
    }
    Ok(())
}

fn checked_variables(variables: &Map<String, Value>, max: usize, bytes: usize) -> Result<(), String> {
    if variables.len() > max {
        return Err(format!("must have at most {max} variables, it has {}", variables.len()));
    }
    for (name, value) in variables {
        let name = cut(name);
        let Value::String(text) = value else { return Err(format!("`{name}` must be a string")) };
        if text.contains('\0') || text.len() > bytes {
            return Err(format!("`{name}` must have at most {bytes} bytes and no NUL character"));
        }
    }
    Ok(())
}
