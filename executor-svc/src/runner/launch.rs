//! Launching a run: folders, link token, shim.

use std::path::Path;
use std::process::Stdio;

use gatehouse_proto::ids::{LinkToken, RunId, SessionId};
use gatehouse_proto::socket::Role;
use gatehouse_sandbox::process::{ProcessHandle, identity_of};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command as Process};

use super::{Runners, claude_binary, folders_of, logs, nonce_of, program_of};
use crate::config::Settings;
use crate::engine::Order;
use crate::fail_point::{FailPoint, reach};
use crate::ledger::runs;
use crate::session::{Command, LaunchFailure, RunOutcome};
use crate::worktree::{CreateFault, RemoveFault};

/// Why a launch did not get as far as a running shim.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    #[error("the run was ended meanwhile")]
    Over,
    #[error("no Claude Code was found")]
    NoClaude,
    #[error("the runner program is missing beside the executor")]
    NoShim,
    // The source may name a path of the state directory, which has no place in a log.
    #[error("{step}: {}", source.kind())]
    Io { step: &'static str, source: std::io::Error },
    #[error("no randomness: {0}")]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Ledger(#[from] crate::ledger::LedgerError),
    #[error("the worktree could not be made: {0}")]
    Worktree(#[source] CreateFault),
    #[error("what an earlier try left of the worktree could not be removed: {0}")]
    Unclear(#[source] RemoveFault),
    #[error("the runner ended at once: {0}")]
    Gone(#[from] gatehouse_sandbox::process::Gone),
    #[error(transparent)]
    Fault(#[from] crate::engine::Fault),
}

fn io(step: &'static str) -> impl FnOnce(std::io::Error) -> LaunchError {
    move |source| LaunchError::Io { step, source }
}

impl Runners {
    /// Launches a run, or reports why it cannot be.
    pub(super) async fn launch(self, session: SessionId, run: RunId, epoch: u32) {
        // An executor that goes down leaves it to the next one.
        self.shared.engine.launches_allowed().await;
        let isolated = self.isolate(&session, &run, epoch).await;
        let started = match isolated {
            Ok(()) => self.start_shim(&session, &run, epoch).await,
            Err(error) => Err(error),
        };
        match started {
            Ok(child) => {
                self.watch_for_the_first_turn(session, run);
                reap(child).await;
            }
            Err(LaunchError::Over) => tracing::debug!(%session, "a launch was overtaken by its end"),
            Err(error) => {
                tracing::warn!(%session, %error, "launch failed");
                let outcome = RunOutcome::Failed(failure(&error));
                self.report(&session, Command::EndRun { run_id: run, epoch, outcome }).await;
            }
        }
    }

    async fn start_shim(&self, session: &SessionId, run: &RunId, epoch: u32) -> Result<Child, LaunchError> {
        let settings = self.shared.engine.settings();
        let known = self.shared.engine.load(session)?;
        let program = program_of(settings, known.subagent_of(run));
        let folders = folders_of(settings, &known, run);
        let folders = blocking(move || {
            claude_binary(&program.candidates).ok_or(LaunchError::NoClaude)?;
            folders.make().map_err(io("making the session's folders"))?;
            Ok(folders)
        })
        .await?;
        let shim = settings.helper("runner-shim").ok_or(LaunchError::NoShim)?;
        let link = LinkToken::mint()?;
        let hash = link.hash();
        let (noted, noted_hash) = (run.clone(), hash.clone());
        // Durable before the process exists: whoever shows up with the token is known, also to the next executor.
        self.shared.engine.note(move |tx| runs::set_link(tx, &noted, &noted_hash)).await?;
        self.still_wanted(run).await?;
        reach(FailPoint::LaunchLinkNoted);
        let mut child = spawn(&shim, settings, &nonce_of(&hash), &folders.run())?;
        reach(FailPoint::LaunchSpawned);
        let pid = child.id().unwrap_or_default();
        let process =
            identity_of(pid).and_then(|identity| ProcessHandle::adopt(&identity.with_nonce(nonce_of(&hash))));
        let held = match process {
            Ok(process) => self.hold(session, run, epoch, process).await,
            Err(gone) => return Err(gone.into()),
        };
        held?;
        reach(FailPoint::LaunchProcessNoted);
        // From here on an order to end finds the process. One that came before found none, so it is heeded now: a shim
        // that never gets its token ends by itself.
        self.still_wanted(run).await?;
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            stdin
                .write_all(format!("{}\n", link.to_hex()).as_bytes())
                .await
                .map_err(io("handing over the link token"))?;
        }
        reach(FailPoint::LaunchTokenGiven);
        Ok(child)
    }

    /// A launch that has not asked for anything in time is ended; its end then says why.
    pub(super) fn watch_for_the_first_turn(&self, session: SessionId, run: RunId) {
        let (this, limit) = (self.clone(), self.shared.engine.settings().claude.launch_timeout);
        tokio::spawn(async move {
            let started = |s: &crate::session::Session| !s.is_starting(&run);
            match this.shared.engine.wait_until(&session, limit, started).await {
                Ok(state) if !started(&state) => {
                    if let Some(held) = this.held(&run) {
                        let why =
                            format!("Claude Code did not ask for an answer within {} s", limit.as_secs());
                        *held.why.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = why;
                    }
                    this.shared.engine.order(Order::End { session, run });
                }
                _ => {}
            }
        });
    }

    async fn still_wanted(&self, run: &RunId) -> Result<(), LaunchError> {
        let wanted = run.clone();
        let open = self.shared.engine.read(move |connection| runs::is_open(connection, &wanted)).await?;
        open.then_some(()).ok_or(LaunchError::Over)
    }
}

/// Runs what may wait for a disk where it holds up nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LaunchError> + Send + 'static,
) -> Result<T, LaunchError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| LaunchError::Io {
        step: "preparing the launch",
        source: std::io::Error::other(error),
    })?
}

