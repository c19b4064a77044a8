//! RunCommand in the real sandbox, through the whole of the executor.

mod ends;
mod interrupted;
mod refusals;
mod view;

use executor_svc::ledger::actions;
use executor_svc::session::Call;
use gatehouse_proto::ids::ToolCallId;
use gatehouse_proto::v1;
use serde_json::{Value, json};

use super::house::*;

/// A session that waits, and somebody who plays both ChatGPT and the shim.
pub struct Commander {
    pub house: House,
    pub started: v1::SessionReply,
    pub shim: Shim,
    turn: String,
    replies: u32,
}

impl Commander {
    pub async fn new(ground: &Ground) -> Self {
        Self::in_house(ground.open()).await
    }

    pub async fn in_house(house: House) -> Self {
        assert!(house.has_launcher || cfg!(not(target_os = "linux")), "build the workspace's binaries first");
        let (started, shim, turn) = house.waiting("start-key-0123456789").await;
        Self { house, started, shim, turn, replies: 0 }
    }

    /// Has a command authorised.
    pub async fn authorise(&mut self, input: &Value) -> Call {
        self.replies += 1;
        let mut reply = reply_request(&self.started, &self.turn, &format!("reply-{}", self.replies), "");
        reply.tool_calls =
            vec![v1::ToolCall { name: "RunCommand".into(), input_json: input.to_string(), client_id: None }];
        self.house.front().reply_and_wait(reply).await.unwrap();
        let session = self.house.session(&self.started).await;
        session.state.run().unwrap().calls[0].clone()
    }

    /// Runs a command, and gives its receipt. The session waits again afterwards.
    pub async fn run(&mut self, input: Value) -> Value {
        let call = self.authorise(&input).await;
        let short = self.shim.invoke(&call).await.unwrap();
        let receipt = self.receipt(&call.id).await.expect("a receipt");
        assert_eq!(short.ok, receipt["ok"] == true, "{receipt}");
        let results = vec![v1::SeenToolResult {
            tool_call_id: call.id.to_string(),
            is_error: !short.ok,
            text: short.short_result,
        }];
        let key = v1::open_turn_request::Key::ToolResults(v1::ToolResultSet { results });
        self.turn = self.shim.open(key).await.unwrap();
        receipt
    }

    /// Runs a command line without anything special.
    pub async fn sh(&mut self, script: &str) -> Value {
        self.run(json!({"argv": ["sh", "-c", script]})).await
    }

    /// The receipt of an action, if it has one.
    pub async fn receipt(&self, id: &ToolCallId) -> Option<Value> {
        let id = id.clone();
        let row = self.house.engine.read(move |connection| actions::load(connection, &id)).await.unwrap();
        row.unwrap().receipt.map(|text| serde_json::from_str(&text).unwrap())
    }
}

/// What a receipt says of its end: code, exit code, output.
pub fn end(receipt: &Value) -> (Option<&str>, Option<i64>, &str) {
    (receipt["code"].as_str(), receipt["exit_code"].as_i64(), receipt["stdout"].as_str().unwrap_or_default())
}

/// How many processes of the machine have `word` among their arguments.
pub fn processes_with(word: &str) -> usize {
    let has = |pid: &str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names
        .filter_map(|name| name.into_string().ok())
        .filter(|pid| pid.parse::<u32>().is_ok() && has(pid))
        .count()
}
