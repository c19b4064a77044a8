//! Everything that is refused, with its exact HTTP status and code.

use serde_json::{Value, json};

use crate::client::{Ask, MODERN, initialize, modern, refusal, request, tool};
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

/// Calls whose arguments are refused: the tool, the arguments, the field at fault, and a word of the reason.
#[test]
fn arguments_that_are_refused_by_name() {
    let front = HttpFront::start(&[]);
    let start = json!({"prompt": "p", "working_directory": "/", "idempotency_key": "0123456789abcdef"});
    let reply =
        json!({"native_session_id": "n", "lease_id": "l", "turn_id": "t", "reply_id": "r", "text": "x"});
    let status = json!({"native_session_id": "n", "lease_id": "l"});
    let stop = json!({"native_session_id": "n", "lease_id": "l", "request_id": "r"});
    let run = json!({"native_session_id": "n", "lease_id": "l", "prompt": "p", "idempotency_key": "0123456789abcdef"});
    let recover = json!({"native_session_id": "n", "recovery_token": "t", "recovery_id": "r"});
    let call = |call: Value| json!({"tool_calls": [call]});
    let skill = |skill: Value| json!({"skill_contexts": [skill]});
    let skills = |number, content: &str| json!({"skill_contexts": vec![json!({"skill_id": "s", "content": content}); number]});
    let cases = [
        ("start", &start, json!({"prompt": null}), "prompt", "null"),
        ("start", &start, json!({"prompt": ""}), "prompt", "1 to 262144 bytes"),
        ("start", &start, json!({"prompt": "ä".repeat(131_073)}), "prompt", "262146"),
        ("start", &start, json!({"prompt": 7}), "prompt", "string"),
        ("start", &start, json!({"working_directory": ""}), "working_directory", "bytes"),
        ("start", &start, json!({"idempotency_key": "short"}), "idempotency_key", "16 to 200"),
        ("start", &start, json!({"idempotency_key": "x".repeat(201)}), "idempotency_key", "201"),
        (
            "start",
            &start,
            json!({"capability_profile": "admin"}),
            "capability_profile",
            "read_only, direct_write, worktree_write",
        ),
        ("start", &start, json!({"capability_profile": null}), "capability_profile", "one of"),
        ("start", &start, json!({"subagent_policy": "all"}), "subagent_policy", "none, deepseek_explicit"),
        ("start", &start, json!({"skill_contexts": {}}), "skill_contexts", "array"),
        ("start", &start, skills(9, "x"), "skill_contexts", "at most 8"),
        ("start", &start, skills(3, &"x".repeat(65_537)), "skill_contexts", "196608"),
        ("start", &start, skill(json!("s")), "skill_contexts[0]", "object"),
        ("start", &start, skill(json!({"content": "x"})), "skill_contexts[0].skill_id", "missing"),
        (
            "start",
            &start,
            skill(json!({"skill_id": "s", "model": "m"})),
            "skill_contexts[0].model",
            "route is fixed",
        ),
        ("start", &start, json!({"session_label": "x".repeat(81)}), "session_label", "80 characters"),
        ("start", &start, json!({"wait_seconds": 51}), "wait_seconds", "0 to 50"),
        ("start", &start, json!({"wait_seconds": -1}), "wait_seconds", "0 to 50"),
        ("start", &start, json!({"wait_seconds": 1.5}), "wait_seconds", "whole number"),
        ("start", &start, json!({"wait_seconds": "30"}), "wait_seconds", "whole number"),
        ("start", &start, json!({"model": "gpt"}), "model", "route is fixed"),
        ("start", &start, json!({"provider": "x"}), "provider", "route is fixed"),
        ("start", &start, json!({"endpoint": "x"}), "endpoint", "route is fixed"),
        ("start", &start, json!({"api_key": "x"}), "api_key", "route is fixed"),
        ("start", &start, json!({"fallback": "x"}), "fallback", "route is fixed"),
        ("start", &start, json!({"Model": "x"}), "Model", "route is fixed"),
        ("start", &start, json!({"lease_id": "x"}), "lease_id", "not a field of this tool"),
        ("continue", &run, json!({"working_directory": "/"}), "working_directory", "not a field"),
        ("continue", &run, json!({"prompt": "x".repeat(262_145)}), "prompt", "262145"),
        (
            "continue",
            &run,
            json!({"capability_profile": "direct_write"}),
            "capability_profile",
            "not a field",
        ),
        ("recover", &recover, json!({"recovery_token": ""}), "recovery_token", "1 to 200"),
        ("recover", &recover, json!({"lease_id": "x"}), "lease_id", "not a field"),
        ("reply_and_wait", &reply, json!({"wait_seconds": 5}), "wait_seconds", "not a field"),
        ("reply_and_wait", &reply, json!({"text": 5}), "text", "string"),
        (
            "reply_and_wait",
            &reply,
            json!({"tool_calls": vec![json!({"name": "Read", "input": {}}); 17]}),
            "tool_calls",
            "at most 16",
        ),
        ("reply_and_wait", &reply, call(json!({"input": {}})), "tool_calls[0].name", "missing"),
        ("reply_and_wait", &reply, call(json!({"name": "Read"})), "tool_calls[0].input", "missing"),
        (
            "reply_and_wait",
            &reply,
            call(json!({"name": "Read", "input": "{}"})),
            "tool_calls[0].input",
            "object",
        ),
        (
            "reply_and_wait",
            &reply,
            call(json!({"name": "Read", "input": {}, "endpoint": "x"})),
            "tool_calls[0].endpoint",
            "route is fixed",
        ),
        (
            "reply_and_wait",
            &reply,
            call(json!({"name": "Read", "input": {}, "arguments": {}})),
            "tool_calls[0].arguments",
            "not a field",
        ),
        ("status", &status, json!({"lease_id": 7}), "lease_id", "string"),
        ("status", &status, json!({"wait_seconds": 3600}), "wait_seconds", "0 to 50"),
        ("stop", &stop, json!({"reason": "x".repeat(501)}), "reason", "500"),
        ("stop", &stop, json!({"force": true}), "force", "not a field"),
    ];
    for (name, valid, change, field, reason) in cases {
        let mut arguments = valid.clone();
        arguments.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let reply = Ask::message(&tool(&format!("native_session_{name}"), arguments)).send(&front);
        assert_eq!(reply.status, 200);
        let refusal = refusal(&reply.json()["result"]);
        assert_eq!(refusal["code"], "invalid_argument", "{name} {change}: {refusal}");
        assert_eq!(refusal["retryable"], false);
        let problems = refusal["details"]["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{name} {change}: {problems:?}");
        assert_eq!(problems[0]["field"], field);
        assert!(problems[0]["problem"].as_str().unwrap().contains(reason), "{problems:?}");
        assert!(refusal["message"].as_str().unwrap().contains(field));
    }
}

