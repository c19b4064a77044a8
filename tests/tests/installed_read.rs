//! The main job with the real Claude Code: look for a file, search it, read it, answer; with the gateway killed in the
//! middle; over HTTP and over stdio.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use gatehouse::chatgpt::{Brain, Call, Start, State};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude, processes, transcripts};
use serde_json::{Value, json};

const PROMPT: &str = "Where does the word quicksilver stand?";

fn find(project: &Project) -> Call {
    Call::new("FindFiles", json!({"directory": project.text(), "name_contains": "main"}))
}

fn search(project: &Project) -> Call {
    Call::new("SearchText", json!({"directory": project.text(), "text": "quicksilver"}))
}

fn read(project: &Project) -> Call {
    Call::new("Read", json!({"file_path": format!("{}/src/main.txt", project.text())}))
}

/// The one receipt of a turn that must have gone well.
fn receipt(state: &State) -> Value {
    let results = state.tool_results();
    assert_eq!(results.len(), 1, "{}", state.0);
    assert!(results[0].ok, "{}", results[0].receipt);
    results[0].receipt.clone()
}

/// FindFiles, SearchText, Read; the turn after the read is pending at the end.
async fn look_around(brain: &mut Brain, project: &Project) {
    let file = format!("{}/src/main.txt", project.text());
    let found = receipt(brain.act(Some("I look for the file."), &[find(project)]).await.unwrap());
    assert_eq!(found["entries"][0]["path"], file.as_str(), "{found}");
    let matched = receipt(brain.act(None, &[search(project)]).await.unwrap());
    assert_eq!(matched["matches"].as_array().unwrap().len(), 1, "{matched}");
    assert_eq!((&matched["matches"][0]["path"], &matched["matches"][0]["line"]), (&json!(file), &json!(2)));
    let seen = receipt(brain.act(None, &[read(project)]).await.unwrap());
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(seen["content"].as_str().unwrap().as_bytes(), bytes);
    assert_eq!(seen["sha256"], sha256(&bytes), "{seen}");
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    hex::encode(sha2::Sha256::digest(bytes))
}

async fn finish(brain: &mut Brain, text: &str) {
    let state = brain.finish(text).await.unwrap();
    assert_eq!(state.status(), "idle", "{}", state.0);
    assert_eq!(
        (&state.0["last_result"]["ok"], &state.0["last_result"]["text"]),
        (&json!(true), &json!(text))
    );
    assert_eq!(state.0["runtime_attached"], false, "idle means that no process waits");
}

/// The arguments of the live Claude Code process of this session.
fn claude_arguments(brain: &Brain) -> Vec<String> {
    let pid = processes::claude_of(brain.state().claude_session_id()).expect("Claude Code lives");
    processes::all().into_iter().find(|process| process.pid == pid).unwrap().arguments
}

