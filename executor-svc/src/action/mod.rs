//! The one path that every tool call takes: authorised -> (writes and commands: prepared) -> performed -> receipt.
//!
//! [`Actions::invoke`] is a re-ask by key. A call that has its receipt is answered from the ledger; one that is in
//! flight is waited for; one that is authorised and not begun is performed. So it does not matter how often, or after
//! which crash, the shim asks. Whether a call may be performed at all was decided when its reply was committed; here
//! it is only recognised, by its id, its name and the digest of its input.
//!
//! What only looks is performed as often as need be. What may have an effect is *prepared* first: from that commit on it
//! is never begun again, and a crash leaves it to [`Actions::reconcile`].

mod change;
mod command;
mod contents;
mod difference;
mod operation;
mod prune;
mod reconcile;
mod resolve;
mod short;
mod subagent;
mod undo;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gatehouse_proto::ids::{RunId, SessionId, ToolCallId};
use rusqlite::Connection;

use crate::commands::Commands;
use crate::content::{ContentFault, ContentStore, Keeping};
use crate::engine::{Engine, Fault, Flight, Once, Outcome, Takeoff};
use crate::fail_point::{FailPoint, reach};
use crate::files::replace::Replacer;
use crate::files::{Root, SessionFiles};
use crate::ledger::LedgerError;
use crate::ledger::actions::{self, ActionRow};
use crate::ledger::once::Claim;
use crate::session::{CallState, Command, Refusal, Run, Session, State, SubagentState};
use crate::tools::{self, CheckedInput, ReadingInput, Receipt, ReceiptBudget, ToolContext, ToolName};

use change::Workshop;
pub use contents::{ContentCheck, check_contents};
pub use difference::Difference;
pub use operation::{OperationFault, OperatorRequest};
pub use prune::{PruneAsk, PruneMode, Pruned, ended_before};
pub use short::ShortResult;

/// Between two tries to record what must not be lost.
const AGAIN: Duration = Duration::from_secs(1);
/// How long reading and searching may take, whatever the input asks for.
const READ_TIME: Duration = Duration::from_secs(30);

/// A call as Claude Code makes it.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The session that the shim's token names.
    pub session: SessionId,
    /// Its run.
    pub run: RunId,
    /// Its launch.
    pub epoch: u32,
    /// The action.
    pub id: ToolCallId,
    /// The tool that Claude Code called.
    pub name: String,
    /// Digest of what it called it with.
    pub input_sha256: String,
}

/// The action room. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Actions {
    engine: Engine,
    commands: Arc<Commands>,
    workshop: Workshop,
    files: Arc<Mutex<HashMap<SessionId, Arc<SessionFiles>>>>,
    /// Held while something is done that the operator asked for.
    operating: Arc<tokio::sync::Mutex<()>>,
    /// Held while contents are pruned.
    pruning: Arc<tokio::sync::Mutex<()>>,
}

enum Standing {
    Settled(Box<ActionRow>),
    Open(Box<Open>),
}

/// An action without a receipt, that may be made now.
struct Open {
    id: ToolCallId,
    session: Session,
    row: ActionRow,
}

impl Actions {
    /// Actions of this engine's sessions.
    #[must_use]
    pub fn new(engine: Engine, commands: Commands, replacer: Replacer, content: ContentStore) -> Self {
        let workshop = Workshop { replacer, content };
        Self {
            engine,
            commands: Arc::new(commands),
            workshop,
            files: Arc::default(),
            operating: Arc::default(),
            pruning: Arc::default(),
        }
    }

    /// Gives the call's result, performing it if nobody has.
    ///
    /// # Errors
    /// [`Refusal::StaleRunner`] or [`Refusal::NotAuthorised`] if this call may not be made, or that the ledger cannot
    /// be read or written; asking again is then safe.
    pub async fn invoke(&self, call: Invocation) -> Result<ShortResult, Fault> {
        let (this, on_files) = (self.clone(), ToolName::parse(&call.name).is_some_and(ToolName::is_on_files));
        // Goes on also where the asker goes away meanwhile.
        if on_files {
            // What waits for the disk at every step has one thread from beginning to end: handing over to another one for
            // each would cost more than most steps do.
            let runtime = tokio::runtime::Handle::current();
            blocking(move || runtime.block_on(this.invoke_here(&call))).await?
        } else {
            let done = tokio::spawn(async move { this.invoke_here(&call).await });
            done.await.map_err(|error| LedgerError::damaged("action task", error))?
        }
    }

