//! Claude Code as a process: started from nothing, in a sandbox, watched, and ended.

mod command;
mod files;
mod init;
mod output;
mod reach;
mod transcript;
mod version;

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use gatehouse_proto::v1::RunFinished;
use gatehouse_sandbox::launch::{self, Confined, Exit, Hold, LaunchError, Launcher, Stage, Streams};
use gatehouse_sandbox::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use files::McpConfig;
use output::Tail;
pub use output::{Line, ResultLine};

use crate::plan::Plan;
use crate::ports::Ports;

/// How long Claude Code has between the request to end and the end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the kernel may take to end everything, once it is told to.
const TEARDOWN: Duration = Duration::from_secs(2);
/// How long its last output is waited for after its end.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// Why Claude Code did not start as asked.
#[derive(Debug, thiserror::Error)]
pub enum StartFailure {
    /// A directory or file of ours.
    #[error("{what} cannot be prepared: {source}")]
    Prepare {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Its working directory is to be empty: it runs git there, and git runs what a repository says.
    #[error("Claude Code's working directory is not empty")]
    WorkingDirectory,
    /// The executable is missing.
    #[error("Claude Code's executable was not found; set `claude_binary` or CLAUDE_BIN to where it is")]
    NotFound,
    /// The executable is no program of this system, or lacks a library.
    #[error("Claude Code's executable cannot be used: {0}")]
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only there is it looked into"))]
    Program(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The launcher failed in another way.
    #[error("Claude Code could not be started: {0}")]
    Launch(LaunchError),
    /// Claude Code was started, and was ended again because the runner could not confine itself.
    #[error("the runner cannot confine itself: {0}")]
    Confine(LaunchError),
    /// It is not the version that was asked for.
    #[error("Claude Code says that it is version {found}, and {expected} is needed")]
    Version {
        /// What it says.
        found: String,
        /// What is needed.
        expected: String,
    },
}

impl StartFailure {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "claude_not_found",
            Self::Version { .. } => "claude_wrong_version",
            Self::Launch(LaunchError::Layer(_) | LaunchError::Unsupported) | Self::Confine(_) => {
                "sandbox_unavailable"
            }
            Self::Prepare { .. } | Self::WorkingDirectory | Self::Program(_) | Self::Launch(_) => {
                "claude_not_started"
            }
        }
    }
}

impl From<LaunchError> for StartFailure {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Step { stage: Stage::Exec, errno } if errno == nix::errno::Errno::ENOENT as i32 => {
                Self::NotFound
            }
            other => Self::Launch(other),
        }
    }
}

/// How long it may still run after it has closed its output.
const LAST_STEPS: Duration = Duration::from_secs(10);

/// A running Claude Code. Dropping it ends it.
#[derive(Debug)]
pub struct Claude {
    keeper: Child,
    hold: Hold,
    lines: tokio::sync::mpsc::Receiver<Line>,
    stderr: JoinHandle<Tail>,
    /// Its configuration, which has no name any more.
    _config: File,
    /// The layers that confine it.
    pub enforced_by: Vec<String>,
}

/// Where its requests arrive.
#[derive(Debug)]
pub struct Listeners {
    /// The Messages API.
    pub messages: TcpListener,
    /// The MCP server.
    pub tools: TcpListener,
}

/// How it ended by itself.
#[derive(Debug)]
pub struct Ended {
    /// 0 to 255; 128 and the signal's number when a signal ended it.
    pub exit_code: i32,
    /// The last lines of its standard error, as they were.
    pub stderr: String,
}

