//! Everything that is refused, with its exact HTTP status and code.

use serde_json::{Value, json};

use crate::client::{Ask, MODERN, initialize, modern, request, tool};
use crate::process::{HttpFront, KEY};

/// What is asked, and what comes back: the HTTP status, the JSON-RPC code, and whether the request's id is repeated.
struct Case(&'static str, Ask, u16, i64, Id);

#[derive(Clone, Copy, PartialEq)]
enum Id {
    Repeated,
    None,
}

fn check(front: &HttpFront, cases: Vec<Case>) {
    for Case(name, ask, status, code, id) in cases {
        let reply = ask.send(front);
        assert_eq!(reply.status, status, "{name}: {reply:?}");
        assert_eq!(reply.header("content-type").as_deref(), Some("application/json"), "{name}");
        assert_eq!(reply.header("www-authenticate"), None, "{name}");
        let json = reply.json();
        assert_eq!(json["jsonrpc"], "2.0", "{name}");
        assert_eq!(json["error"]["code"], code, "{name}: {json}");
        let message = json["error"]["message"].as_str().unwrap();
        assert!(message.len() > 10 && !message.contains(KEY), "{name}: {message}");
        let wanted = if id == Id::Repeated { json!("t-1") } else { Value::Null };
        assert_eq!(json["id"], wanted, "{name}");
    }
}

fn list() -> Value {
    request("tools/list", json!({}))
}

#[test]
fn methods_that_do_not_exist_here() {
    let front = HttpFront::start(&[]);
    let methods = [
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "tasks/list",
        "tasks/get",
        "tasks/cancel",
        "subscriptions/listen",
        "skills/list",
        "tools/Call",
        "TOOLS/LIST",
        "foo/bar",
        "",
        "notifications/initialized",
        "rpc.discover",
    ];
    let mut cases = Vec::new();
    for method in methods {
        cases.push(Case(method, Ask::message(&request(method, json!({}))), 200, -32601, Id::Repeated));
        cases.push(Case(method, Ask::message(&modern(method, json!({}))), 404, -32601, Id::Repeated));
    }
    cases.push(Case(
        "ping is gone in 2026",
        Ask::message(&modern("ping", json!({}))),
        404,
        -32601,
        Id::Repeated,
    ));
    check(&front, cases);
}

#[test]
fn tools_that_do_not_exist_here() {
    let front = HttpFront::start(&[]);
    let tools = [
        "Read",
        "FindFiles",
        "SearchText",
        "Edit",
        "Write",
        "NotebookEdit",
        "RunCommand",
        "Bash",
        "Task",
        "Agent",
        "WebSearch",
        "WebFetch",
        "mcp__gatehouse__Read",
        "deepseek_subagent_start",
        "native_session_delete",
        "native_session",
        "Native_Session_Start",
        "delegate",
        "",
        "native_session_start ",
    ];
    let mut cases = Vec::new();
    for name in tools {
        cases.push(Case(name, Ask::message(&tool(name, json!({}))), 200, -32602, Id::Repeated));
    }
    cases.push(Case("no name", Ask::message(&request("tools/call", json!({}))), 200, -32602, Id::Repeated));
    cases.push(Case(
        "a number as name",
        Ask::message(&request("tools/call", json!({"name": 7}))),
        200,
        -32602,
        Id::Repeated,
    ));
    let list = request("tools/call", json!({"name": "native_session_status", "arguments": []}));
    cases.push(Case("arguments as a list", Ask::message(&list), 200, -32602, Id::Repeated));
    cases.push(Case(
        "a cursor",
        Ask::message(&request("tools/list", json!({"cursor": "x"}))),
        200,
        -32602,
        Id::Repeated,
    ));
    cases.push(Case(
        "initialize without its parameters",
        Ask::message(&request("initialize", json!({}))),
        200,
        -32602,
        Id::Repeated,
    ));
    let meta = request("tools/list", json!({"_meta": 7}));
    cases.push(Case("_meta as a number", Ask::message(&meta), 200, -32602, Id::Repeated));
    check(&front, cases);
}

#[test]
fn messages_that_are_none() {
    let front = HttpFront::start(&[]);
    let cases = vec![
        Case("nothing", Ask::post(""), 400, -32700, Id::None),
        Case("half a message", Ask::post(r#"{"jsonrpc":"2.0","id":"t-1""#), 400, -32700, Id::None),
        Case(
            "not UTF-8",
            Ask::post(b"{\"jsonrpc\":\"2.0\",\"id\":\"t-1\",\"method\":\"\xff\"}"),
            400,
            -32700,
            Id::None,
        ),
        Case("two messages", Ask::post(format!("{0}\n{0}", list())), 400, -32700, Id::None),
        Case("too deep", Ask::post("[".repeat(100_000)), 400, -32700, Id::None),
        Case("an empty batch", Ask::post("[]"), 400, -32600, Id::None),
        Case("a batch", Ask::post(format!("[{0},{0}]", list())), 400, -32600, Id::None),
        Case("a string", Ask::post("\"tools/list\""), 400, -32600, Id::None),
        Case("no version", Ask::message(&json!({"id": "t-1", "method": "ping"})), 400, -32600, Id::Repeated),
        Case(
            "version 1.0",
            Ask::message(&json!({"jsonrpc": "1.0", "id": "t-1", "method": "ping"})),
            400,
            -32600,
            Id::Repeated,
        ),
        Case(
            "id null",
            Ask::message(&json!({"jsonrpc": "2.0", "id": null, "method": "ping"})),
            400,
            -32600,
            Id::None,
        ),
        Case(
            "id an object",
            Ask::message(&json!({"jsonrpc": "2.0", "id": {}, "method": "ping"})),
            400,
            -32600,
            Id::None,
        ),
        Case(
            "id a fraction",
            Ask::message(&json!({"jsonrpc": "2.0", "id": 0.5, "method": "ping"})),
            400,
            -32600,
            Id::None,
        ),
        Case(
            "no id",
            Ask::message(&json!({"jsonrpc": "2.0", "method": "tools/call"})),
            400,
            -32600,
            Id::None,
        ),
        Case("no method", Ask::message(&json!({"jsonrpc": "2.0", "id": "t-1"})), 400, -32600, Id::None),
        Case(
            "a response",
            Ask::message(&json!({"jsonrpc": "2.0", "id": "t-1", "result": {}})),
            400,
            -32600,
            Id::None,
        ),
        Case("parameters as a list", Ask::message(&request("ping", json!([]))), 400, -32600, Id::Repeated),
        Case("parameters null", Ask::message(&request("ping", json!(null))), 400, -32600, Id::Repeated),
    ];
    check(&front, cases);
}

#[test]
fn requests_that_break_https_rules() {
    let front = HttpFront::start(&[]);
    let ask = || Ask::message(&list());
    let cases = vec![
        Case("no key", ask().without("X-Gatehouse-Key"), 401, -32001, Id::Repeated),
        Case("a wrong key", ask().with("X-Gatehouse-Key", "wrong"), 401, -32001, Id::Repeated),
        Case("a key too many", ask().and("X-Gatehouse-Key", KEY), 401, -32001, Id::Repeated),
        Case(
            "a wrong scheme",
            ask().without("X-Gatehouse-Key").with("Authorization", "Basic eA=="),
            401,
            -32001,
            Id::Repeated,
        ),
        Case("no key, GET", Ask::get("/mcp").without("X-Gatehouse-Key"), 401, -32001, Id::None),
        Case(
            "metrics without the key",
            Ask::get("/metrics").without("X-Gatehouse-Key"),
            401,
            -32001,
            Id::None,
        ),
        Case("a foreign host", ask().with("Host", "example.com"), 403, -32003, Id::Repeated),
        Case(
            "a host that resolves here",
            ask().with("Host", "127.0.0.1.nip.io:80"),
            403,
            -32003,
            Id::Repeated,
        ),
        Case("a foreign page", ask().with("Origin", "https://example.com"), 403, -32003, Id::Repeated),
        Case("a page from nowhere", ask().with("Origin", "null"), 403, -32003, Id::Repeated),
        Case(
            "two origins",
            ask().with("Origin", "http://localhost:1").and("Origin", "http://localhost:1"),
            403,
            -32003,
            Id::Repeated,
        ),
        Case(
            "a foreign page at /metrics",
            Ask::get("/metrics").with("Origin", "https://example.com"),
            403,
            -32003,
            Id::None,
        ),
        Case("another path", ask().to("/"), 404, -32004, Id::Repeated),
        Case("a path below", ask().to("/mcp/"), 404, -32004, Id::Repeated),
        Case("a doubled slash", ask().to("//mcp"), 404, -32004, Id::Repeated),
        Case("the path of old", ask().to("/sse"), 404, -32004, Id::Repeated),
        Case("GET", Ask::get("/mcp").with("Accept", "text/event-stream"), 405, -32005, Id::None),
        Case("DELETE", Ask::get("/mcp").method("DELETE"), 405, -32005, Id::None),
        Case("PUT", ask().method("PUT"), 405, -32005, Id::Repeated),
        Case("OPTIONS", Ask::get("/mcp").method("OPTIONS"), 405, -32005, Id::None),
        Case("no Accept", ask().without("Accept"), 406, -32006, Id::Repeated),
        Case("JSON alone", ask().with("Accept", "application/json"), 406, -32006, Id::Repeated),
        Case(
            "the tunnel's empty probe",
            Ask::post("").without("Accept").without("Content-Type"),
            406,
            -32006,
            Id::None,
        ),
        Case("plain text", ask().with("Content-Type", "text/plain"), 415, -32015, Id::Repeated),
        Case("no type", ask().without("Content-Type"), 415, -32015, Id::Repeated),
        Case("packed", ask().with("Content-Encoding", "gzip"), 415, -32015, Id::Repeated),
    ];
    check(&front, cases);
    assert_eq!(Ask::get("/mcp").send(&front).header("allow").as_deref(), Some("POST"));
}

#[test]
fn requests_that_break_the_revisions_rules() {
    let front = HttpFront::start(&[]);
    let version = "MCP-Protocol-Version";
    let latest = || Ask::message(&modern("tools/list", json!({})));
    let mut bare = modern("tools/list", json!({}));
    bare["params"]["_meta"]
        .as_object_mut()
        .unwrap()
        .shift_remove("io.modelcontextprotocol/clientCapabilities");
    let mut unknown = modern("tools/list", json!({}));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let called = modern("tools/call", json!({"name": "native_session_status", "arguments": {}}));
    let cases = vec![
        Case(
            "an unknown revision",
            Ask::message(&list()).with(version, "2031-01-01"),
            400,
            -32022,
            Id::Repeated,
        ),
        Case(
            "a revision too old",
            Ask::message(&list()).with(version, "2024-11-05"),
            400,
            -32022,
            Id::Repeated,
        ),
        Case("no revision at all", Ask::message(&list()).with(version, "x"), 400, -32022, Id::Repeated),
        Case("two revisions", latest().with(version, MODERN).and(version, MODERN), 400, -32020, Id::Repeated),
        Case("an unknown revision inside", Ask::message(&unknown), 400, -32022, Id::Repeated),
        Case("header and message differ", latest().with(version, "2025-11-25"), 400, -32020, Id::Repeated),
        Case(
            "header without the message's half",
            Ask::message(&list()).with(version, MODERN),
            400,
            -32602,
            Id::Repeated,
        ),
        Case("no capabilities", Ask::message(&bare), 400, -32602, Id::Repeated),
        Case(
            "another method in the header",
            latest().with("Mcp-Method", "tools/call"),
            400,
            -32020,
            Id::Repeated,
        ),
        Case(
            "another tool in the header",
            Ask::message(&called).with("Mcp-Name", "Read"),
            400,
            -32020,
            Id::Repeated,
        ),
        Case(
            "initialize with another revision",
            Ask::message(&initialize("2025-11-25")).with(version, "2025-06-18"),
            400,
            -32600,
            Id::Repeated,
        ),
        Case(
            "discover without its metadata",
            Ask::message(&request("server/discover", json!({}))),
            400,
            -32602,
            Id::Repeated,
        ),
    ];
    check(&front, cases);
}

#[test]
fn a_message_that_is_too_large_is_refused_with_its_id() {
    let front = HttpFront::start(&[]);
    let large = tool("native_session_start", json!({"prompt": "x".repeat(6 * 1024 * 1024)}));
    check(&front, vec![Case("too large", Ask::message(&large), 413, -32013, Id::Repeated)]);
}
