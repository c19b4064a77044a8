//! A session from start to stop, whose executor is killed once on the way.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gatehouse::chatgpt::{Call, Start, State, ToolResult, fresh_id};
use gatehouse_proto::v1::ListActionsRequest;
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, processes};
use serde_json::{Value, json};

use super::table::Row;

/// What became of everything.
#[derive(Debug, Default)]
pub struct Seen {
    replays: BTreeMap<&'static str, bool>,
    results: BTreeMap<&'static str, ToolResult>,
    /// How often the command ran.
    pub commands: usize,
    /// How many further runs had to be begun.
    pub continued: usize,
}

impl Seen {
    /// Whether the last try of this call was told that it had been made before.
    pub fn replayed(&self, call: &str) -> bool {
        self.replays[call]
    }

    pub fn ok(&self, call: &str) -> bool {
        self.results[call].ok
    }

    pub fn code(&self, call: &str) -> Option<&str> {
        self.results[call].receipt["code"].as_str()
    }
}

pub struct Life {
    gateway: Gateway,
    project: Project,
    state: State,
    token: String,
    at: &'static str,
    died: bool,
    seen: Seen,
}

impl Life {
    /// A gateway whose executor is going to end at that instant.
    pub async fn begin(claude: PathBuf, at: &'static str) -> Self {
        let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
        gateway.end_executor();
        gateway.start_executor_with(&[("GATEHOUSE_FAIL_AT", at)]).await;
        let project = Project::small();
        Self {
            gateway,
            project,
            state: State(Value::Null),
            token: String::new(),
            at,
            died: false,
            seen: Seen::default(),
        }
    }

    /// Asks until there is an answer, always with the same ids.
    async fn insist(&mut self, name: &'static str, tool: &str, arguments: Value) {
        let client = self.gateway.client();
        for _ in 0..4 {
            self.revive().await;
            let asked = tokio::time::timeout(Duration::from_secs(60), client.call(tool, arguments.clone()));
            match asked.await.unwrap_or_else(|_| panic!("{}: {name} is not answered", self.at)) {
                Ok(state) => {
                    self.seen.replays.insert(name, state.replay());
                    self.state = state;
                    return;
                }
                Err(error) => assert!(self.has_died().await, "{}: {name}: {error}", self.at),
            }
        }
        panic!("{}: {name} is never answered", self.at);
    }

    /// Whether the executor has just ended, in the way that it was told to.
    async fn has_died(&mut self) -> bool {
        let Some(status) = self.gateway.executor_status(Duration::from_secs(2)).await else { return false };
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(status.signal(), Some(9), "{}: {status}", self.at);
        assert!(!self.died, "{}: once is enough", self.at);
        self.died = true;
        true
    }

    async fn revive(&mut self) {
        if self.gateway.executor_status(Duration::ZERO).await.is_some() {
            self.died = true;
        }
        if self.gateway.executor_pid().is_none() {
            self.gateway.start_executor().await;
        }
    }

    fn ids(&self) -> Value {
        json!({"native_session_id": self.state.session_id(), "lease_id": self.state.lease_id()})
    }

    async fn ask(&mut self, name: &'static str, tool: &str, more: Value) {
        let mut arguments = self.ids();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.insist(name, tool, arguments).await;
    }

    async fn until(&mut self, wanted: &str) {
        for _ in 0..60 {
            if self.state.status() == wanted {
                return;
            }
            self.ask("status", "native_session_status", json!({"wait_seconds": 2})).await;
            // A process that was found to be gone is no reason to give up.
            if wanted == "waiting_for_gpt" && matches!(self.state.status(), "idle" | "failed") {
                self.go_on().await;
            }
        }
        panic!("{}: not {wanted}: {}", self.at, self.state.0);
    }

    async fn go_on(&mut self) {
        self.seen.continued += 1;
        let more = json!({"prompt": "Go on.", "idempotency_key": fresh_id(), "wait_seconds": 20});
        self.ask("continue", "native_session_continue", more).await;
    }

    async fn start(&mut self) {
        let mut start = Start::new("Hello.", self.project.text());
        start.profile = "direct_write";
        self.insist("start", "native_session_start", start.arguments()).await;
        self.token = self.state.recovery_token().unwrap_or_default().to_owned();
        self.until("waiting_for_gpt").await;
    }

