use proptest::prelude::*;
use serde_json::json;

use super::*;

fn model() -> RouteModel {
    RouteModel { name: "deepseek-flash".into(), answers: vec!["deepseek-flash".into(), "other-flash".into()] }
}

fn credential() -> Credential {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, "sk-test-0123456789").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    Credential::read(&path).unwrap()
}

fn read(kind: &str, pieces: &[&[u8]]) -> Result<Message, AskError> {
    let (model, credential) = (model(), credential());
    let mut reader = Reader::new(kind, &model, &credential);
    for piece in pieces {
        reader.push(piece)?;
    }
    reader.finish()
}

fn stream(text: &str) -> Result<Message, AskError> {
    read("text/event-stream; charset=utf-8", &[text.as_bytes()])
}

fn event(event: &Value) -> String {
    format!("event: {}\r\ndata: {event}\r\n\r\n", event["type"].as_str().unwrap())
}

fn events(model: &str) -> Vec<Value> {
    let block = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "model": model, "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "yes"})),
        delta(0, json!({"type": "signature_delta", "signature": "s"})),
        block(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "Grüß "})),
        delta(1, json!({"type": "text_delta", "text": "Gott"})),
        block(2, json!({"type": "tool_use", "id": "call_1", "name": "Read", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"file_path\":"})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "\"/x\"}"})),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]
}

fn text(model: &str) -> String {
    events(model).iter().map(event).collect()
}

fn expected(model: &str) -> Message {
    Message {
        id: "msg_1".into(),
        model: model.into(),
        content: vec![
            json!({"type": "thinking", "thinking": "hm yes", "signature": "s"}),
            json!({"type": "text", "text": "Grüß Gott"}),
            json!({"type": "tool_use", "id": "call_1", "name": "Read", "input": {"file_path": "/x"}}),
        ],
        stop_reason: "tool_use".into(),
        usage: Usage { input_tokens: 9, output_tokens: 7 },
    }
}

#[test]
fn a_stream_and_a_whole_message_say_the_same() {
    assert_eq!(stream(&text("deepseek-flash")).unwrap(), expected("deepseek-flash"));
    let message = expected("other-flash");
    let whole = json!({"id": message.id, "model": message.model, "content": message.content, "stop_reason": "tool_use",
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 7}});
    assert_eq!(read("application/json", &[whole.to_string().as_bytes()]).unwrap(), message);
}

#[test]
fn another_model_is_a_mismatch_that_names_both_as_soon_as_it_is_known() {
    let (model, credential) = (model(), credential());
    let mut reader = Reader::new("text/event-stream", &model, &credential);
    let first = event(&events("deepseek-v4-pro")[0]);
    let Err(AskError::Model { asked, answered }) = reader.push(first.as_bytes()) else { panic!("taken") };
    assert_eq!((asked.as_str(), answered.as_str()), ("deepseek-flash", "deepseek-v4-pro"));
    for whole in
        [json!({"model": "deepseek-v4-pro", "content": []}), json!({"content": []}), json!({"model": 7})]
    {
        let found = read("application/json", &[whole.to_string().as_bytes()]);
        assert!(matches!(found, Err(AskError::Model { .. })), "{found:?}");
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_is_no_answer() {
    let whole = text("deepseek-flash");
    let last = whole.trim_end().len();
    for end in (0..last).filter(|end| whole.is_char_boundary(*end)) {
        let found = stream(&whole[..end]);
        assert!(matches!(found, Err(AskError::Cut(_))), "{end}: {found:?}");
    }
}

#[test]
fn an_error_in_the_stream_is_told_in_its_own_words_without_the_credential() {
    let mut all: String = events("deepseek-flash")[..5].iter().map(event).collect();
    all.push_str(&event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy, sk-test-0123456789\nlater"}})));
    let Err(AskError::InStream { error_type, message }) = stream(&all) else { panic!("taken") };
    assert_eq!(
        (error_type.as_deref(), message.as_str()),
        (Some("overloaded_error"), "busy, <redacted> later")
    );
}

#[test]
fn garbage_is_told_as_such() {
    for garbage in ["data: {\n\n", "data: [1,2\n\n"] {
        assert!(matches!(stream(garbage), Err(AskError::Invalid(_))), "{garbage}");
    }
    assert!(matches!(stream("<html>\n\n"), Err(AskError::Cut(_))));
    assert!(matches!(read("text/html", &[b"<html>"]), Err(AskError::Invalid(_))));
    let mut twice = events("deepseek-flash");
    twice.insert(1, twice[0].clone());
    let twice: String = twice.iter().map(event).collect();
    assert!(matches!(stream(&twice), Err(AskError::Invalid(_))));
    let mut gap = events("deepseek-flash");
    gap.remove(2);
    let gap: String = gap.iter().map(event).collect();
    assert!(matches!(stream(&gap), Err(AskError::Invalid(_))));
}

#[test]
fn a_call_whose_input_is_no_json_is_kept_as_its_text() {
    let mut odd = events("deepseek-flash");
    odd.remove(11);
    let odd: String = odd.iter().map(event).collect();
    assert_eq!(stream(&odd).unwrap().content[2]["input"], "{\"file_path\":");
}

proptest! {
    #[test]
    fn how_a_stream_is_cut_into_pieces_changes_nothing(cuts in proptest::collection::vec(0..1500usize, 0..20)) {
        let whole = text("deepseek-flash");
        let bytes = whole.as_bytes();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read("text/event-stream", &pieces).unwrap(), expected("deepseek-flash"));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), stream in any::<bool>()) {
        let kind = if stream { "text/event-stream" } else { "application/json" };
        let _ = read(kind, &[&bytes]);
    }

    #[test]
    fn no_order_of_events_makes_it_panic(order in proptest::collection::vec(0..15usize, 0..30)) {
        let all = events("deepseek-flash");
        let text: String = order.iter().map(|&at| event(&all[at])).collect();
        let _ = stream(&text);
    }
}
