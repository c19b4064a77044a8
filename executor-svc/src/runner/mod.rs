//! Processes: launching a run's shim, knowing whether it lives, ending it, and the lease reaper.
//!
//! The engine orders ([`Order`]); this room carries out and reports back as commands. A shim is known by its
//! [`ProcessIdentity`], proven before any signal: a recycled pid is never hit. It survives this executor; the next one
//! adopts it.

mod adopt;
mod claude;
mod isolate;
mod launch;
mod logs;
mod reaper;
mod shown;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gatehouse_proto::ids::{LinkHash, RunId, SessionId};
use gatehouse_sandbox::process::{Gone, ProcessHandle, ProcessIdentity, Signal};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::config::Settings;
use crate::engine::{Engine, Fault, Order};
use crate::fail_point::{FailPoint, reach};
use crate::folders::SessionFolders;
use crate::ledger::{LedgerError, runs};
use crate::session::{Command, Session, Subagent};
use crate::subagent::Broker;
use crate::worktree::Worktrees;

pub use claude::claude_binary;
pub use reaper::end_what_ran_out;

/// How long a shim may take to end Claude Code and itself before it is killed.
const ORDERLY_END: Duration = Duration::from_secs(6);
/// Between two tries of what must come through in the end.
const AGAIN: Duration = Duration::from_secs(1);

/// Why the process that the ledger names for a run cannot be taken hold of.
#[derive(Debug, thiserror::Error)]
enum NotFound {
    #[error(transparent)]
    Process(#[from] Gone),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl NotFound {
    /// Whether the process is known not to run any more.
    const fn is_proven(&self) -> bool {
        matches!(self, Self::Process(gone) if gone.is_proven())
    }
}

/// The runner room. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runners {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    worktrees: Arc<Worktrees>,
    held: Mutex<HashMap<RunId, Held>>,
    shown: shown::Shown,
}

#[derive(Debug, Clone)]
struct Held {
    process: Arc<ProcessHandle>,
    /// What is told of its end if it is not told otherwise.
    why: Arc<Mutex<String>>,
    program: Arc<shown::Launched>,
}

