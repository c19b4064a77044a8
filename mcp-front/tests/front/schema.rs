//! A validator for the part of JSON Schema that the front's schemas use, and the rules that they keep.

use serde_json::Value;

use crate::client::{Ask, request};
use crate::process::HttpFront;

/// What is wrong with `value`, by path.
pub fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    validate(schema, value, "$", &mut found);
    found
}

fn validate(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for keyword in schema.as_object().unwrap().keys() {
        let known = [
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "description",
            "default",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "maxItems",
        ];
        assert!(known.contains(&keyword.as_str()), "the validator does not know {keyword}");
    }
    if let Some(kind) = schema.get("type").and_then(Value::as_str) {
        let fits = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            _ => panic!("unknown type {kind}"),
        };
        if !fits {
            found.push(format!("{at} is not a {kind}: {value}"));
            return;
        }
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        found.push(format!("{at} is none of {words:?}"));
    }
    if let Some(map) = value.as_object() {
        let properties = schema.get("properties").and_then(Value::as_object);
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if !map.contains_key(name.as_str().unwrap()) {
                found.push(format!("{at}.{name} is missing"));
            }
        }
        for (name, item) in map {
            match properties.and_then(|properties| properties.get(name)) {
                Some(schema) => validate(schema, item, &format!("{at}.{name}"), found),
                None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                    found.push(format!("{at}.{name} is unknown"));
                }
                None => {}
            }
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            validate(schema, item, &format!("{at}[{index}]"), found);
        }
    }
}

/// Walks every schema in a schema.
fn each(schema: &Value, visit: &mut impl FnMut(&Value, &str), at: &str) {
    visit(schema, at);
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        each(inner, visit, &format!("{at}.{name}"));
    }
    if let Some(items) = schema.get("items") {
        each(items, visit, &format!("{at}[]"));
    }
}

#[test]
fn the_schemas_use_only_what_every_client_understands() {
    let front = HttpFront::start(&[]);
    let listed = Ask::message(&request("tools/list", serde_json::json!({}))).send(&front).json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 6);
    for tool in tools {
        for which in ["inputSchema", "outputSchema"] {
            let schema = &tool[which];
            assert_eq!(schema["type"], "object");
            let text = schema.to_string();
            for avoided in [
                "$ref",
                "$defs",
                "oneOf",
                "anyOf",
                "allOf",
                "nullable",
                "format",
                "null,",
                ":null",
                "prefixItems",
            ] {
                assert!(
                    !text.contains(&format!("\"{avoided}\"")) && !text.contains(":null"),
                    "{avoided} in {text}"
                );
            }
            each(
                schema,
                &mut |inner, at| {
                    let named = at.rsplit('.').next().unwrap() != "$" && !at.ends_with("[]");
                    assert!(
                        !named || inner["description"].is_string(),
                        "{at} of {} says nothing",
                        tool["name"]
                    );
                    if which == "inputSchema" && inner["type"] == "object" && !at.ends_with(".input") {
                        assert_eq!(inner["additionalProperties"], false, "{at} of {} is open", tool["name"]);
                    }
                },
                "$",
            );
        }
        assert_eq!(tool["outputSchema"], tools[0]["outputSchema"], "one output schema for all");
    }
}