/// Checks the version, then starts it, with the prompt on its way in.
///
/// # Errors
/// When any step fails, or a layer of its sandbox cannot be had; nothing runs then.
pub async fn start(
    launcher: &Launcher,
    plan: &Plan,
    ports: &Ports,
) -> Result<(Claude, Listeners), StartFailure> {
    let config = McpConfig::prepare(plan, ports)?;
    let own = reach::own(plan)?;
    version::check(launcher, plan, &own).await?;
    let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::piped() };
    let begin = transcript::how_to_begin(plan)
        .map_err(|source| StartFailure::Prepare { what: "the transcript", source })?;
    let request = command::run(plan, begin, config.path(), ports);
    let reach = reach::of_run(own, config.path(), ports);
    let confined = launcher.start_confined(&request, &reach, streams).await?;
    let config = config
        .take_name()
        .map_err(|source| StartFailure::Prepare { what: "the MCP configuration", source })?;
    let Confined { child: mut keeper, enforced_by, listeners, hold } = confined;
    let Ok([messages, tools]) = <[TcpListener; 2]>::try_from(listeners) else {
        return Err(StartFailure::Launch(LaunchError::Silent));
    };
    if let Some(stdin) = keeper.stdin.take() {
        tokio::spawn(feed(stdin, plan.stdin_text.clone()));
    }
    let lines = output::lines(keeper.stdout.take());
    let stderr = tokio::spawn(output::tail(keeper.stderr.take()));
    let claude = Claude { keeper, hold, lines, stderr, _config: config, enforced_by };
    Ok((claude, Listeners { messages, tools }))
}

async fn feed(mut stdin: ChildStdin, text: String) {
    // A Claude Code that ends before it has read its prompt says why on its standard error.
    let _ = stdin.write_all(text.as_bytes()).await;
    let _ = stdin.shutdown().await;
}

impl Claude {
    /// The process id of its keeper, which must never be told.
    pub fn keeper(&self) -> Option<u32> {
        self.keeper.id()
    }

    /// The next line of its output that says something; `None` when there are no more. With Claude Code everything ends
    /// that could still print.
    pub async fn next_line(&mut self) -> Option<Line> {
        self.lines.recv().await
    }

    /// Waits for its end, which is near when it has closed its output.
    pub async fn ended(mut self) -> Ended {
        let ended = timeout(LAST_STEPS, self.hold.ended()).await;
        self.last_words(ended.ok()).await
    }

    /// Asks it to end, waits a little, makes it end.
    pub async fn terminate(mut self) -> Ended {
        let ended = match self.hold.signal(Signal::SIGTERM) {
            Ok(()) => timeout(PATIENCE, self.hold.ended()).await.ok(),
            // It has ended already, or its keeper has.
            Err(_) => None,
        };
        self.last_words(ended).await
    }

    /// Sees to it that everything inside is gone, and gathers what it said last.
    async fn last_words(mut self, ended: Option<io::Result<launch::Ended>>) -> Ended {
        let ended = match ended {
            Some(ended) => ended.ok(),
            None => {
                let _ = self.hold.kill().await;
                timeout(TEARDOWN, self.hold.ended()).await.ok().and_then(Result::ok)
            }
        };
        // Without a hold nothing inside lives on, whatever has become of the keeper.
        drop(self.hold);
        let _ = timeout(TEARDOWN, self.keeper.wait()).await;
        let stderr = timeout(LAST_OUTPUT, self.stderr).await;
        Ended {
            exit_code: ended.map_or(-1, |ended| exit_code(ended.how)),
            stderr: stderr.ok().and_then(Result::ok).map(Tail::into_text).unwrap_or_default(),
        }
    }
}

const fn exit_code(how: Exit) -> i32 {
    match how {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
        Exit::TornDown => 128 + Signal::SIGKILL as i32,
    }
}

/// What the executor is told of a run that ended with a result line.
pub fn finished(result: ResultLine, exit_code: i32) -> RunFinished {
    RunFinished {
        // A run that failed says so in one of two places. A signal after the result (128 and more) spoils nothing.
        is_error: result.is_error || (1..128).contains(&exit_code),
        result_text: result.result,
        num_turns: result.num_turns,
        exit_code,
    }
}