impl Runners {
    /// A runner room for this engine, which makes worktrees there.
    #[must_use]
    pub fn new(engine: Engine, worktrees: Arc<Worktrees>) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine,
                worktrees,
                held: Mutex::default(),
                shown: shown::Shown::default(),
            }),
        }
    }

    /// Carries out orders until the engine is gone. Each in a task of its own: none waits for another.
    pub async fn serve(self, mut orders: UnboundedReceiver<Order>, broker: Broker) {
        tokio::spawn(reaper::keep_beating(self.shared.engine.clone()));
        tokio::spawn(reaper::run(self.shared.engine.clone()));
        while let Some(order) = orders.recv().await {
            let this = self.clone();
            match order {
                Order::Launch { session, run, epoch } => {
                    tokio::spawn(async move { this.launch(session, run, epoch).await });
                }
                Order::End { session, run } => {
                    tokio::spawn(async move { this.end(session, run).await });
                }
                Order::Ask { session, turn } => broker.ask(session, turn),
            }
        }
    }

    /// Takes note of which process serves a run, as the connection and the process table tell. Idempotent.
    ///
    /// # Errors
    /// When the process is not one that was started with this link, or the ledger cannot be written.
    pub async fn recognise(
        &self,
        session: &SessionId,
        run: &RunId,
        epoch: u32,
        link: &LinkHash,
        pid: u32,
    ) -> Result<(), Fault> {
        if self.held(run).is_some() {
            return Ok(());
        }
        let identity =
            gatehouse_sandbox::process::identity_of(pid).map(|identity| identity.with_nonce(nonce_of(link)));
        match identity.and_then(|identity| ProcessHandle::adopt(&identity)) {
            Ok(process) => self.hold(session, run, epoch, process).await,
            Err(error) => {
                tracing::warn!(%session, %error, "a runner's process could not be recognised");
                Err(crate::session::Refusal::StaleRunner.into())
            }
        }
    }

    fn held(&self, run: &RunId) -> Option<Held> {
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned()
    }

    /// Holds a process and takes note of it in the ledger.
    async fn hold(
        &self,
        session: &SessionId,
        run: &RunId,
        epoch: u32,
        process: ProcessHandle,
    ) -> Result<(), Fault> {
        let identity = serde_json::to_string(process.identity()).unwrap_or_default();
        if !self.watch_over(session, run, epoch, process) {
            return Ok(());
        }
        let noted = run.clone();
        Ok(self.shared.engine.note(move |tx| runs::set_identity(tx, &noted, &identity)).await?)
    }

    /// Holds a process, so that its end is watched for; `false`: this run's is held already.
    fn watch_over(&self, session: &SessionId, run: &RunId, epoch: u32, process: ProcessHandle) -> bool {
        let held = Held {
            process: Arc::new(process),
            why: Arc::new(Mutex::new("the runner's process ended".to_owned())),
            program: Arc::default(),
        };
        {
            let mut all = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
            if all.contains_key(run) {
                return false;
            }
            all.insert(run.clone(), held.clone());
        }
        tokio::spawn(self.clone().watch(session.clone(), run.clone(), epoch, held));
        true
    }

    async fn watch(self, session: SessionId, run: RunId, epoch: u32, held: Held) {
        held.process.wait_gone().await;
        reach(FailPoint::EndSeen);
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        let why = held.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.report_gone(&session, run, epoch, why).await;
    }

    async fn report_gone(&self, session: &SessionId, run_id: RunId, epoch: u32, why: String) {
        self.report(session, Command::RunnerGone { run_id, epoch, why }).await;
    }

    /// Tells the engine what became of a run. That must not be lost, or the session would wait for a process that is
    /// not there: while the ledger cannot be written, it is said again.
    async fn report(&self, session: &SessionId, command: Command) {
        loop {
            let said = command.clone();
            match self.shared.engine.submit(session, None, move |_, _| Ok(said)).await {
                Ok(_) => return,
                Err(Fault::Ledger(error)) => {
                    tracing::error!(%session, %error, "what became of a runner could not be recorded yet");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(fault) => {
                    tracing::error!(%session, %fault, "what became of a runner could not be recorded");
                    return;
                }
            }
        }
    }

    /// Ends a run's process: asks, waits, kills. Whoever watches it reports the end.
    async fn end(self, session: SessionId, run: RunId) {
        let Some(process) = self.to_be_ended(&session, &run).await else {
            return self.never_was(&session, run).await;
        };
        let _ = process.signal(Signal::SIGTERM);
        reach(FailPoint::EndAsked);
        if tokio::time::timeout(ORDERLY_END, process.wait_gone()).await.is_err() {
            tracing::warn!(%session, "a runner did not end in time and is killed");
            let _ = process.signal(Signal::SIGKILL);
        }
        // One that nobody could take hold of has nobody who watches it.
        if self.held(&run).is_none() {
            process.wait_gone().await;
            self.never_was(&session, run).await;
        }
    }

    /// The run's process; `None` if there is none. Without proof of either it is asked again: a session must not pass
    /// for ended while its process may live.
    async fn to_be_ended(&self, session: &SessionId, run: &RunId) -> Option<Arc<ProcessHandle>> {
        loop {
            if let Some(held) = self.held(run) {
                return Some(held.process);
            }
            match self.find(run).await {
                Ok(found) => return found.map(Arc::new),
                Err(gone) if gone.is_proven() => return None,
                Err(error) => {
                    tracing::warn!(%session, %error, "whether a runner still lives cannot be told yet");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// The process that the ledger names for a run, if it still is that one.
    async fn find(&self, run: &RunId) -> Result<Option<ProcessHandle>, NotFound> {
        let wanted = run.clone();
        let text = self.shared.engine.read(move |connection| runs::identity(connection, &wanted)).await?;
        let Some(text) = text else { return Ok(None) };
        let identity: ProcessIdentity =
            serde_json::from_str(&text).map_err(|error| LedgerError::damaged("run.identity", error))?;
        Ok(Some(ProcessHandle::adopt(&identity)?))
    }

    /// A run whose process is not to be found has ended already, or never began.
    async fn never_was(&self, session: &SessionId, run: RunId) {
        let epoch = match self.shared.engine.load(session) {
            Ok(Session { ending: Some(ending), .. }) if ending.run_id == run => ending.epoch,
            Ok(Session { subagent: Some(subagent), .. }) if subagent.run.id == run => subagent.run.epoch,
            _ => return,
        };
        self.report_gone(session, run, epoch, "the runner's process ended".to_owned()).await;
    }
}

/// What is started as Claude Code.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it may be, best first.
    pub candidates: Vec<PathBuf>,
    /// Whether it has to be the version that Gatehouse is verified with.
    pub is_verified: bool,
}

/// What is started as the session's own Claude Code, or as its subagent's.
#[must_use]
pub fn program_of(settings: &Settings, subagent: Option<&Subagent>) -> Program {
    let other = subagent.and(settings.deepseek.as_ref()).and_then(|deepseek| deepseek.executable.clone());
    match other {
        Some(executable) => Program { candidates: vec![executable], is_verified: false },
        None => Program {
            candidates: settings.claude.candidates.clone(),
            is_verified: !settings.claude.any_version,
        },
    }
}

/// The private folders of a run: the session's own, or its subagent's.
#[must_use]
pub fn folders_of(settings: &Settings, session: &Session, run: &RunId) -> SessionFolders {
    let folders = SessionFolders::of(&settings.state_dir, &session.id);
    match session.subagent_of(run) {
        Some(subagent) => folders.of_subagent(&subagent.id),
        None => folders,
    }
}

/// The text that stands on a shim's command line, so that its pid can be proven. It follows from the link, and the
/// link does not follow from it.
fn nonce_of(link: &LinkHash) -> String {
    link.as_str().chars().take(16).collect()
}
