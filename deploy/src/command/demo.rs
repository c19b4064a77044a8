//! `gatehouse demo`: the main job on real input.
//!
//! A private gateway (own state, own sockets, any free port), the real Claude Code, and a scripted ChatGPT that has it
//! look around in a directory. Everything is gone afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatehouse_proto::v1::VerifyLedgerRequest;
use serde_json::json;

use super::signals::StopSignals;
use super::transcript::Transcript;
use crate::chatgpt::{Brain, Call, Client, ClientError, Start, State};
use crate::cli::Demo;
use crate::failure::Failure;
use crate::gateway::{Gateway, Logs, Options};
use crate::operator;
use crate::screen::{Screen, Style};
use crate::settings::{Binaries, Place};

const FIRST_PROMPT: &str =
    "Look around here: which file introduces this directory, and what does it say first?";
const SECOND_PROMPT: &str = "Thank you. And where is the licence mentioned?";

pub(super) async fn run(options: Demo, screen: &mut Screen) -> Result<(), Failure> {
    let directory = directory(options.directory)?;
    let home = tempfile::Builder::new().prefix("gh-demo-").tempdir()?;
    let log = home.path().join("log");
    let start = private_gateway(home.path(), &log, options.claude)?;
    in_gateway(start, &directory, screen).await.map_err(|failure| with_log(failure, &log))
}

/// The directory to look at: as given, else the top of the repository around the current one, else the current one.
fn directory(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return given.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", given.display())));
    }
    let here = std::env::current_dir()?;
    Ok(here.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(&here).to_owned())
}

fn private_gateway(home: &Path, log: &Path, claude: Option<PathBuf>) -> Result<Options, Failure> {
    // An empty configuration: the user's own must not change what the demo shows.
    let config = home.join("config.toml");
    std::fs::write(&config, "")?;
    let mut environment = Vec::new();
    if let Some(claude) = claude {
        let claude = claude.canonicalize().map_err(|error| {
            Failure::usage(format!("Claude Code is not at {}: {error}", claude.display()))
        })?;
        environment.push(("CLAUDE_BIN".into(), claude.into_os_string()));
    }
    Ok(Options {
        place: Place {
            config: Some(config),
            state_dir: Some(home.join("s")),
            runtime_dir: Some(home.join("r")),
        },
        listen: Some("127.0.0.1:0".to_owned()),
        environment,
        logs: Logs::File(log.to_owned()),
    })
}

async fn in_gateway(start: Options, directory: &Path, screen: &mut Screen) -> Result<(), Failure> {
    let mut transcript = Transcript::new(screen);
    transcript.heading("A private gateway")?;
    let mut signals = StopSignals::watch()?;
    let interrupted = || Failure::failed("interrupted");
    let binaries = Binaries::beside_this()?;
    let gateway = tokio::select! {
        started = Gateway::start(&binaries, start) => started?,
        () = signals.received() => return Err(interrupted()),
    };
    transcript.gateway("executor and front are ready; no Claude Code process exists yet")?;
    let outcome = tokio::select! {
        outcome = conversation(&gateway, directory, &mut transcript) => outcome,
        () = signals.received() => Err(interrupted()),
    };
    let stopped = gateway.shut_down().await;
    outcome?;
    transcript.gateway(&format!("shut down; runners that had to be stopped: {stopped}"))?;
    screen.line("")?;
    let done = screen
        .paint(Style::Good, "Done: one Claude Code session, two runs, no model but the scripted ChatGPT.");
    screen.line(done)?;
    Ok(())
}

async fn conversation(
    gateway: &Gateway,
    directory: &Path,
    transcript: &mut Transcript<'_>,
) -> Result<(), Failure> {
    let client = Arc::new(Client::http(gateway.endpoint().clone(), None));
    client.initialize().await.map_err(in_demo)?;
    let tools = client.request("tools/list", json!({})).await.map_err(in_demo)?;
    let tools = tools["tools"].as_array().map_or(0, Vec::len);
    transcript.chatgpt(&format!("connects over MCP and sees {tools} tools"))?;

    transcript.heading("First run")?;
    transcript.chatgpt(&format!("native_session_start, read_only, in {}", directory.display()))?;
    let start =
        Start { label: Some("demo".to_owned()), ..Start::new(FIRST_PROMPT, directory.to_string_lossy()) };
    let mut brain = Brain::start(client, &start).await.map_err(in_demo)?;
    brain.settle().await.map_err(in_demo)?;
    transcript.state(brain.state())?;
    launched(brain.state())?;
    first_run(&mut brain, directory, transcript).await?;

    transcript.heading("Second run: the same Claude Code session goes on")?;
    transcript.chatgpt("native_session_continue")?;
    brain.go_on(SECOND_PROMPT).await.map_err(in_demo)?;
    transcript.state(brain.state())?;
    second_run(&mut brain, directory, transcript).await?;

    transcript.heading("The end")?;
    brain.stop("the demo is over").await.map_err(in_demo)?;
    let ended = brain.settle().await.map_err(in_demo)?;
    transcript.chatgpt(&format!("native_session_stop: the session is {}", ended.status()))?;
    let mut operator = operator::client(&gateway.settings().runtime_dir)?;
    let ledger = operator.verify_ledger(VerifyLedgerRequest {}).await?.into_inner();
    if !ledger.ok {
        return Err(Failure::failed(format!("the ledger does not verify: {}", ledger.message)));
    }
    transcript.gateway(&format!("the ledger's chain of {} entries verifies", ledger.entries))?;
    Ok(())
}