    /// One reply with one call, and its result.
    async fn act(&mut self, name: &'static str, call: &Call) {
        let turn = self.state.turn_id().unwrap_or_default().to_owned();
        let more = json!({"turn_id": turn, "reply_id": fresh_id(), "tool_calls": [call.to_json()]});
        self.ask(name, "native_session_reply_and_wait", more).await;
        self.until("waiting_for_gpt").await;
        let results = self.state.tool_results();
        assert_eq!(results.len(), 1, "{}: {name}: {}", self.at, self.state.0);
        self.seen.results.insert(name, results.into_iter().next().unwrap());
    }

    async fn work(&mut self) {
        let at = |file: &str| self.project.path().join(file);
        let shell = |script: &str| Call::new("RunCommand", json!({"argv": ["/bin/sh", "-c", script]}));
        let read = Call::new("Read", json!({"file_path": at("README.md")}));
        let write =
            Call::new("Write", json!({"file_path": at("made"), "content": "once\n", "create_only": true}));
        self.act("read", &read).await;
        self.act("write", &write).await;
        // The scratch is the session's own, and stays.
        self.act("command", &shell("echo ran >> \"$TMPDIR/ran\"")).await;
    }

    async fn change_hands(&mut self) {
        let old = self.ids();
        let arguments = json!({
            "native_session_id": self.state.session_id(), "recovery_token": self.token, "recovery_id": fresh_id(),
        });
        self.insist("recover", "native_session_recover", arguments).await;
        self.revive().await;
        let refused = self.gateway.client().call("native_session_status", old).await.unwrap_err();
        assert_eq!(refused.code(), Some("lease_mismatch"), "{}: {refused}", self.at);
        self.until("waiting_for_gpt").await;
    }

    async fn answer(&mut self) {
        let turn = self.state.turn_id().unwrap_or_default().to_owned();
        let more = json!({"turn_id": turn, "reply_id": fresh_id(), "text": "That is all."});
        self.ask("answer", "native_session_reply_and_wait", more).await;
        self.until("idle").await;
        let last = &self.state.0["last_result"];
        assert_eq!((&last["ok"], &last["text"]), (&json!(true), &json!("That is all.")), "{}", self.at);
    }

    async fn count_commands(&mut self) {
        let count =
            Call::new("RunCommand", json!({"argv": ["/bin/sh", "-c", "cat \"$TMPDIR/ran\" || true"]}));
        self.act("count", &count).await;
        let receipt = &self.seen.results["count"].receipt;
        self.seen.commands = receipt["stdout"].as_str().unwrap_or_default().lines().count();
    }

    pub async fn lead_to_its_end(mut self, row: &Row) {
        self.start().await;
        self.work().await;
        self.change_hands().await;
        self.answer().await;
        self.go_on().await;
        self.until("waiting_for_gpt").await;
        self.count_commands().await;
        self.ask("stop", "native_session_stop", json!({"request_id": fresh_id(), "reason": "enough"})).await;
        self.until("stopped").await;
        self.revive().await;
        assert!(self.died, "{} is reached", self.at);
        self.check_what_is_left().await;
        (row.check)(&self.seen);
        self.gateway.finish().await;
    }

    /// What holds after a crash at any instant.
    async fn check_what_is_left(&mut self) {
        let file = std::fs::read_to_string(self.project.path().join("made")).ok();
        assert_eq!(file.is_some(), self.seen.ok("write"), "{}: {:?}", self.at, self.seen);
        assert!(file.is_none_or(|text| text == "once\n"), "{}: whole", self.at);
        assert!(self.seen.commands <= 1, "{}: {:?}", self.at, self.seen);
        assert!(self.seen.commands == 1 || !self.seen.ok("command"), "{}: {:?}", self.at, self.seen);
        let request = ListActionsRequest {
            native_session_id: self.state.session_id().to_owned(),
            ..ListActionsRequest::default()
        };
        let actions = self.gateway.operator().list_actions(request).await.unwrap().into_inner().actions;
        assert_eq!(actions.len(), 4, "{}: each action once", self.at);
        processes::no_shim_is_left(&self.gateway.runtime_dir()).await;
        assert!(self.gateway.state_dir().join("sessions").is_dir(), "{}: the state is kept", self.at);
    }
}
