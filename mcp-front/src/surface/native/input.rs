//! Reading a tool's arguments: one definition per field gives both the schema that is shown and the check that is made.
//!
//! All that is wrong with a call is told at once, each fault with the name of its field.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use serde_json::{Map, Value, json};

/// What a caller might try in order to choose the route.
const ROUTE_FIELDS: [&str; 5] = ["model", "provider", "endpoint", "api_key", "fallback"];
/// How many faults of one call are told.
const TOLD: usize = 20;
/// How many characters of a caller's own text are repeated in an error.
const QUOTED: usize = 80;

/// A text field.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextField {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) limits: Limits,
}

/// How long a text may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limits {
    /// In characters.
    Characters(usize, usize),
    /// In bytes of UTF-8.
    Bytes(usize, usize),
    /// Bounded elsewhere, together with other fields.
    Elsewhere,
}

/// A field with a fixed set of words; the first is the default.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChoiceField<T: 'static> {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) words: &'static [(&'static str, T)],
}

/// `wait_seconds`.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitField {
    pub(super) description: &'static str,
    pub(super) default: u32,
}

const WAIT_SECONDS: &str = "wait_seconds";
const MAX_WAIT_SECONDS: u32 = 50;

/// A list of objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListField {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) at_most: usize,
}

impl TextField {
    pub(super) fn property(&self) -> (&'static str, Value) {
        let mut schema = json!({"type": "string", "description": self.description});
        if let Limits::Characters(least, most) | Limits::Bytes(least, most) = self.limits {
            if least > 0 {
                schema["minLength"] = least.into();
            }
            schema["maxLength"] = most.into();
        }
        (self.name, schema)
    }

    fn fault(&self, text: &str) -> Option<String> {
        let (length, least, most, unit) = match self.limits {
            Limits::Characters(least, most) => (text.chars().count(), least, most, "characters"),
            Limits::Bytes(least, most) => (text.len(), least, most, "bytes"),
            Limits::Elsewhere => return None,
        };
        (length < least || length > most)
            .then(|| format!("must have {least} to {most} {unit} (it has {length})"))
    }
}

impl<T: Copy> ChoiceField<T> {
    pub(super) fn property(&self) -> (&'static str, Value) {
        let words: Vec<_> = self.words.iter().map(|(word, _)| *word).collect();
        let schema = json!({
            "type": "string", "enum": words, "default": words.first(), "description": self.description,
        });
        (self.name, schema)
    }
}

impl WaitField {
    pub(super) fn property(&self) -> (&'static str, Value) {
        let schema = json!({
            "type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": self.default,
            "description": self.description,
        });
        (WAIT_SECONDS, schema)
    }
}

impl ListField {
    pub(super) fn property(&self, item: &Map<String, Value>) -> (&'static str, Value) {
        let schema = json!({
            "type": "array", "maxItems": self.at_most, "items": item, "description": self.description,
        });
        (self.name, schema)
    }
}

