//! The digest by which the executor knows that Claude Code calls a tool with the very input that was authorised.
//!
//! The input goes to Claude Code as JSON text, through a JavaScript engine, and back as JSON text. What survives that
//! exactly: strings, booleans, null, arrays, and objects up to the order of their keys; whole numbers below 2^53 up
//! to their spelling (`1.0` comes back as `1`). The digest is taken over a form that is blind to just those two.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The form the digest is taken over: sorted keys, no white space, whole numbers without a fraction.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

/// SHA-256 of [`canonical_json`], as lower-case hexadecimal text.
#[must_use]
pub fn digest(value: &Value) -> String {
    sha256_hex(canonical_json(value).as_bytes())
}

/// SHA-256 of bytes, as lower-case hexadecimal text.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            write_list(out, ['{', '}'], entries, |(key, item), out| {
                write_string(key, out);
                out.push(':');
                write_canonical(item, out);
            });
        }
        Value::Array(items) => write_list(out, ['[', ']'], items, write_canonical),
        Value::Number(number) => out.push_str(&canonical_number(number)),
        Value::String(text) => write_string(text, out),
        Value::Bool(_) | Value::Null => out.push_str(&value.to_string()),
    }
}

fn write_list<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(close);
}

fn write_string(text: &str, out: &mut String) {
    out.push_str(&Value::String(text.to_owned()).to_string());
}

fn canonical_number(number: &serde_json::Number) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn key_order_and_number_spelling_do_not_matter_and_content_does() {
        assert_eq!(
            digest(&json!({"a": 1, "b": [true, null]})),
            digest(&json!({"b": [true, null], "a": 1.0}))
        );
        assert_ne!(digest(&json!({"a": 1})), digest(&json!({"a": "1"})));
        assert_ne!(digest(&json!({"a": 1})), digest(&json!({"a": 1.5})));
        assert_eq!(canonical_json(&json!({"b": "\u{2028}\n", "a": {}})), "{\"a\":{},\"b\":\"\u{2028}\\n\"}");
    }

    proptest! {
        #[test]
        fn parsing_the_canonical_form_gives_the_same_digest(keys in proptest::collection::vec(".{0,8}", 0..6), n in any::<i32>(), s in ".*") {
            let mut map = serde_json::Map::new();
            for key in keys {
                map.insert(key, json!({"n": n, "s": s}));
            }
            let value = Value::Object(map);
            let again: Value = serde_json::from_str(&canonical_json(&value)).unwrap();
            prop_assert_eq!(digest(&value), digest(&again));
        }
    }
}
