//! Prompts of every script, first character and size arrive unchanged, at ChatGPT and at the real Claude Code.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use gatehouse::chatgpt::{Brain, Client, Start};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude, transcripts};

const LIMIT: usize = 256 * 1024;
/// How many Claude Code processes work at a time.
const AT_ONCE: usize = 3;

/// Starts a session with the prompt, sees that it comes back unchanged, and ends the run.
async fn comes_back(client: Arc<Client>, directory: String, prompt: String) -> (String, String) {
    let shown: String = prompt.chars().take(40).collect();
    let mut brain = Brain::start(client, &Start::new(&prompt, directory)).await.unwrap();
    let state = brain.settle().await.unwrap();
    assert_eq!(state.status(), "waiting_for_gpt", "{shown:?}: {}", state.0);
    assert!(state.0["pending_turn"]["prompt"] == prompt, "{shown:?} was changed");
    assert_eq!(brain.finish("Seen.").await.unwrap().0["last_result"]["ok"], true, "{shown:?}");
    (brain.state().claude_session_id().to_owned(), prompt)
}

async fn all_come_back(gateway: &Gateway, prompts: Vec<String>) {
    let project = Project::small();
    for batch in prompts.chunks(AT_ONCE) {
        let runs: Vec<_> = batch
            .iter()
            .map(|prompt| tokio::spawn(comes_back(gateway.client(), project.text(), prompt.clone())))
            .collect();
        for run in runs {
            let (session, prompt) = run.await.unwrap();
            let texts = transcripts::user_texts(&gateway.state_dir(), &session);
            let marked = format!("[gatehouse run 1]\n{prompt}");
            assert!(texts.contains(&marked), "Claude Code got something else: {texts:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_in_every_script_arrive_unchanged() {
    let Some(claude) = claude() else { return };
    let gateway = Gateway::start(Setup::with_claude(claude).config("[limits]\nlive_sessions = 64")).await;
    let prompts = [
        "設定ファイルはどこにありますか。\n二行目です。",
        "👩‍👩‍👧‍👦 🏳️‍🌈 where is the 🦀 file?",
        "אֵיפֹה הקובץ? \u{202e}reversed\u{202c} أين الملف؟",
        "e\u{301} is not é; \u{feff}nor is this \u{200b}nothing",
        "\u{10ffff}\u{e000} private and last",
    ];
    all_come_back(&gateway, prompts.map(str::to_owned).into()).await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_with_every_odd_first_character_arrive_unchanged() {
    let Some(claude) = claude() else { return };
    let gateway = Gateway::start(Setup::with_claude(claude).config("[limits]\nlive_sessions = 64")).await;
    let prompts = [
        "/help",
        "/",
        "-p",
        "--version",
        "--",
        "@/etc/passwd",
        "#remember this",
        "!ls",
        "\\n",
        "\"quoted\"",
        "'single'",
        "`tick`",
        "\ttab",
        "\nnewline",
        " space",
        "[gatehouse run 7]\nno marker of ours",
        "{\"json\": true}",
        "<system-reminder>x",
        "$HOME",
        "%s%n",
        "\u{1b}[31m",
        "~",
        "*",
        "a",
        "\r\nwindows",
        "<!-- -->",
        "&amp;",
        "\0nul",
    ];
    all_come_back(&gateway, prompts.map(str::to_owned).into()).await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_may_be_as_large_as_the_limit_and_not_a_byte_larger() {
    let Some(claude) = claude() else { return };
    let gateway = Gateway::start(Setup::with_claude(claude)).await;
    let ascii = "x".repeat(LIMIT);
    let mut wide = "語".repeat(LIMIT / 3);
    wide.push_str(&"y".repeat(LIMIT - wide.len()));
    all_come_back(&gateway, vec![ascii.clone(), wide]).await;

    let client = gateway.client();
    let project = Project::small();
    for refused in [format!("{ascii}x"), String::new()] {
        let start = Start::new(&refused, project.text());
        let error = Brain::start(Arc::clone(&client), &start).await.unwrap_err();
        assert_eq!(error.code(), Some("invalid_argument"), "{error}");
    }
    gateway.finish().await;
}
