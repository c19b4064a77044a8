use super::*;

const ALL: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn call(version: Option<&str>) -> Message {
    let mut params = json!({"name": "native_session_status", "arguments": {}});
    if let Some(version) = version {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version});
    }
    let whole = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    jsonrpc::read(whole.to_string().as_bytes()).unwrap()
}

#[test]
fn both_media_types_must_be_acceptable_by_name_or_wildcard() {
    for good in [
        "application/json, text/event-stream",
        "*/*",
        "text/*;q=0.5, application/*",
        "TEXT/event-stream,application/json;q=x",
    ] {
        assert_eq!(
            check(&Method::POST, &map(&[("accept", good), ("content-type", "application/json")])),
            Ok(()),
            "{good}"
        );
    }
    for bad in
        ["", "application/json", "text/event-stream", "text/html", "application/json;q=0, text/event-stream"]
    {
        let refused =
            check(&Method::POST, &map(&[("accept", bad), ("content-type", "application/json")])).unwrap_err();
        assert_eq!((refused.status, refused.code), (StatusCode::NOT_ACCEPTABLE, -32006), "{bad}");
    }
}

#[test]
fn only_plain_json_is_taken() {
    let accept = ("accept", "*/*");
    for good in ["application/json", "Application/JSON; charset=utf-8"] {
        assert_eq!(check(&Method::POST, &map(&[accept, ("content-type", good)])), Ok(()));
    }
    for bad in ["text/plain", "application/json-rpc", ""] {
        assert_eq!(check(&Method::POST, &map(&[accept, ("content-type", bad)])).unwrap_err().code, -32015);
    }
    let packed = map(&[accept, ("content-type", "application/json"), ("content-encoding", "gzip")]);
    assert_eq!(check(&Method::POST, &packed).unwrap_err().code, -32015);
}

#[test]
fn absent_headers_of_the_latest_revision_are_filled_from_the_message() {
    let headers = for_library(&HeaderMap::new(), &call(Some("2026-07-28")), &ALL).unwrap();
    assert_eq!(headers.get(VERSION).unwrap(), "2026-07-28");
    assert_eq!(headers.get(METHOD).unwrap(), "tools/call");
    assert_eq!(headers.get(NAME).unwrap(), "native_session_status");
}

#[test]
fn present_headers_are_never_changed() {
    let sent = map(&[("mcp-protocol-version", "2025-11-25"), ("mcp-method", "ping"), ("mcp-name", "x")]);
    let headers = for_library(&sent, &call(Some("2026-07-28")), &ALL).unwrap();
    assert_eq!(headers.get(VERSION).unwrap(), "2025-11-25");
    assert_eq!(headers.get(METHOD).unwrap(), "ping");
    assert_eq!(headers.get(NAME).unwrap(), "x");
}

#[test]
fn requests_of_the_earlier_revisions_get_no_new_headers_and_credentials_do_not_go_on() {
    let sent = map(&[
        ("authorization", "Bearer x"),
        ("x-gatehouse-key", "k"),
        ("cookie", "c"),
        ("origin", "http://localhost"),
    ]);
    let headers = for_library(&sent, &call(None), &ALL).unwrap();
    assert_eq!(headers.len(), 3, "{headers:?}");
}

#[test]
fn a_revision_that_is_not_offered_is_refused_with_those_that_are() {
    let sent = map(&[("mcp-protocol-version", "2026-07-28")]);
    let refused = for_library(&sent, &call(None), &ALL[..2]).unwrap_err();
    assert_eq!((refused.status, refused.code), (StatusCode::BAD_REQUEST, UNSUPPORTED_VERSION));
    assert_eq!(
        refused.data,
        Some(json!({"supported": ["2025-06-18", "2025-11-25"], "requested": "2026-07-28"}))
    );
    let twice = map(&[("mcp-protocol-version", "2025-11-25"), ("mcp-protocol-version", "2025-06-18")]);
    assert_eq!(for_library(&twice, &call(None), &ALL).unwrap_err().code, HEADER_MISMATCH);
}
