//! The two ports as another process meets them, which is to say: one that the relay lets through.

use std::path::Path;

use serde_json::{Value, json};

use crate::proxy::send;
use crate::shim::{Setting, Shim};

/// What only Claude Code is to know.
struct Ports {
    messages: u16,
    key: String,
    tools: u16,
    bearer: String,
}

/// The relay lets the test reach the ports, and shows the key in the shim's order; the token it reads in Claude Code's view,
/// where alone it still has a name.
async fn started() -> (Shim, Ports) {
    let mut setting = Setting::new();
    setting.relay();
    let shim = setting.start();
    shim.executor.turn(0).await;
    let order = setting.relay().order();
    let config = Path::new(&setting.plan.run_dir).join("mcp.json");
    let config = format!("/proc/{}/root{}", shim.claude().pid, config.display());
    let config: Value = serde_json::from_slice(&std::fs::read(config).unwrap()).unwrap();
    let [messages, tools] = setting.relay().ports();
    let ports = Ports {
        messages,
        key: text(&order["launch"]["env"]["ANTHROPIC_API_KEY"]),
        tools,
        bearer: config["mcpServers"]["gatehouse"]["headers"]["Authorization"].as_str().unwrap().to_owned(),
    };
    (shim, ports)
}

/// A text of an order: there each is a list of bytes, for it need not be Unicode.
fn text(value: &Value) -> String {
    let bytes: Vec<u8> = serde_json::from_value(value["Unix"].clone()).unwrap();
    String::from_utf8(bytes).unwrap()
}

async fn ask(port: u16, line: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "Host") {
        request += "Host: 127.0.0.1\r\n";
    }
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    send(port, format!("{request}\r\n{body}").as_bytes()).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn nothing_is_served_without_the_ports_own_secret_and_a_loopback_host() {
    let (_shim, ports) = started().await;
    let (key, bearer) = (ports.key.as_str(), ports.bearer.as_str());
    let as_bearer = format!("Bearer {key}");
    let bare_bearer = bearer.strip_prefix("Bearer ").unwrap();
    let lines = [
        "HEAD /api/hello",
        "POST /v1/messages?beta=true",
        "POST /v1/messages/count_tokens",
        "GET /",
        "POST /mcp",
        "GET /mcp",
    ];
    for line in lines {
        for port in [ports.messages, ports.tools] {
            assert_eq!(status(&ask(port, line, &[], "{}").await), 401, "{line}");
        }
        assert_eq!(
            status(&ask(ports.messages, line, &[("x-api-key", bare_bearer)], "{}").await),
            401,
            "{line}"
        );
        assert_eq!(
            status(&ask(ports.tools, line, &[("Authorization", &as_bearer)], "{}").await),
            401,
            "{line}"
        );
        for host in ["evil.example", "localhost", "127.0.0.1:1"] {
            assert_eq!(
                status(&ask(ports.messages, line, &[("Host", host), ("x-api-key", key)], "{}").await),
                401,
                "{line}"
            );
            assert_eq!(
                status(&ask(ports.tools, line, &[("Host", host), ("Authorization", bearer)], "{}").await),
                401,
                "{line}"
            );
        }
    }
}

#[tokio::test]
async fn the_messages_port_serves_what_claude_code_asks_for_and_404_else() {
    let (shim, ports) = started().await;
    let headers = [("x-api-key", ports.key.as_str())];
    assert_eq!(status(&ask(ports.messages, "HEAD /api/hello", &headers, "").await), 200);
    for line in [
        "GET /api/hello2",
        "GET /v1/models",
        "GET /v1/messages",
        "POST /v1/complete",
        "DELETE /",
        "POST /mcp",
    ] {
        let answer = ask(ports.messages, line, &headers, "{}").await;
        assert_eq!(status(&answer), 404, "{line}");
        assert!(answer.contains(r#""type":"not_found_error""#), "{answer}");
    }
    for body in [r#"{"messages":[{"role":"user","content":"four words of text"}]}"#, "{}", "not json", ""] {
        let answer = ask(ports.messages, "POST /v1/messages/count_tokens?beta=true", &headers, body).await;
        let counted: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert!(counted["input_tokens"].as_u64().unwrap() >= 1, "{answer}");
    }
    let large = "x".repeat(33 * 1024 * 1024);
    assert_eq!(status(&ask(ports.messages, "POST /v1/messages/count_tokens", &headers, &large).await), 413);
    shim.executor.with(|ledger| assert!(ledger.ended.is_none()));
}

#[tokio::test]
async fn the_tools_port_performs_only_what_was_authorised() {
    let (shim, ports) = started().await;
    let headers = [
        ("Authorization", ports.bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Protocol-Version", "2025-11-25"),
    ];
    let rpc = async |method: &str, params: Value| -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let answer = ask(ports.tools, "POST /mcp", &headers, &body).await;
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    };
    let listed = rpc("tools/list", json!({})).await;
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Read", "FindFiles", "Slow", "Fails"]);

    let turn = shim.executor.turn(0).await;
    shim.executor.slow_down("Slow", 600);
    let ids = shim.executor.reply(&turn, "", &[("Slow", json!({"a": 1}))]);
    shim.executor.until("the call", |ledger| (ledger.effects_of(&ids[0]) == 1).then_some(())).await;

    let call = |name: &str, id: Value, arguments: Value| json!({"name": name, "arguments": arguments, "_meta": {"claudecode/toolUseId": id}});
    for unbound in [
        call("Slow", Value::Null, json!({})),
        call("Slow", json!("toolu_x"), json!({})),
        call("Nowhere", json!(ids[0]), json!({})),
    ] {
        assert_eq!(rpc("tools/call", unbound).await["error"]["code"], -32602);
    }
    let foreign = json!(format!("toolu_{}", "0".repeat(24)));
    for refused in [
        call("Slow", foreign, json!({"a": 1})),
        call("Slow", json!(ids[0]), json!({"a": 2})),
        call("Read", json!(ids[0]), json!({"a": 1})),
    ] {
        let answer = rpc("tools/call", refused).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    assert_eq!(shim.executor.effects(&ids[0]), 1);
}
