use gatehouse_proto::v1::open_turn_request::Key;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What Claude Code 2.1.247 sent: a first request, and one with the results of two calls.
const FIRST: &str = include_str!("bodies/first.json");
const TOOL_RESULTS: &str = include_str!("bodies/tool_results.json");

fn key(body: &str, ordinal: u32) -> Result<Key, NoKey> {
    parse(body.as_bytes(), ordinal).map(|asked| asked.turn.key.unwrap())
}

fn key_of_content(content: &Value) -> Result<Key, NoKey> {
    key(&json!({"messages": [{"role": "user", "content": content}]}).to_string(), 1)
}

fn results(key: Key) -> Vec<(String, bool, String)> {
    match key {
        Key::ToolResults(set) => {
            set.results.into_iter().map(|seen| (seen.tool_call_id, seen.is_error, seen.text)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_first_request_of_the_real_claude_code_is_known_by_the_marker() {
    assert_eq!(key(FIRST, 1), Ok(Key::FirstOfRun(1)));
    assert_eq!(key(FIRST, 2), Err(NoKey::Unmarked));
    assert_eq!(key(FIRST, 11), Err(NoKey::Unmarked));
    assert_eq!(parse(FIRST.as_bytes(), 1).unwrap().form, Form::Stream);
}

#[test]
fn a_later_request_of_the_real_claude_code_is_known_by_its_tool_results() {
    let seen = results(key(TOOL_RESULTS, 1).unwrap());
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].0, "toolu_bbbbbbbbbbbbbbbbbbbbbbbb");
    assert!(seen[0].1 && seen[0].2.starts_with("<tool_use_error>"));
    assert_eq!(seen[1], ("toolu_aaaaaaaaaaaaaaaaaaaaaaaa".into(), false, "hello from tool".into()));
}

#[test]
fn a_repetition_in_another_form_with_another_date_and_other_cache_marks_has_the_same_key() {
    let mut again: Value = serde_json::from_str(FIRST).unwrap();
    again["stream"] = json!(false);
    again["messages"][0]["content"][0]["text"] = json!("<system-reminder>another date</system-reminder>");
    again["messages"][0]["content"][1].as_object_mut().unwrap().remove("cache_control");
    let again = parse(again.to_string().as_bytes(), 1).unwrap();
    assert_eq!(again.form, Form::Whole);
    assert_eq!(again.turn.key, Some(Key::FirstOfRun(1)));

    let mut marked: Value = serde_json::from_str(FIRST).unwrap();
    marked["messages"][0]["content"][1].as_object_mut().unwrap().remove("cache_control");
    let hash = |body: &str| parse(body.as_bytes(), 1).unwrap().turn.request_sha256;
    assert_eq!(hash(&marked.to_string()), hash(FIRST));
    assert_ne!(again.turn.request_sha256, hash(FIRST));
}

#[test]
fn a_prompt_that_speaks_of_markers_is_not_taken_for_one() {
    for text in [
        "see [gatehouse run 1]\nx",
        "[gatehouse run 1] x",
        "[gatehouse run 01]\nx",
        "[gatehouse run 2]\n[gatehouse run 1]\n",
    ] {
        assert_eq!(key_of_content(&json!(text)), Err(NoKey::Unmarked), "{text}");
    }
    for marked in ["[gatehouse run 1]\n", "[gatehouse run 1]", "[gatehouse run 1]\n[gatehouse run 2]\n"] {
        assert_eq!(key_of_content(&json!(marked)), Ok(Key::FirstOfRun(1)), "{marked}");
    }
    let nested = json!([{"type": "tool_result", "tool_use_id": "t", "content": "[gatehouse run 1]\n"}]);
    assert_eq!(results(key_of_content(&nested).unwrap()).len(), 1);
}

#[test]
fn what_a_cut_off_run_left_does_not_hide_the_marker_of_the_next() {
    let content = json!([
        {"type": "tool_result", "tool_use_id": "toolu_old", "content": "x"},
        {"type": "text", "text": "[Request interrupted by user]"},
        {"type": "text", "text": "[gatehouse run 1]\nnext"},
    ]);
    assert_eq!(key_of_content(&content), Ok(Key::FirstOfRun(1)));
}

#[test]
fn unknown_kinds_are_passed_over_and_an_empty_or_strange_message_has_no_key() {
    let content = json!([{"type": "hologram", "x": []}, 7, null, {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}]);
    assert_eq!(results(key_of_content(&content).unwrap()), [("t".into(), false, String::new())]);
    for strange in [json!(null), json!([]), json!(7), json!({"type": "text"})] {
        assert_eq!(key_of_content(&strange), Err(NoKey::Unmarked));
    }
    assert_eq!(key_of_content(&json!([{"type": "tool_result", "content": "x"}])), Err(NoKey::NamelessResult));
    assert_eq!(key(r#"{"messages":[]}"#, 1), Err(NoKey::NoUserMessage));
    assert_eq!(
        key(r#"{"messages":[{"role":"system","content":"[gatehouse run 1]\n"}]}"#, 1),
        Err(NoKey::NoUserMessage)
    );
    for malformed in ["", "[]", "{}", r#"{"messages":7}"#] {
        assert_eq!(key(malformed, 1), Err(NoKey::Malformed), "{malformed}");
    }
}

#[test]
fn the_texts_that_are_forwarded_are_bounded_and_never_split_a_character() {
    let long = "é".repeat(5000);
    let one = results(
        key_of_content(&json!([{"type": "tool_result", "tool_use_id": "t", "content": format!("x{long}")}]))
            .unwrap(),
    );
    assert_eq!(one[0].2.len(), 4095);
    let parts = json!([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": long}]}]);
    assert!(results(key_of_content(&parts).unwrap())[0].2.starts_with("a\né"));

    let block = |n: usize| json!({"type": "tool_result", "tool_use_id": format!("t{n}"), "content": long});
    let many = results(key_of_content(&(0..64).map(block).collect()).unwrap());
    assert!(many.iter().map(|(_, _, text)| text.len()).sum::<usize>() <= 64 * 1024);
    assert_eq!(many.len(), 64);
    assert_eq!(key_of_content(&(0..65).map(block).collect()), Err(NoKey::TooManyResults));
}

#[test]
fn the_same_result_twice_counts_once() {
    let twice = json!([
        {"type": "tool_result", "tool_use_id": "t", "content": "first"},
        {"type": "tool_result", "tool_use_id": "t", "content": "second"},
    ]);
    assert_eq!(results(key_of_content(&twice).unwrap()), [("t".into(), false, "first".into())]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("type"),
        Just("text"),
        Just("tool_result"),
        Just("tool_use_id"),
        Just("content"),
        Just("role"),
        Just("user"),
        Just("messages"),
        Just("[gatehouse run 1]\nx"),
        Just("is_error"),
        Just("stream"),
        Just("é"),
    ]
    .prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(body in any_json(), content in any_json()) {
        let _ = parse(body.to_string().as_bytes(), 1);
        let _ = key_of_content(&content);
    }

    #[test]
    fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&body, 1);
    }
}