    async fn invoke_here(&self, call: &Invocation) -> Result<ShortResult, Fault> {
        loop {
            match self.engine.take_off(&call.session, &call.id) {
                Takeoff::Begun(flight) => {
                    let open = match self.standing(call)? {
                        Standing::Settled(row) => return self.short(&row),
                        Standing::Open(open) => open,
                    };
                    reach(FailPoint::ActionBegun);
                    let began = Instant::now();
                    let performed = self.perform_and_settle(*open, &flight).await;
                    drop(flight);
                    let row = self.engine.glance(|connection| actions::load(connection, &call.id))?;
                    let settled = row.filter(|row| row.state == "done");
                    if let Some(row) = &settled {
                        self.count(row, began.elapsed());
                    }
                    performed?;
                    if let Some(row) = settled {
                        return self.short(&row);
                    }
                }
                // Closed without a message: it is over. Look what came of it.
                Takeoff::InFlight(mut over) => while over.changed().await.is_ok() {},
            }
        }
    }

    fn standing(&self, call: &Invocation) -> Result<Standing, Fault> {
        let found = self.engine.glance(|connection| {
            Ok((actions::load(connection, &call.id)?, crate::engine::load(connection, &call.session)?))
        });
        let (Some(row), Some(session)) = found? else { return Err(Refusal::NotAuthorised.into()) };
        if row.session_id != call.session.as_str() || row.name != call.name {
            return Err(Refusal::NotAuthorised.into());
        }
        if row.state == "done" {
            return Ok(Standing::Settled(Box::new(row)));
        }
        recognise(&session, call)?;
        Ok(Standing::Open(Box::new(Open { id: call.id.clone(), session, row })))
    }

    /// Counts an action by what its receipt says; one without a receipt has not ended.
    fn count(&self, row: &ActionRow, took: Duration) {
        match (row.ok, row.code.as_deref()) {
            (None, _) => {}
            (Some(true), _) => self.engine.metrics().action(&row.name, "ok", took),
            (Some(false), code) => self.engine.metrics().action(&row.name, code.unwrap_or("failed"), took),
        }
    }