/// The second run goes on with the first one's history.
async fn go_on(gateway: &mut Gateway, brain: &mut Brain, project: &Project) {
    let before = brain.state().claude_session_id().to_owned();
    brain.go_on("And in which line?").await.unwrap();
    gateway.learn(brain);
    assert_eq!(brain.state().claude_session_id(), before);
    assert!(claude_arguments(brain).windows(2).any(|pair| pair == ["--resume", before.as_str()]));
    receipt(brain.act(None, &[search(project)]).await.unwrap());
    finish(brain, "In line 2.").await;
    let texts = transcripts::user_texts(&gateway.state_dir(), &before);
    let markers: Vec<_> = texts.iter().filter(|text| text.starts_with("[gatehouse run ")).collect();
    assert_eq!(markers, [&format!("[gatehouse run 1]\n{PROMPT}"), "[gatehouse run 2]\nAnd in which line?"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_session_with_the_whole_computer_as_its_root() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    let mut brain = gateway.session(&Start::new(PROMPT, "/")).await;
    let first = &brain.state().0;
    assert_eq!((&first["route"], &first["fallback"]), (&json!("chatgpt-main"), &json!("none")));
    assert_eq!((&first["working_directory"], &first["replay"]), (&json!("/"), &json!(false)));
    assert_eq!(first["pending_turn"]["prompt"], PROMPT);
    let tools = first["pending_turn"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["Read", "FindFiles", "SearchText"] {
        assert!(names.contains(&name), "{names:?}");
    }
    look_around(&mut brain, &project).await;
    finish(&mut brain, "It stands in src/main.txt.").await;
    go_on(&mut gateway, &mut brain, &project).await;
    let state = brain.stop("enough").await.unwrap();
    assert!(matches!(state.status(), "stopping" | "stopped"), "{}", state.0);
    assert_eq!(brain.settle().await.unwrap().status(), "stopped");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_process_takes_the_reply_after_executor_and_front_were_killed_in_a_pending_turn() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    let mut brain = gateway.session(&Start::new(PROMPT, "/")).await;
    look_around(&mut brain, &project).await;
    let (turn, lease) = (brain.turn_id().to_owned(), brain.lease_id().to_owned());
    let session = brain.state().claude_session_id().to_owned();
    let process = processes::claude_of(&session).expect("Claude Code waits for its reply");

    gateway.kill_executor();
    gateway.kill_front();
    assert!(processes::is_alive(process), "Claude Code outlives the gateway");
    gateway.start_executor().await;
    gateway.start_front().await;
    brain.use_client(gateway.client());
    let recovered = brain.recover().await.unwrap();
    assert_eq!((recovered.claude_session_id(), recovered.turn_id()), (session.as_str(), Some(turn.as_str())));
    assert_ne!(recovered.lease_id(), lease, "recover rotates the lease");
    brain.until(|state| state.0["current_run"]["attachment"] == "attached").await.unwrap();
    assert_eq!(processes::claude_of(&session), Some(process), "it is the same process");
    gateway.learn(&brain);

    receipt(brain.act(None, &[search(&project)]).await.unwrap());
    assert_eq!(processes::claude_of(&session), Some(process), "the same process took the reply");
    finish(&mut brain, "It stands in src/main.txt.").await;
    go_on(&mut gateway, &mut brain, &project).await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_over_stdio() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    let client = Arc::new(gateway.stdio_client());
    client.initialize().await.unwrap();
    let mut brain = Brain::start(client, &Start::new(PROMPT, "/")).await.unwrap();
    brain.settle().await.unwrap();
    gateway.learn(&brain);
    look_around(&mut brain, &project).await;
    let turn = brain.turn_id().to_owned();
    let session = brain.state().claude_session_id().to_owned();
    let process = processes::claude_of(&session).expect("Claude Code waits for its reply");

    gateway.kill_executor();
    gateway.start_executor().await;
    // The old front's end: a new one for a new client.
    let client = Arc::new(gateway.stdio_client());
    client.initialize().await.unwrap();
    brain.use_client(client);
    assert_eq!(brain.recover().await.unwrap().turn_id(), Some(turn.as_str()));
    receipt(brain.act(None, &[search(&project)]).await.unwrap());
    assert_eq!(processes::claude_of(&session), Some(process), "the same process took the reply");
    finish(&mut brain, "It stands in src/main.txt.").await;
    go_on(&mut gateway, &mut brain, &project).await;
    // The front over stdio lives as long as its client.
    drop(brain);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_sees_an_environment_of_its_own_and_nothing_else() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    let mut brain = gateway.session(&Start::new(PROMPT, project.text())).await;
    let process = processes::claude_of(brain.state().claude_session_id()).expect("Claude Code lives");
    let environment = processes::environment(process);
    assert!(!environment.contains_key("PATH"), "{environment:?}");
    assert!(environment.values().all(|value| !value.contains(gateway.canary())), "{environment:?}");
    for name in ["HOME", "CLAUDE_CONFIG_DIR"] {
        assert!(environment[name].starts_with(gateway.state_dir().to_str().unwrap()), "{name} is private");
    }
    let arguments = claude_arguments(&brain).join(" ");
    for secret in [environment["ANTHROPIC_API_KEY"].as_str(), gateway.canary(), PROMPT] {
        assert!(!arguments.contains(secret), "the command line is public: {arguments}");
    }
    let cwd = std::fs::read_link(format!("/proc/{process}/cwd")).unwrap();
    assert!(cwd.starts_with(gateway.state_dir()) && std::fs::read_dir(&cwd).unwrap().next().is_none());
    finish(&mut brain, "Fine.").await;
    gateway.finish().await;
}
