//! Claude Code as a process: started from nothing, watched, and ended.

mod command;
mod files;
mod init;
mod output;
mod transcript;
mod version;

use std::future::pending;
use std::process::Stdio;
use std::time::Duration;

use gatehouse_proto::v1::RunFinished;
use gatehouse_sandbox::launch::{LaunchError, Launched, Launcher, Stage, Streams};
use gatehouse_sandbox::process::{Gone, ProcessHandle, Signal, identity_of};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinHandle;

pub use command::Ports;
pub use files::McpConfig;
use output::Tail;
pub use output::{Line, ResultLine};

use crate::plan::Plan;

/// How long Claude Code has between the request to end and the end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long its last output is waited for after its end; a descendant may hold the pipe open.
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
        source: std::io::Error,
    },
    /// Its working directory is to be empty: it runs git there, and git runs what a repository says.
    #[error("Claude Code's working directory is not empty")]
    WorkingDirectory,
    /// The executable is missing.
    #[error("Claude Code's executable was not found; set `claude_binary` or CLAUDE_BIN to where it is")]
    NotFound,
    /// The launcher failed in another way.
    #[error("Claude Code could not be started: {0}")]
    Launch(LaunchError),
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
            Self::Prepare { .. } | Self::WorkingDirectory | Self::Launch(_) => "claude_not_started",
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

/// A running Claude Code.
#[derive(Debug)]
pub struct Claude {
    child: Child,
    handle: Option<ProcessHandle>,
    lines: tokio::sync::mpsc::Receiver<Line>,
    stderr: JoinHandle<Tail>,
    /// The layers that confine it.
    pub enforced_by: Vec<String>,
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
/// When any step fails; nothing runs then.
pub async fn start(
    launcher: &Launcher,
    plan: &Plan,
    config: &McpConfig,
    ports: &Ports,
) -> Result<Claude, StartFailure> {
    version::check(launcher, plan).await?;
    let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::piped() };
    let begin = transcript::how_to_begin(plan)
        .map_err(|source| StartFailure::Prepare { what: "the transcript", source })?;
    let request = command::run(plan, begin, config.path(), ports);
    let Launched { mut child, enforced_by } = launcher.start(&request, streams).await?;
    let handle = child.id().and_then(|pid| hold(pid).ok());
    if let Some(stdin) = child.stdin.take() {
        tokio::spawn(feed(stdin, plan.stdin_text.clone()));
    }
    let lines = output::lines(child.stdout.take());
    let stderr = tokio::spawn(output::tail(child.stderr.take()));
    Ok(Claude { child, handle, lines, stderr, enforced_by })
}

/// Fails when it has ended already; it is not waited for yet, so the pid is still its own.
fn hold(pid: u32) -> Result<ProcessHandle, Gone> {
    ProcessHandle::adopt(&identity_of(pid)?)
}

async fn feed(mut stdin: ChildStdin, text: String) {
    // A Claude Code that ends before it has read its prompt says why on its standard error.
    let _ = stdin.write_all(text.as_bytes()).await;
    let _ = stdin.shutdown().await;
}

impl Claude {
    /// Its process id, which must never be told.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The next line of its output that says something; `None` when there are no more.
    pub async fn next_line(&mut self) -> Option<Line> {
        let gone = async {
            match &self.handle {
                Some(handle) => handle.wait_gone().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            line = self.lines.recv() => line,
            // What it printed last may still be on its way; what a descendant prints is not waited for.
            () = gone => tokio::time::timeout(LAST_OUTPUT, self.lines.recv()).await.ok().flatten(),
        }
    }

    /// Waits for its end, which is near when it has closed its output, then ends what is left of its process group.
    pub async fn ended(self) -> Ended {
        if let Some(handle) = &self.handle {
            let _ = tokio::time::timeout(LAST_STEPS, handle.wait_gone()).await;
        }
        self.reap().await
    }

    /// Asks it to end, waits a little, makes it end.
    pub async fn terminate(self) -> Ended {
        if let Some(handle) = &self.handle {
            let asked = handle.signal_group(Signal::SIGTERM);
            if asked.is_ok() {
                let _ = tokio::time::timeout(PATIENCE, handle.wait_gone()).await;
            }
        }
        self.reap().await
    }

    /// Kills the group while the leader, dead or alive, still holds its number: it is waited for only afterwards, so the
    /// number cannot be another's.
    async fn reap(mut self) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        let group = self.child.id().and_then(|pid| i32::try_from(pid).ok()).filter(|&pid| pid > 1);
        if let Some(group) = group {
            let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), Signal::SIGKILL);
        }
        let status = self.child.wait().await;
        let exit_code = match status {
            Ok(status) => status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1),
            Err(_) => -1,
        };
        let stderr = tokio::time::timeout(LAST_OUTPUT, self.stderr).await;
        Ended { exit_code, stderr: stderr.ok().and_then(Result::ok).map(Tail::into_text).unwrap_or_default() }
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
