//! How the front begins and ends, and what it serves beside the protocol.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use gatehouse_proto::v1::{Contact, SessionStatus};
use serde_json::json;

use crate::client::{Ask, initialize, request, tool};
use crate::executor::{Answer, Executor, session};
use crate::process::{HttpFront, KEY, command, key_file};

#[test]
fn a_tunnel_learns_that_there_is_no_log_in() {
    let front = HttpFront::start(&[]);
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let asks = [
            Ask::get(path),
            Ask::get(path).without("X-Gatehouse-Key"),
            Ask::get(path).with("Host", "example.com").with("Origin", "https://example.com"),
            Ask::post("{}").to(path).without("X-Gatehouse-Key"),
        ];
        for ask in asks {
            let reply = ask.send(&front);
            assert_eq!((reply.status, reply.header("www-authenticate")), (404, None), "{ask:?}");
            assert!(!reply.body.contains("jsonrpc"), "{reply:?}");
        }
    }
}

#[test]
fn health_tells_nothing_but_health_and_needs_no_key() {
    let front = HttpFront::start(&[]);
    let _executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
    let asked = |path: &str| Ask::get(path).without("X-Gatehouse-Key").send(&front);
    assert_eq!((asked("/healthz").status, asked("/healthz").body.as_str()), (200, "ok\n"));
    assert_eq!((asked("/readyz").status, asked("/readyz").body.as_str()), (200, "ready\n"));
}

#[test]
fn metrics_count_requests_tools_and_refusals() {
    let front = HttpFront::start(&[]);
    let _executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
    let ids = json!({"native_session_id": "ns_1", "lease_id": "lease_1"});
    Ask::message(&tool("native_session_status", ids)).send(&front);
    Ask::message(&tool("native_session_status", json!({}))).send(&front);
    Ask::message(&tool("Read", json!({}))).send(&front);
    Ask::post("x").send(&front);
    let reply = Ask::get("/metrics").send(&front);
    assert!(reply.header("content-type").unwrap().starts_with("text/plain"), "{reply:?}");
    for line in [
        "gatehouse_front_requests_total{method=\"tools/call\",outcome=\"200\"} 3",
        "gatehouse_front_requests_total{method=\"-\",outcome=\"400\"} 1",
        "gatehouse_front_tool_calls_total{tool=\"native_session_status\",outcome=\"ok\"} 1",
        "gatehouse_front_tool_calls_total{tool=\"native_session_status\",outcome=\"invalid_argument\"} 1",
        "gatehouse_front_refusals_total{layer=\"protocol\",code=\"parse_error\"} 1",
        "gatehouse_front_refusals_total{layer=\"protocol\",code=\"unknown_tool\"} 1",
        "gatehouse_front_waiting_polls 0",
        "gatehouse_front_executor_up 1\ngatehouse_turns_total 7",
    ] {
        assert!(reply.body.contains(&format!("{line}\n")), "{line} not in\n{}", reply.body);
    }
}

#[test]
fn the_executor_is_told_what_reached_the_front_but_not_what_a_probe_sent() {
    let front = HttpFront::start(&[]);
    let executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    Ask::message(&list).with("X-Gatehouse-Probe", "doctor").send(&front);
    Ask::post("x").with("X-Gatehouse-Probe", "doctor").send(&front);
    Ask::message(&tool("native_session_status", json!({}))).send(&front);
    let seen = told(&executor, |seen| seen.refusal.is_some());
    assert_eq!(seen.refusal.unwrap().what, "invalid_argument");
    assert_eq!(seen.request.unwrap().what, "native_session_status");
    assert_eq!((seen.listed, seen.tools_sha256.len()), (None, 64));
    Ask::message(&list).send(&front);
    let seen = told(&executor, |seen| seen.listed.is_some());
    assert_eq!(seen.listed.unwrap().what, seen.tools_sha256);
}

/// What the executor was told, once it is enough.
fn told(executor: &Executor, enough: impl Fn(&Contact) -> bool) -> Contact {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let seen = executor.contact();
        if enough(&seen) {
            return seen;
        }
        assert!(std::time::Instant::now() < until, "not told in time: {seen:?}");
        std::thread::yield_now();
    }
}

#[test]
fn notifications_are_taken_and_not_answered() {
    let front = HttpFront::start(&[]);
    for method in [
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/new",
    ] {
        let reply = Ask::message(&json!({"jsonrpc": "2.0", "method": method, "params": {}})).send(&front);
        assert_eq!((reply.status, reply.body.as_str()), (202, ""), "{method}");
    }
}