    /// How much is kept of files before and after changes, in bytes. It blocks on the disk the first time.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn content_bytes(&self) -> Result<u64, ContentFault> {
        self.workshop.content.used_bytes()
    }

    async fn perform_and_settle(&self, open: Open, flight: &Flight) -> Result<(), Fault> {
        let input = input_of(&open.row)?;
        if open.row.state == "prepared" {
            return self.reconcile_one(&open.session.id, &open.row).await;
        }
        match input {
            CheckedInput::Reading(input) => self.look(open, input, flight).await,
            CheckedInput::Change(input) => self.change(open, input, flight).await,
            CheckedInput::Command(call) => self.run_command(open, call, flight).await,
            CheckedInput::Subagent(input) => self.subagent(open, input, flight).await,
        }
    }

    /// To be called on a thread that may block, which it does.
    async fn look(&self, open: Open, input: ReadingInput, flight: &Flight) -> Result<(), Fault> {
        let budget = open.budget();
        let files = self.files_of(&open.session);
        let context = ToolContext { files, cancel: flight.cancel(), deadline: Instant::now() + READ_TIME };
        let receipt = tools::perform(&input, &context, budget, &open.id);
        reach(FailPoint::ActionPerformed);
        self.settle(&open.session.id, open.id, receipt).await
    }

    /// Submits a command that names contents, and has them recorded in the same transaction.
    async fn submit_keeping(
        &self,
        session: &SessionId,
        once: Option<Once>,
        keeping: Keeping,
        command: impl FnOnce(&Connection, Claim) -> Result<Command, LedgerError> + Send + 'static,
    ) -> Result<Outcome, Fault> {
        let keeping = Arc::new(keeping);
        let (recorded, replacer) = (Arc::clone(&keeping), self.workshop.replacer.clone());
        let submitted = self.engine.submit(session, once, move |tx, claim| {
            let command = command(tx, claim)?;
            recorded.record(tx)?;
            let failed = |source| LedgerError::Io { path: "ledger.db".into(), source };
            replacer.before_commit().map_err(failed)?;
            Ok(command)
        });
        let outcome = submitted.await?;
        keeping.committed();
        Ok(outcome)
    }

    async fn settle(&self, session: &SessionId, id: ToolCallId, receipt: Receipt) -> Result<(), Fault> {
        let settled = move |_: &_, _| Ok(Command::Settle { id, receipt });
        match self.engine.submit(session, None, settled).await {
            // A stop or an expiry came first and left a receipt that says so.
            Ok(_) | Err(Fault::Refused(Refusal::NotAuthorised)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Records the receipt of what has been done, however long the ledger cannot be written: it is not done again, and
    /// nobody else knows what came of it.
    async fn settle_in_the_end(&self, session: &SessionId, id: ToolCallId, receipt: Receipt) {
        while let Err(error) = self.settle(session, id.clone(), receipt.clone()).await {
            tracing::error!(%session, %error, "the receipt of an action could not be recorded yet");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Nobody can tell what came of it: the session stops until a person decides.
    async fn mark_uncertain(&self, session: &SessionId, id: ToolCallId, why: String) {
        loop {
            let (marked, told) = (id.clone(), why.clone());
            let mark = move |_: &_, _| Ok(Command::MarkUncertain { id: marked, why: told });
            match self.engine.submit(session, None, mark).await {
                // Marked before, or settled.
                Ok(_) | Err(Fault::Refused(_)) => return,
                Err(error) => {
                    tracing::error!(%session, %error, "an uncertain action could not be marked yet");
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The session's view of the file system: one for all its actions, since it remembers what it has walked.
    fn files_of(&self, session: &Session) -> Arc<SessionFiles> {
        let mut all = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // One that nobody works with any more is made again when needed.
        if all.len() > 256 {
            all.retain(|_, files| Arc::strong_count(files) > 1);
        }
        all.entry(session.id.clone())
            .or_insert_with(|| {
                let root = Root {
                    path: session.root.path.clone(),
                    dev: session.root.device,
                    ino: session.root.inode,
                };
                Arc::new(SessionFiles::new(root, self.engine.policy().clone()))
            })
            .clone()
    }

    fn short(&self, row: &ActionRow) -> Result<ShortResult, Fault> {
        Ok(short::short_result(row, self.engine.settings().limits.short_result_bytes)
            .ok_or_else(|| LedgerError::damaged("action.receipt", "a settled action without a receipt"))?)
    }
}

impl Open {
    fn budget(&self) -> ReceiptBudget {
        ReceiptBudget::of_bytes(self.row.budget as usize)
    }
}

/// Runs what blocks where that is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|error| LedgerError::damaged("tool", error))?)
}

/// The session's run, or its subagent's, if that works on a reply.
fn at_work<'a>(session: &'a Session, run: &RunId) -> Option<&'a Run> {
    match (session.subagent_of(run), &session.state) {
        (Some(subagent), _) => (subagent.state == SubagentState::Working).then_some(&subagent.run),
        (None, State::Running(run)) => Some(run),
        _ => None,
    }
}

/// Whether this is a call that the session's present run, or its subagent's, may make.
fn recognise(session: &Session, call: &Invocation) -> Result<(), Refusal> {
    let run = at_work(session, &call.run).ok_or(Refusal::StaleRunner)?;
    if run.id != call.run || run.epoch != call.epoch {
        return Err(Refusal::StaleRunner);
    }
    let authorised = run.calls.iter().find(|known| known.id == call.id).ok_or(Refusal::NotAuthorised)?;
    if authorised.input_sha256 != call.input_sha256 || authorised.state == CallState::Settled {
        return Err(Refusal::NotAuthorised);
    }
    Ok(())
}

fn input_of(row: &ActionRow) -> Result<CheckedInput, LedgerError> {
    let damaged = |why: String| LedgerError::damaged("action.input", why);
    let name = ToolName::parse(&row.name).ok_or_else(|| damaged(format!("no tool `{}`", row.name)))?;
    let value = serde_json::from_str(&row.input).map_err(|error| damaged(error.to_string()))?;
    tools::check(name, &value).map_err(|fault| damaged(fault.to_string()))
}
