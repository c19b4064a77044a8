//! One small task for the real DeepSeek. It costs money: `make smoke-deepseek` asks first, and nothing else runs this.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stderr, reason = "what came of it is for whoever asked")]

use gatehouse::chatgpt::{Call, Start};
use gatehouse_tests::commands::small_repository;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn the_real_deepseek_reads_a_file_and_tells_a_word_of_it() {
    assert!(std::env::var_os("CI").is_none(), "never in CI");
    let asked = std::env::var("GATEHOUSE_SMOKE_DEEPSEEK");
    assert_eq!(asked.as_deref(), Ok("yes, asked on a terminal"), "start this by `make smoke-deepseek`");
    let file = std::env::var("DEEPSEEK_CREDENTIAL_FILE").expect("the file with the key");
    let file = std::fs::canonicalize(file).unwrap();
    let claude = claude().expect("Claude Code");
    let bounds = "turns = 6\noutput_tokens = 4000\nanswer_tokens = 2000\nseconds = 300";
    let config = format!("[deepseek]\ncredential_file = {file:?}\n{bounds}");
    let mut gateway = Gateway::start(Setup::with_claude(claude).config(&config)).await;
    gateway.keeps(std::fs::read_to_string(&file).unwrap().trim());
    let project = small_repository();
    let start = Start {
        profile: "worktree_write",
        subagent_policy: Some("deepseek_explicit"),
        ..Start::new("Delegate.", project.text())
    };
    let mut brain = gateway.session(&start).await;
    let root = brain.state().0["working_directory"].as_str().unwrap().to_owned();
    let prompt =
        format!("Read {root}/README.md with the Read tool and answer with its first heading, nothing else.");
    let started = Call::new("deepseek_subagent_start", json!({"prompt": prompt, "grade": "sonnet"}));
    brain.act(None, &[started]).await.unwrap();
    let state = brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
    let id = state.tool_results()[0].receipt["subsession_id"].as_str().unwrap().to_owned();
    let told: Value = loop {
        let look = Call::new("deepseek_subagent_get", json!({"subsession_id": id, "wait_seconds": 50}));
        brain.act(None, &[look]).await.unwrap();
        let state = brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
        let told = state.tool_results()[0].receipt.clone();
        if !matches!(told["status"].as_str(), Some("started" | "running" | "stopping")) {
            break told;
        }
    };
    eprintln!("{told:#}");
    assert_eq!((&told["status"], &told["model_verified"]), (&json!("finished"), &json!(true)), "{told}");
    assert!(told["result"].as_str().unwrap().contains("Lantern"), "{told}");
    brain.finish("Done.").await.unwrap();
    gateway.finish().await;
}