#[test]
fn ids_of_every_kind_come_back_as_they_are() {
    let front = HttpFront::start(&[]);
    for id in [
        json!(0),
        json!(1),
        json!(-7),
        json!(""),
        json!("openai-mcp-discover"),
        json!("日本"),
        json!(i64::MAX),
    ] {
        let mut message = request("ping", json!({}));
        message["id"] = id.clone();
        assert_eq!(
            Ask::message(&message).send(&front).json(),
            json!({"jsonrpc": "2.0", "id": id, "result": {}})
        );
    }
}

#[test]
fn pages_of_this_machine_and_the_bearer_form_of_the_key_are_let_in() {
    let front = HttpFront::start(&[]);
    let bearer = format!("Bearer {KEY}");
    let ask = Ask::message(&request("ping", json!({})));
    assert_eq!(ask.clone().with("Origin", &format!("http://{}", front.authority())).send(&front).status, 200);
    assert_eq!(
        ask.clone().without("X-Gatehouse-Key").with("Authorization", &bearer).send(&front).status,
        200
    );
    assert_eq!(ask.with("Host", "localhost:1").send(&front).status, 200);
}

#[test]
fn over_a_unix_socket_there_is_no_key_and_any_host() {
    let front = HttpFront::on_unix_socket(&[]);
    assert_eq!(front.endpoint, format!("unix:{}", front.socket().display()));
    assert_eq!(front.socket().symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let ask =
        Ask::message(&initialize("2025-11-25")).without("X-Gatehouse-Key").with("Host", "gatehouse.example");
    assert_eq!(ask.send_to_socket(&front).status, 200);
    assert_eq!(ask.with("Origin", "https://example.com").send_to_socket(&front).status, 403);
    assert_eq!(Ask::get("/metrics").without("X-Gatehouse-Key").send_to_socket(&front).status, 200);
}

#[test]
fn it_does_not_start_without_a_good_key_or_on_a_reachable_address() {
    let dir = tempfile::tempdir().unwrap();
    let key = key_file(dir.path());
    let run = |arguments: &[&str]| {
        let output = command().args(arguments).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), output.stdout)
    };
    let (code, said, out) = run(&["http", "--listen", "127.0.0.1:0"]);
    assert!(code == Some(1) && said.contains("--key-file") && out.is_empty(), "{code:?} {said}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said, out) = run(&["http", "--listen", "127.0.0.1:0", "--key-file", key.to_str().unwrap()]);
    assert!(
        code == Some(1) && said.contains("0600") && out.is_empty() && !said.contains(KEY),
        "{code:?} {said}"
    );
    let (code, said, _) = run(&["http", "--listen", "0.0.0.0:0", "--key-file", key.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("loopback"), "{code:?} {said}");
}

#[test]
fn logs_hold_no_arguments_keys_or_tokens_even_when_asked_for_everything() {
    let dir = tempfile::tempdir().unwrap();
    let runtime_dir = dir.path().join("run");
    let key = key_file(dir.path());
    let _executor = Executor::start(&runtime_dir, |_| {
        let mut reply = session(SessionStatus::Idle);
        reply.recovery_token = Some("recovery-token-value".into());
        Answer::Reply(Box::new(reply))
    });
    let mut child = command()
        .args(["http", "--listen", "127.0.0.1:0", "--key-file", key.to_str().unwrap()])
        .args(["--runtime-dir", runtime_dir.to_str().unwrap()])
        .env("GATEHOUSE_LOG", "trace,rmcp=trace")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    let endpoint: serde_json::Value = serde_json::from_str(&line).unwrap();
    let authority =
        endpoint["endpoint"].as_str().unwrap()["http://".len()..].strip_suffix("/mcp").unwrap().to_owned();
    let start = tool(
        "native_session_start",
        json!({"prompt": "prompt-value", "working_directory": "/directory-value", "idempotency_key": "idempotency-key-value"}),
    );
    let reply = crate::client::exchange(
        std::net::TcpStream::connect(&authority).unwrap(),
        &Ask::message(&start).text(),
    );
    assert!(reply.body.contains("recovery-token-value"));
    crate::process::signal(child.id(), nix::sys::signal::Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    for secret in
        ["prompt-value", "directory-value", "idempotency-key-value", "recovery-token-value", KEY, "lease_1"]
    {
        assert!(!log.contains(secret), "{secret} in the log:\n{log}");
    }
}

#[test]
fn it_ends_on_a_signal_even_if_nobody_reads_its_log_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let key = key_file(dir.path());
    let mut child = command()
        .args(["http", "--listen", "127.0.0.1:0", "--key-file", key.to_str().unwrap()])
        .args(["--runtime-dir", dir.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    drop(child.stderr.take());
    crate::process::signal(child.id(), nix::sys::signal::Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