#[test]
fn all_faults_of_a_call_are_told_at_once() {
    let front = HttpFront::start(&[]);
    let mut arguments = json!({"model": "x", "lease_id": ""});
    for number in 0..30 {
        arguments[format!("extra_{number}")] = json!(1);
    }
    let reply = Ask::message(&tool("native_session_status", arguments)).send(&front);
    let refusal = refusal(&reply.json()["result"]);
    let problems = refusal["details"]["problems"].as_array().unwrap();
    let fields: Vec<_> = problems.iter().take(3).map(|problem| problem["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["native_session_id", "lease_id", "model"]);
    assert_eq!(problems.len(), 20);
    assert!(refusal["message"].as_str().unwrap().contains("13 more faults"), "{refusal}");
}

#[test]
fn refusals_with_a_code_of_their_own() {
    let front = HttpFront::start(&[]);
    let reply = |more: Value| {
        let mut arguments =
            json!({"native_session_id": "n", "lease_id": "l", "turn_id": "t", "reply_id": "r"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool("native_session_reply_and_wait", arguments)
    };
    let subagent = tool(
        "native_session_start",
        json!({"prompt": "p", "working_directory": "/", "idempotency_key": "0123456789abcdef",
               "subagent_policy": "deepseek_explicit", "capability_profile": "direct_write"}),
    );
    let half = "x".repeat(400 * 1024);
    let large = json!({"text": half, "tool_calls": [{"name": "Write", "input": {"content": half}}]});
    let cases = [
        (reply(json!({})), "invalid_argument", "text"),
        (reply(json!({"text": " \n", "tool_calls": []})), "invalid_argument", "blank"),
        (reply(large), "reply_too_large", "786432"),
        (subagent, "invalid_argument", "worktree_write"),
    ];
    for (message, code, word) in cases {
        let refusal = refusal(&Ask::message(&message).send(&front).json()["result"]);
        assert_eq!(refusal["code"], code, "{refusal}");
        assert!(refusal["message"].as_str().unwrap().contains(word), "{refusal}");
    }
}