fn spawn(shim: &Path, settings: &Settings, nonce: &str, run_dir: &Path) -> Result<Child, LaunchError> {
    let log = logs::open(&run_dir.join("shim.log")).map_err(io("opening the runner's log"))?;
    let mut process = Process::new(shim);
    process
        .arg("--runner-socket")
        .arg(Role::Runner.socket(&settings.runtime_dir))
        .args(["--run-nonce", nonce])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        // It outlives this process on purpose.
        .kill_on_drop(false);
    if let Some(filter) = std::env::var_os("GATEHOUSE_LOG") {
        process.env("GATEHOUSE_LOG", filter);
    }
    process.spawn().map_err(io("starting the runner"))
}

/// A shim that ends while this executor lives leaves a zombie unless its parent asks.
async fn reap(mut child: Child) {
    if let Err(error) = child.wait().await {
        tracing::warn!(%error, "a runner could not be waited for");
    }
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

fn failure(error: &LaunchError) -> LaunchFailure {
    let (code, what_to_do) = match error {
        LaunchError::NoClaude => (
            "claude_not_found",
            "Install Claude Code 2.1.247 (npm install -g @anthropic-ai/claude-code@2.1.247) or set CLAUDE_BIN, then call native_session_continue.",
        ),
        LaunchError::NoShim => (
            "runner_not_found",
            "Install runner-shim and sandbox-launch beside executor-svc, then call native_session_continue.",
        ),
        LaunchError::Worktree(_) | LaunchError::Unclear(_) => (
            "worktree_failed",
            "Have the user look at the repository, then call native_session_continue to try again, or start a new session.",
        ),
        _ => (
            "launch_failed",
            "Call native_session_continue to try again; the executor's log has the details.",
        ),
    };
    let message = match error {
        LaunchError::NoClaude => "No Claude Code was found at any of the places where it may be.".to_owned(),
        LaunchError::NoShim => "The runner program is not installed beside the executor.".to_owned(),
        // Worktrees and repositories are the user's own, and no secret.
        LaunchError::Worktree(_) | LaunchError::Unclear(_) => sentence(&error.to_string()),
        // The causes name internal paths; those stay in the log.
        LaunchError::Io { step, .. } => format!("The launch failed while {step}."),
        _ => "The launch failed before Claude Code was started.".to_owned(),
    };
    LaunchFailure { code: code.to_owned(), message, what_to_do: what_to_do.to_owned() }
}
