//! The last resort: tunnel-client starts the front itself, and lets one call through at a time.

use std::time::{Duration, Instant};

use gatehouse_tests::places::Project;
use gatehouse_tests::tunnel::{Command, End};
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::json;

use super::{Tunnel, ids, profile, state};

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_one_after_the_other_and_a_late_answer_is_nobody_elses() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let tunnel = Tunnel::start(&gateway, &profile(&gateway, "", &["--stdio"])).await;
    // No handshake came before: seen in the field, and it must not hang.
    let listed = tunnel.control.result(tunnel.message("tools/list", &json!({}))).await;
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(6));

    let project = Project::small();
    let busy = tunnel.busy_session(&mut gateway, &project).await;
    let began = Instant::now();
    let waits = tunnel.send("native_session_status", &ids(&busy, json!({"wait_seconds": 3})));
    let behind = tunnel.send("native_session_status", &ids(&busy, json!({})));
    state(&behind.answer().await);
    assert!(
        began.elapsed() >= Duration::from_secs(3),
        "it had to wait for the one before: {:?}",
        began.elapsed()
    );
    state(&waits.answer().await);

    // A deadline keeps the pipes; what comes late for the old id is thrown away, and the next call gets its own answer.
    let call = tunnel.call("native_session_status", &ids(&busy, json!({"wait_seconds": 2})));
    let ticket = tunnel.control.send(call.within(Duration::from_millis(300)));
    assert_eq!(tunnel.client.end_of(&ticket.request_id).await, End::Dropped);
    let stopped = tunnel.stop(&busy).await;
    assert_eq!(stopped["status"], "stopped", "{stopped}");

    let ended = tunnel.control.send(Command::session_termination("s")).answer().await;
    assert_eq!(ended.code, 405);
    drop(tunnel);
    gateway.finish().await;
}
