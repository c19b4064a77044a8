//! The front behind OpenAI's tunnel, with a stand-in for both of the tunnel's ends, driven by the profiles that
//! `gatehouse tunnel-profile` writes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod behaviour;
mod lost;
mod ready;
mod stdio;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gatehouse::chatgpt::{Start, State};
use gatehouse_tests::Gateway;
use gatehouse_tests::places::Project;
use gatehouse_tests::tunnel::{Command, Control, Posted, Ticket, TunnelClient};
use serde_json::{Value, json};

const TUNNEL: &str = "tunnel_0123456789abcdef0123456789abcdef";

/// The tunnel with a client at its end.
struct Tunnel {
    control: Control,
    client: TunnelClient,
    ids: AtomicU64,
}

/// The profile that the command line writes for this gateway, with further arguments and settings of the front.
fn profile(gateway: &Gateway, front: &str, arguments: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config.toml");
    let text = std::fs::read_to_string(gateway.config_file()).unwrap();
    std::fs::write(&config, format!("{text}\n[front]\n{front}\n")).unwrap();
    std::fs::write(home.path().join("api-key"), "sk-of-a-test\n").unwrap();
    let mut command = std::process::Command::new(gatehouse_tests::binaries::binary("gatehouse"));
    command.args(["tunnel-profile", TUNNEL]).args(arguments).arg("--config").arg(&config);
    command.arg("--api-key-file").arg(home.path().join("api-key"));
    command.arg("--state-dir").arg(gateway.state_dir()).arg("--runtime-dir").arg(gateway.runtime_dir());
    let output = command.env_remove("CLAUDE_TOOLS_STATE_DIR").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Outlives the profile, which names the file of the key.
    drop(home.keep());
    String::from_utf8(output.stdout).unwrap()
}

fn tcp_profile(gateway: &Gateway) -> String {
    let url = gateway.endpoint().url();
    let listen = url.trim_start_matches("http://").trim_end_matches("/mcp");
    profile(gateway, &format!("listen = \"{listen}\""), &[])
}

impl Tunnel {
    async fn start(gateway: &Gateway, profile: &str) -> Self {
        let control = Control::start(TUNNEL, "sk-of-a-test").await;
        let client = TunnelClient::start(profile, control.address, gateway.record()).await;
        Self { control, client, ids: AtomicU64::new(0) }
    }

    /// A message with an id of its own, of the kinds that were seen: strings and small numbers.
    fn message(&self, method: &str, params: &Value) -> Value {
        let id = match self.ids.fetch_add(1, Ordering::Relaxed) {
            number @ 0..=1 => json!(number),
            number => json!(format!("openai-mcp-{number}")),
        };
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    fn call(&self, tool: &str, arguments: &Value) -> Command {
        Command::jsonrpc(self.message("tools/call", &json!({"name": tool, "arguments": arguments})))
    }

    fn send(&self, tool: &str, arguments: &Value) -> Ticket {
        self.control.send(self.call(tool, arguments))
    }

    /// Calls a tool and gives the state that it answers with.
    async fn state(&self, tool: &str, arguments: &Value) -> Value {
        state(&self.send(tool, arguments).answer().await)
    }

    /// Starts a session and waits for its first turn.
    async fn session(&self, gateway: &mut Gateway, start: &Start) -> Value {
        let started = self.state("native_session_start", &start.arguments()).await;
        let state = self.settle(started.clone()).await;
        for seen in [started, state.clone()] {
            gateway.learn_state(&State(seen));
        }
        assert_eq!(state["status"], "waiting_for_gpt", "{state}");
        state
    }

    /// A session in which a command runs for a while: a call that waits for it has something to wait for.
    async fn busy_session(&self, gateway: &mut Gateway, project: &Project) -> Value {
        let first = self.session(gateway, &Start::new("Run it.", project.text())).await;
        let sleep =
            json!([{"name": "RunCommand", "input": {"argv": ["sleep", "300"], "timeout_seconds": 600}}]);
        let answer =
            self.call("native_session_reply_and_wait", &reply(&first, "sleep", json!({"tool_calls": sleep})));
        let ticket = self.control.send(answer.within(Duration::from_millis(500)));
        self.client.end_of(&ticket.request_id).await;
        let running = self.state("native_session_status", &ids(&first, json!({}))).await;
        assert_eq!(running["status"], "running", "{running}");
        running
    }

    /// Ends it; the command goes with it.
    async fn stop(&self, state: &Value) -> Value {
        let stop = ids(state, json!({"request_id": "stop-1", "reason": "the test is over"}));
        self.settle(self.state("native_session_stop", &stop).await).await
    }

    /// Long-polls until the session rests.
    async fn settle(&self, mut state: Value) -> Value {
        while matches!(state["status"].as_str(), Some("starting" | "running" | "stopping")) {
            state = self.state("native_session_status", &ids(&state, json!({"wait_seconds": 15}))).await;
        }
        state
    }
}

/// The state in an answer to `tools/call`.
fn state(posted: &Posted) -> Value {
    assert_eq!(posted.code, 200, "{}", posted.json);
    let result = &posted.json["result"];
    assert_ne!(result["isError"], true, "{}", posted.json);
    result["structuredContent"].clone()
}

/// `arguments` with the ids of the session that `state` is about.
fn ids(state: &Value, mut arguments: Value) -> Value {
    for name in ["native_session_id", "lease_id"] {
        arguments[name] = state[name].clone();
    }
    arguments
}

/// A reply to the pending turn.
fn reply(state: &Value, reply_id: &str, mut rest: Value) -> Value {
    rest["turn_id"] = state["pending_turn"]["turn_id"].clone();
    rest["reply_id"] = json!(reply_id);
    ids(state, rest)
}

/// How many calls wait in the front, as its metrics say.
async fn waiting(gateway: &Gateway) -> Option<usize> {
    let endpoint = gateway.endpoint();
    let request =
        endpoint.request(http::Method::GET, "/metrics").body(http_body_util::Full::default()).unwrap();
    let metrics = gatehouse_tests::raw::exchange(&endpoint, request).await.text;
    let line = metrics.lines().find(|line| line.contains("waiting") && !line.starts_with('#'))?;
    line.rsplit(' ').next()?.parse().ok()
}
