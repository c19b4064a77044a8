//! Runners as processes: known by more than a number, in the hands of one lease, ended in order, and not lost over what a
//! machine does to them. With the real Claude Code.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod expiry;
mod identity;
mod rotation;
mod sleeping;
mod stopping;

use std::time::Duration;

use gatehouse::chatgpt::{Brain, Call, Start, State, ToolResult};
use gatehouse_proto::v1::{GetSessionRequest, SessionView};
use gatehouse_tests::places::Project;
use gatehouse_tests::waiting::until;
use gatehouse_tests::{Gateway, Setup, claude, processes};
use serde_json::json;

/// A session that waits for its first reply.
struct World {
    gateway: Gateway,
    project: Project,
    brain: Brain,
}

impl World {
    async fn new(config: &str) -> Option<Self> {
        let mut gateway = Gateway::start(Setup::with_claude(claude()?).config(config)).await;
        let project = Project::small();
        let brain = gateway.session(&Start::new("Hello.", project.text())).await;
        Some(Self { gateway, project, brain })
    }

    fn claude(&self) -> Option<u32> {
        processes::claude_of(self.brain.state().claude_session_id())
    }

    fn shim(&self) -> u32 {
        processes::shim_of(self.brain.state().claude_session_id()).expect("the shim lives")
    }

    /// As the operator sees it, which renews nothing.
    async fn seen(&self) -> SessionView {
        let request = GetSessionRequest { native_session_id: self.brain.session_id().to_owned() };
        self.gateway.operator().get_session(request).await.unwrap().into_inner().session.unwrap()
    }

    /// A read that only has to work.
    async fn still_works(&mut self) {
        let file = format!("{}/README.md", self.project.text());
        let state = self.brain.act(None, &[Call::new("Read", json!({"file_path": file}))]).await.unwrap();
        assert!(state.tool_results()[0].ok, "{}", state.0);
    }

    /// Goes on with the same Claude session, to its end.
    async fn goes_on(&mut self) -> State {
        let before = self.brain.state().claude_session_id().to_owned();
        let state = self.brain.go_on("Where were we?").await.unwrap().clone();
        assert_eq!((state.status(), state.claude_session_id()), ("waiting_for_gpt", &*before), "{}", state.0);
        self.gateway.learn(&self.brain);
        self.still_works().await;
        self.brain.finish("Done.").await.unwrap();
        state
    }
}

fn sh(script: &str) -> Call {
    Call::new("RunCommand", json!({"argv": ["sh", "-c", script], "timeout_seconds": 600}))
}

fn only(results: Vec<ToolResult>) -> ToolResult {
    let [result] = <[ToolResult; 1]>::try_from(results).unwrap_or_else(|all| panic!("not one: {all:?}"));
    result
}

/// How many processes have this word among their arguments.
fn with(word: &str) -> usize {
    let all = processes::all();
    all.iter().filter(|process| process.arguments.iter().any(|argument| argument == word)).count()
}

async fn running(word: &str) {
    until("the command runs", async || (with(word) > 0).then_some(())).await;
}

async fn gone(pid: u32) {
    until("the process is gone", async || (!processes::is_alive(pid)).then_some(())).await;
}

/// Waits until something holds, at most for `patience`; how long it took.
async fn within(patience: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let began = tokio::time::Instant::now();
    while !holds().await {
        assert!(began.elapsed() < patience, "not within {patience:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    began.elapsed()
}