/// A session that failed to start says why and what to do.
fn launched(state: &State) -> Result<(), Failure> {
    let error = &state.0["launch_error"];
    if error.is_null() {
        return Ok(());
    }
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    Err(Failure::failed(format!("Claude Code did not start ({}): {}", text("code"), text("message")))
        .hint(text("what_to_do")))
}

async fn first_run(
    brain: &mut Brain,
    directory: &Path,
    transcript: &mut Transcript<'_>,
) -> Result<(), Failure> {
    let find = json!({"directory": directory, "name_contains": "README", "max_depth": 2, "limit": 20});
    act(brain, transcript, &[Call::new("FindFiles", find)]).await?;
    let introduction = match first_file(brain.state()) {
        Some(path) => path,
        None => {
            let find = json!({"directory": directory, "max_depth": 3, "limit": 50});
            act(brain, transcript, &[Call::new("FindFiles", find)]).await?;
            first_file(brain.state())
                .ok_or_else(|| Failure::failed("there is no file to read in that directory"))?
        }
    };
    let read = json!({"file_path": introduction, "max_lines": 12});
    act(brain, transcript, &[Call::new("Read", read)]).await?;
    let first_line = first_line(brain.state());
    finish(brain, transcript, &format!("{introduction} introduces the directory. It begins: {first_line}"))
        .await
}

async fn second_run(
    brain: &mut Brain,
    directory: &Path,
    transcript: &mut Transcript<'_>,
) -> Result<(), Failure> {
    let search = json!({"directory": directory, "text": "licen", "case_insensitive": true, "limit": 20});
    let find = json!({"directory": directory, "name_contains": "LICEN", "max_depth": 2, "limit": 20});
    act(brain, transcript, &[Call::new("SearchText", search), Call::new("FindFiles", find)]).await?;
    let found = brain.state().tool_results();
    let count = |index: usize, list: &str| {
        found.get(index).and_then(|result| result.receipt[list].as_array()).map_or(0, Vec::len)
    };
    let text = format!(
        "{} lines mention it, {} files are named after it.",
        count(0, "matches"),
        count(1, "entries")
    );
    // One that works, and one that is refused before anything starts.
    let look = json!({"argv": ["sh", "-c", "ls | wc -l; touch gatehouse-was-here"]});
    let delete = json!({"argv": ["env", "rm", "-r", directory]});
    act(brain, transcript, &[Call::new("RunCommand", look), Call::new("RunCommand", delete)]).await?;
    finish(brain, transcript, &text).await
}

async fn act(brain: &mut Brain, transcript: &mut Transcript<'_>, calls: &[Call]) -> Result<(), Failure> {
    transcript.calls(calls)?;
    let state = brain.act(None, calls).await.map_err(in_demo)?;
    transcript.state(state)?;
    if state.turn_id().is_none() {
        return Err(Failure::failed(format!(
            "the run ended before its time; the session is {}",
            state.status()
        )));
    }
    Ok(())
}

async fn finish(brain: &mut Brain, transcript: &mut Transcript<'_>, text: &str) -> Result<(), Failure> {
    transcript.chatgpt(&format!("replies: {text}"))?;
    let state = brain.finish(text).await.map_err(in_demo)?;
    transcript.state(state)?;
    if state.status() != "idle" || state.0["last_result"]["ok"] != true {
        return Err(Failure::failed(format!("the run did not end well; the session is {}", state.status())));
    }
    Ok(())
}

/// The first regular file among the entries of the latest results.
fn first_file(state: &State) -> Option<String> {
    let results = state.tool_results();
    let entries = results.first()?.receipt["entries"].as_array()?;
    let file = entries.iter().find(|entry| entry["kind"] == "file")?;
    file["path"].as_str().map(str::to_owned)
}

/// The first line with text in what the latest call read.
fn first_line(state: &State) -> String {
    let results = state.tool_results();
    let content = results.first().and_then(|result| result.receipt["content"].as_str()).unwrap_or_default();
    content.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("(nothing)").to_owned()
}

#[allow(clippy::needless_pass_by_value, reason = "it is a map_err function")]
fn in_demo(error: ClientError) -> Failure {
    let hint = match &error {
        ClientError::Tool(refused) => Some(refused.what_to_do.clone()),
        ClientError::Http(_)
        | ClientError::Pipe(_)
        | ClientError::Rpc(_)
        | ClientError::Shape(_)
        | ClientError::TimedOut => None,
    };
    Failure { what_to_do: hint, ..Failure::failed(error.to_string()) }
}

/// The last lines of the processes' log, which is gone with the demo's directory.
fn with_log(failure: Failure, log: &Path) -> Failure {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(10)..].join("\n  ");
    if last.is_empty() {
        return failure;
    }
    let hint = failure.what_to_do.map(|hint| format!("{hint}\n  ")).unwrap_or_default();
    Failure { what_to_do: Some(format!("{hint}The gateway's last words:\n  {last}")), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_regular_file_is_taken_not_a_directory() {
        let entries = json!([{"path": "/d", "kind": "directory"}, {"path": "/d/README.md", "kind": "file"}]);
        let results =
            json!([{"tool_call_id": "c", "name": "FindFiles", "ok": true, "receipt": {"entries": entries}}]);
        let state = State(json!({"pending_turn": {"tool_results": results}}));
        assert_eq!(first_file(&state).as_deref(), Some("/d/README.md"));
        assert_eq!(first_line(&State(serde_json::Value::Null)), "(nothing)");
    }
}
