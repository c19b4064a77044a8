//! Calls as the product makes them.

use std::time::{Duration, Instant};

use gatehouse::chatgpt::Start;
use gatehouse_tests::places::Project;
use gatehouse_tests::tunnel::Command;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::{Value, json};

use super::{Tunnel, ids, reply, tcp_profile, waiting};

/// How many calls wait in the front at the most, by default.
const WAITS: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn discovery_the_handshake_and_a_whole_session_pass_through() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let tunnel = Tunnel::start(&gateway, &tcp_profile(&gateway)).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "openai-mcp", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    // The headers of that revision may be lost on the way: the front does without them.
    let discover = json!({"jsonrpc": "2.0", "id": "openai-mcp-discover", "method": "server/discover", "params": {"_meta": meta}});
    let found = tunnel.control.result(discover).await;
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{found}");
    let hello = tunnel.message(
        "initialize",
        &json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "openai-mcp (Codex)", "version": "1.0.0"}}),
    );
    assert_eq!(tunnel.control.result(hello).await["protocolVersion"], "2025-11-25");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(tunnel.control.send(Command::jsonrpc(ready)).answer().await.kind, "notify_ack");

    let project = Project::small();
    let first = tunnel.session(&mut gateway, &Start::new("Find the word.", project.text())).await;
    let call = json!([{"name": "SearchText", "input": {"text": "quicksilver"}}]);
    let next = reply(&first, "reply-1", json!({"text": "Looking.", "tool_calls": call}));
    let second = tunnel.settle(tunnel.state("native_session_reply_and_wait", &next).await).await;
    assert_eq!(second["pending_turn"]["tool_results"][0]["ok"], true, "{second}");
    let end = reply(&second, "reply-2", json!({"text": "It is in src/main.txt."}));
    let idle = tunnel.settle(tunnel.state("native_session_reply_and_wait", &end).await).await;
    assert_eq!(
        (&idle["status"], &idle["last_result"]["text"]),
        (&json!("idle"), &json!("It is in src/main.txt."))
    );
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_long_polls_do_not_hold_up_status_reply_or_stop() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let tunnel = Tunnel::start(&gateway, &tcp_profile(&gateway)).await;
    let project = Project::small();
    let busy = tunnel.busy_session(&mut gateway, &project).await;
    let first = tunnel.session(&mut gateway, &Start::new("Another one.", project.text())).await;
    let poll = ids(&busy, json!({"wait_seconds": 50}));
    let polls: Vec<_> = (0..WAITS).map(|_| tunnel.send("native_session_status", &poll)).collect();
    gatehouse_tests::waiting::until("all of them wait", async || {
        waiting(&gateway).await.filter(|&count| count == WAITS)
    })
    .await;

    let began = Instant::now();
    let now = tunnel.state("native_session_status", &ids(&first, json!({}))).await;
    assert_eq!(now["status"], "waiting_for_gpt");
    let end = reply(&first, "reply-1", json!({"text": "Done."}));
    tunnel.state("native_session_reply_and_wait", &end).await;
    assert_eq!(tunnel.stop(&busy).await["status"], "stopped");
    assert!(began.elapsed() < Duration::from_secs(20), "they were held up: {:?}", began.elapsed());
    for poll in polls {
        let woken = super::state(&poll.answer().await);
        assert!(woken["revision"].as_u64() > busy["revision"].as_u64(), "woken by a change");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_headers_change_nothing_and_the_end_of_a_session_header_ends_no_session() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let tunnel = Tunnel::start(&gateway, &tcp_profile(&gateway)).await;
    let project = Project::small();
    let first = tunnel.session(&mut gateway, &Start::new("Stay.", project.text())).await;
    let look = tunnel
        .call("native_session_status", &ids(&first, json!({})))
        .header("Mcp-Session-Id", &["session-of-somebody"])
        .header("Authorization", &["Bearer of-a-connector"])
        .header("User-Agent", &["openai-mcp/1.0.0"])
        .header("Traceparent", &["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
        .header("X-Openai-Session", &["one", "two"]);
    let posted = tunnel.control.send(look).answer().await;
    assert_eq!(super::state(&posted)["status"], "waiting_for_gpt");

    let ended = tunnel.control.send(Command::session_termination("session-of-somebody")).answer().await;
    assert_eq!((ended.code, ended.kind.as_str()), (405, "session_termination_response"));
    let still = tunnel.state("native_session_status", &ids(&first, json!({}))).await;
    assert_eq!(still["pending_turn"]["turn_id"], first["pending_turn"]["turn_id"]);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_keeps_its_own_words_its_status_and_its_id() {
    let mut gateway = Gateway::start(Setup::without_claude()).await;
    let tunnel = Tunnel::start(&gateway, &tcp_profile(&gateway)).await;
    let refused: [(Value, u64, i64); 5] = [
        (tunnel.message("resources/list", &json!({})), 200, -32601),
        (tunnel.message("tools/call", &json!({"name": "Bash", "arguments": {}})), 200, -32602),
        (tunnel.message("tools/call", &json!({"name": 1})), 200, -32602),
        (tunnel.message("tools/list", &json!({"cursor": "x"})), 200, -32602),
        (
            json!({"jsonrpc": "2.0", "id": "x", "method": "server/discover", "params": {"_meta":
            {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}}}),
            400,
            -32022,
        ),
    ];
    for (message, status, code) in refused {
        let id = message["id"].clone();
        let posted = tunnel.control.send(Command::jsonrpc(message)).answer().await;
        assert_eq!((posted.code, &posted.json["error"]["code"]), (status, &json!(code)), "{}", posted.json);
        assert_eq!(posted.json["id"], id);
        assert!(posted.json["error"]["data"]["tunnel_failure"].is_null(), "{}", posted.json);
    }
    // A tool's own refusal is a result, and says what to do.
    let unknown = json!({"native_session_id": format!("ns_{}", "0".repeat(32)), "lease_id": format!("lease_{}", "0".repeat(32))});
    let posted = tunnel.send("native_session_status", &unknown).answer().await;
    assert!(posted.json["result"]["content"][0]["text"].as_str().unwrap().contains("unknown_session"));
    gateway.kill_executor();
    let posted = tunnel.send("native_session_status", &unknown).answer().await;
    assert!(posted.json["result"]["content"][0]["text"].as_str().unwrap().contains("executor_unavailable"));
    gateway.finish().await;
}
