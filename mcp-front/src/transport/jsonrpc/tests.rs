use proptest::prelude::*;

use super::*;

fn rejected(text: &str) -> Rejection {
    read(text.as_bytes()).unwrap_err()
}

#[test]
fn the_five_methods_and_all_notifications_pass() {
    for method in METHODS {
        let text = json!({"jsonrpc": "2.0", "id": "a", "method": method}).to_string();
        assert!(
            matches!(read(text.as_bytes()), Ok(Message::Request { method: found, .. }) if found == method)
        );
    }
    let text = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert!(matches!(read(text.as_bytes()), Ok(Message::Notification { .. })));
}

#[test]
fn every_malformed_message_has_its_code_and_its_id() {
    let cases = [
        ("", PARSE_ERROR, None),
        ("{", PARSE_ERROR, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, PARSE_ERROR, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, PARSE_ERROR, None),
        ("[]", INVALID_REQUEST, None),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, INVALID_REQUEST, None),
        ("null", INVALID_REQUEST, None),
        ("7", INVALID_REQUEST, None),
        (r#"{"id":7,"method":"ping"}"#, INVALID_REQUEST, Some(json!(7))),
        (r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#, INVALID_REQUEST, Some(json!("x"))),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, INVALID_REQUEST, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, INVALID_REQUEST, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","method":"tools/call"}"#, INVALID_REQUEST, None),
        (r#"{"jsonrpc":"2.0","id":-3,"method":"resources/list"}"#, METHOD_NOT_FOUND, Some(json!(-3))),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}"#,
            METHOD_NOT_FOUND,
            Some(json!(1)),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Tools/List"}"#, METHOD_NOT_FOUND, Some(json!(1))),
    ];
    for (text, code, id) in cases {
        let found = rejected(text);
        assert_eq!((found.code, found.id), (code, id), "{text}");
    }
}

#[test]
fn nesting_beyond_any_use_is_refused_and_not_followed() {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}1{}}}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    assert_eq!(rejected(&deep).code, PARSE_ERROR);
}

#[test]
fn an_unknown_method_is_404_only_for_callers_of_the_latest_revision() {
    let modern = json!({"jsonrpc": "2.0", "id": 1, "method": "x",
        "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}});
    assert_eq!(rejected(&modern.to_string()).status, StatusCode::NOT_FOUND);
    assert_eq!(rejected(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#).status, StatusCode::OK);
}

#[test]
fn an_id_is_found_in_what_was_cut_off() {
    assert_eq!(
        peek_id(br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"x":"yyy"#),
        Some(json!("a"))
    );
    assert_eq!(peek_id(br#"{"params":{"id":1},"id":2"#), Some(json!(2)));
    for none in ["", "[1]", r#"{"params":{"id":1}"#, r#"{"id":null"#, r#"{"id":[1]}"#, r#"{"id":"#] {
        assert_eq!(peek_id(none.as_bytes()), None, "{none}");
    }
}

#[test]
fn http_refusals_have_codes_in_the_free_range() {
    assert_eq!(Rejection::http(StatusCode::UNAUTHORIZED, "x").code, -32001);
    assert_eq!(Rejection::http(StatusCode::UNSUPPORTED_MEDIA_TYPE, "x").code, -32015);
    assert_eq!(Rejection::http(StatusCode::BAD_REQUEST, "x").to_json()["error"]["code"], -32000);
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_a_rejection(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = peek_id(&bytes);
        if let Err(rejection) = read(&bytes) {
            prop_assert!(rejection.to_json()["error"]["code"].is_i64());
        }
    }

    #[test]
    fn the_id_that_is_peeked_at_is_the_id_that_is_read(id in "[a-z0-9]{0,12}", cut in 0usize..30) {
        let text = json!({"jsonrpc": "2.0", "id": id, "method": "nothing", "params": {"long": "x".repeat(40)}}).to_string();
        prop_assert_eq!(peek_id(&text.as_bytes()[..text.len() - cut]), rejected(&text).id);
    }
}
