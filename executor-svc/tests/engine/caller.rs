//! Somebody who plays both ChatGPT and the shim in one session.

use executor_svc::ledger::actions;
use executor_svc::session::Call;
use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::ids::ToolCallId;
use gatehouse_proto::v1;
use serde_json::{Value, json};

use super::house::*;

/// A session that waits for a reply.
pub struct Caller {
    pub house: House,
    pub started: v1::SessionReply,
    pub shim: Shim,
    turn: String,
    replies: u32,
}

impl Caller {
    pub async fn new(ground: &Ground) -> Self {
        Self::in_house(ground.open()).await
    }

    pub async fn in_house(house: House) -> Self {
        assert!(house.has_launcher || cfg!(not(target_os = "linux")), "build the workspace's binaries first");
        Self::with_profile(house, v1::CapabilityProfile::ReadOnly).await
    }

    /// In a session that may change the project.
    pub async fn writing(ground: &Ground) -> Self {
        Self::with_profile(ground.open(), v1::CapabilityProfile::DirectWrite).await
    }

    async fn with_profile(house: House, profile: v1::CapabilityProfile) -> Self {
        let mut ask = house.start_request("start-key-0123456789");
        ask.set_capability_profile(profile);
        Self::started(house, ask).await
    }

    /// In the session that this request starts.
    pub async fn started(house: House, ask: v1::StartRequest) -> Self {
        let started = house.front().start(ask).await.unwrap().into_inner();
        let shim = house.shim(&started).await;
        let turn = shim.open_first().await;
        Self { house, started, shim, turn, replies: 0 }
    }

    /// Has a command authorised.
    pub async fn authorise(&mut self, input: &Value) -> Call {
        self.authorise_tool("RunCommand", input).await
    }

    /// Has a call authorised.
    pub async fn authorise_tool(&mut self, tool: &str, input: &Value) -> Call {
        self.replies += 1;
        let mut reply = reply_request(&self.started, &self.turn, &format!("reply-{}", self.replies), "");
        reply.tool_calls =
            vec![v1::ToolCall { name: tool.into(), input_json: input.to_string(), client_id: None }];
        self.house.front().reply_and_wait(reply).await.unwrap();
        let session = self.house.session(&self.started).await;
        session.state.run().unwrap().calls[0].clone()
    }

    /// Why a reply with this call is refused.
    pub async fn refusal(&mut self, tool: &str, input: Value) -> ErrorCode {
        self.replies += 1;
        let mut reply = reply_request(&self.started, &self.turn, &format!("reply-{}", self.replies), "");
        reply.tool_calls =
            vec![v1::ToolCall { name: tool.into(), input_json: input.to_string(), client_id: None }];
        code(self.house.front().reply_and_wait(reply).await)
    }

    /// Runs a command, and gives its receipt. The session waits again afterwards.
    pub async fn run(&mut self, input: Value) -> Value {
        self.call("RunCommand", input).await
    }

    /// Makes a call, and gives its receipt. The session waits again afterwards.
    pub async fn call(&mut self, tool: &str, input: Value) -> Value {
        let call = self.authorise_tool(tool, &input).await;
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