/// The schema of an object with these properties and no others.
pub(super) fn object(
    properties: impl IntoIterator<Item = (&'static str, Value)>,
    required: &[&'static str],
) -> Map<String, Value> {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    schema.insert("additionalProperties".to_owned(), false.into());
    schema
}

/// The arguments of one call while they are read, and what was found wrong so far.
#[derive(Debug)]
pub(super) struct Arguments {
    given: Map<String, Value>,
    /// Where in the call we are, such as `tool_calls[2].`; empty at the top.
    place: String,
    faults: Vec<(String, String)>,
}

impl Arguments {
    pub(super) const fn new(given: Map<String, Value>) -> Self {
        Self { given, place: String::new(), faults: Vec::new() }
    }

    /// A text that must be there.
    pub(super) fn text(&mut self, field: &TextField) -> String {
        let found = self.optional_text(field);
        if found.is_none() && !self.faulted(field.name) {
            self.fault(field.name, "is missing");
        }
        found.unwrap_or_default()
    }

    /// A text that may be left out.
    pub(super) fn optional_text(&mut self, field: &TextField) -> Option<String> {
        let text = match self.given.shift_remove(field.name)? {
            Value::String(text) => text,
            other => {
                self.wrong_type(field.name, "a string", &other);
                return None;
            }
        };
        match field.fault(&text) {
            Some(fault) => {
                self.fault(field.name, fault);
                None
            }
            None => Some(text),
        }
    }

    pub(super) fn choice<T: Copy>(&mut self, field: &ChoiceField<T>) -> Option<T> {
        let default = field.words.first().map(|(_, value)| *value);
        let Some(given) = self.given.shift_remove(field.name) else { return default };
        let found = given.as_str().and_then(|text| field.words.iter().find(|(word, _)| *word == text));
        if found.is_none() {
            let words: Vec<_> = field.words.iter().map(|(word, _)| *word).collect();
            self.fault(field.name, format!("must be one of {}", words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    pub(super) fn wait(&mut self, field: &WaitField) -> u32 {
        let Some(given) = self.given.shift_remove(WAIT_SECONDS) else { return field.default };
        match whole_number(&given) {
            Some(seconds) if seconds <= MAX_WAIT_SECONDS => seconds,
            _ => {
                self.fault(WAIT_SECONDS, format!("must be a whole number from 0 to {MAX_WAIT_SECONDS}"));
                0
            }
        }
    }

    /// A JSON object, of any content, that must be there.
    pub(super) fn any_object(&mut self, name: &'static str) -> Map<String, Value> {
        match self.given.shift_remove(name) {
            Some(Value::Object(map)) => return map,
            Some(other) => self.wrong_type(name, "an object", &other),
            None => self.fault(name, "is missing"),
        }
        Map::new()
    }

    /// The items of a list, each read by `read`; what is wrong inside is told with the item's place.
    pub(super) fn list<T>(&mut self, field: &ListField, read: impl Fn(&mut Self) -> T) -> Vec<T> {
        let items = match self.given.shift_remove(field.name) {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.wrong_type(field.name, "an array", &other);
                return Vec::new();
            }
        };
        if items.len() > field.at_most {
            self.fault(
                field.name,
                format!("must have at most {} items (it has {})", field.at_most, items.len()),
            );
            return Vec::new();
        }
        items
            .into_iter()
            .enumerate()
            .filter_map(|(index, item)| self.item(field.name, index, item, &read))
            .collect()
    }

    fn item<T>(
        &mut self,
        list: &str,
        index: usize,
        item: Value,
        read: &impl Fn(&mut Self) -> T,
    ) -> Option<T> {
        let name = format!("{list}[{index}]");
        let Value::Object(given) = item else {
            self.wrong_type(&name, "an object", &item);
            return None;
        };
        let mut inner = Self { given, place: format!("{}{name}.", self.place), faults: Vec::new() };
        let value = read(&mut inner);
        inner.refuse_the_rest();
        self.faults.append(&mut inner.faults);
        Some(value)
    }

    /// Adds what is wrong with a field.
    pub(super) fn fault(&mut self, name: &str, fault: impl Into<String>) {
        self.faults.push((format!("{}{name}", self.place), fault.into()));
    }

    fn faulted(&self, name: &str) -> bool {
        let full = format!("{}{name}", self.place);
        self.faults.iter().any(|(field, _)| *field == full)
    }

    fn wrong_type(&mut self, name: &str, wanted: &str, found: &Value) {
        let fault = match found {
            Value::Null => format!("must be {wanted}; leave the field out instead of giving null"),
            Value::Bool(_) => format!("must be {wanted}, not a boolean"),
            Value::Number(_) => format!("must be {wanted}, not a number"),
            Value::String(_) => format!("must be {wanted}, not a string"),
            Value::Array(_) => format!("must be {wanted}, not an array"),
            Value::Object(_) => format!("must be {wanted}, not an object"),
        };
        self.fault(name, fault);
    }

    /// Every field that nobody asked for is refused by its name.
    fn refuse_the_rest(&mut self) {
        for (name, _) in std::mem::take(&mut self.given) {
            let fault = if ROUTE_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
                "cannot be given: the route is fixed (chatgpt-main, no fallback), and no call chooses a model, provider, \
                 endpoint, key or fallback"
            } else {
                "is not a field of this tool"
            };
            self.fault(&quoted(&name), fault);
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `invalid_argument` with everything that is wrong, and every field that does not belong.
    pub(super) fn finish(mut self, tool: &str) -> Result<(), Refusal> {
        self.refuse_the_rest();
        if self.faults.is_empty() {
            return Ok(());
        }
        let untold = self.faults.len().saturating_sub(TOLD);
        self.faults.truncate(TOLD);
        let mut said: Vec<_> = self.faults.iter().map(|(field, fault)| format!("{field} {fault}")).collect();
        if untold > 0 {
            said.push(format!("and {untold} more faults"));
        }
        let told: Vec<_> =
            self.faults.iter().map(|(field, fault)| json!({"field": field, "problem": fault})).collect();
        Err(Refusal::new(
            ErrorCode::InvalidArgument,
            format!("{tool} was not carried out: {}.", said.join("; ")),
            "Correct the named fields and call again. Nothing was changed, and no id was used up.",
        )
        .with("problems", told))
    }
}

/// 30 and 30.0 are the same number to JSON.
fn whole_number(value: &Value) -> Option<u32> {
    match value.as_u64() {
        Some(number) => u32::try_from(number).ok(),
        None => (0..=MAX_WAIT_SECONDS).find(|number| value.as_f64() == Some(f64::from(*number))),
    }
}

fn quoted(text: &str) -> String {
    if text.chars().count() <= QUOTED {
        return text.to_owned();
    }
    text.chars().take(QUOTED).chain(['…']).collect()
}
