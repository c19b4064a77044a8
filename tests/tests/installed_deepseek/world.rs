//! A gateway with a repository, a credential, and a DeepSeek that says what the test wants.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use gatehouse::chatgpt::{Brain, Call, Start};
pub use gatehouse_tests::commands::small_repository;
use gatehouse_tests::deepseek::FakeDeepseek;
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::{Value, json};

pub struct World {
    pub gateway: Gateway,
    pub provider: FakeDeepseek,
    pub repository: Project,
    pub credential: String,
    /// Holds the credential file.
    pub drawer: Project,
}

impl World {
    /// A world with further lines in the `[deepseek]` table; `None` where Claude Code is to be left out.
    pub async fn new(lines: &str) -> Option<Self> {
        let provider = FakeDeepseek::start().await;
        let endpoint = format!("http://127.0.0.1:{}/anthropic", provider.port());
        Self::with(provider, &endpoint, lines, "").await
    }

    pub async fn with(provider: FakeDeepseek, endpoint: &str, lines: &str, others: &str) -> Option<Self> {
        let (claude, drawer) = (claude()?, Project::empty());
        let credential = format!("sk-{}", uuid::Uuid::new_v4().simple());
        let file = drawer.write("deepseek.key", format!("{credential}\n"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config =
            format!("{others}\n[deepseek]\ncredential_file = {file:?}\nendpoint = {endpoint:?}\n{lines}\n");
        let mut gateway = Gateway::start(Setup::with_claude(claude).config(&config)).await;
        gateway.keeps(&credential);
        Some(Self { gateway, provider, repository: small_repository(), credential, drawer })
    }

    /// A session that may have subagents, and its worktree.
    pub async fn session(&mut self) -> (Brain, PathBuf) {
        let start = Start {
            profile: "worktree_write",
            subagent_policy: Some("deepseek_explicit"),
            ..Start::new("Delegate.", self.repository.text())
        };
        let brain = self.gateway.session(&start).await;
        let root = PathBuf::from(brain.state().0["working_directory"].as_str().unwrap());
        (brain, root)
    }
}

/// Makes a call and gives its receipt.
pub async fn act(brain: &mut Brain, tool: &str, input: Value) -> Value {
    brain.act(None, &[Call::new(tool, input)]).await.unwrap();
    let state = brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
    let results = state.tool_results();
    assert_eq!(results.len(), 1, "{}", state.0);
    results[0].receipt.clone()
}

/// Starts a subagent and gives its id.
pub async fn delegate(brain: &mut Brain, grade: &str) -> String {
    let receipt =
        act(brain, "deepseek_subagent_start", json!({"prompt": "Rename it.", "grade": grade})).await;
    assert_eq!(receipt["status"], "started", "{receipt}");
    receipt["subsession_id"].as_str().unwrap().to_owned()
}

/// Waits until a subagent is over, and gives what is told of it.
pub async fn seen_out(brain: &mut Brain, id: &str) -> Value {
    loop {
        let told =
            act(brain, "deepseek_subagent_get", json!({"subsession_id": id, "wait_seconds": 50})).await;
        if !matches!(told["status"].as_str(), Some("started" | "running" | "stopping")) {
            return told;
        }
    }
}

/// The code of the error with which a reply is refused.
pub async fn refused(brain: &Brain, gateway: &Gateway, text: Option<&str>, calls: &[Call]) -> String {
    let arguments = brain.reply_arguments(text, calls);
    let error = gateway.client().call("native_session_reply_and_wait", arguments).await.unwrap_err();
    error.code().unwrap_or_default().to_owned()
}
