//! About how many tokens a request has.

use serde_json::Value;

/// A real estimate, from whatever came: all texts of the body by the usual rule of thumb, some 4 ASCII characters or one
/// other to a token, and a little for each element around them. Never 0, and never an error: Claude Code takes both ill.
pub fn tokens(body: &[u8]) -> u64 {
    let counted = match serde_json::from_slice::<Value>(body) {
        Ok(value) => of_value(&value),
        Err(_) => of_text(&String::from_utf8_lossy(body)),
    };
    counted.quarters.div_ceil(4).max(1)
}

/// Quarters of a token.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    quarters: u64,
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        Self { quarters: counts.fold(0, |sum, count| sum.saturating_add(count.quarters)) }
    }
}

fn of_value(value: &Value) -> Count {
    match value {
        Value::String(text) => of_text(text),
        Value::Array(items) => items.iter().map(of_value).chain([element()]).sum(),
        Value::Object(map) => {
            map.iter().flat_map(|(key, item)| [of_text(key), of_value(item)]).chain([element()]).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => element(),
    }
}

fn of_text(text: &str) -> Count {
    text.chars().map(|c| Count { quarters: if c.is_ascii() { 1 } else { 4 } }).sum()
}

const fn element() -> Count {
    Count { quarters: 4 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(value: &Value) -> u64 {
        tokens(value.to_string().as_bytes())
    }

    #[test]
    fn more_text_is_more_tokens_in_any_script() {
        let body = |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": text}]});
        let english = of(&body(&"word ".repeat(1000)));
        assert!((1000..=1500).contains(&english), "{english}");
        let japanese = of(&body(&"日本".repeat(500)));
        assert!((1000..=1200).contains(&japanese), "{japanese}");
    }

    proptest! {
        #[test]
        fn anything_gets_an_estimate(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(tokens(&bytes) >= 1);
        }
    }
}
