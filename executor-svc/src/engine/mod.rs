//! Where a command meets the ledger.
//!
//! [`Engine::submit`] runs the session machine inside the ledger's writer thread: load, decide, record, commit. What
//! follows from a commit (waking waiters, orders to the runner room, ending actions that were cancelled) happens right
//! after it on that thread, whether or not the asker is still there. Reading goes past the writer.

mod crash;
mod exclusive;
mod flight;
mod performing;
mod pulse;
mod reading;
mod record;
mod recovery;
mod subagent_record;
mod territory;
mod time;
mod watchers;

use std::sync::Arc;

use gatehouse_proto::ids::{LeaseId, RequestKey, RunId, SessionId, TurnId};
use rusqlite::Connection;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Semaphore, watch};

pub use exclusive::Remark;
pub use flight::{Flight, Takeoff};
pub use performing::{Entry, Performed, Performing};
pub use pulse::BEAT;
pub use recovery::{Guess, RecoverySecret, SecretError, Tries, private_file};
pub use territory::taken_meanwhile;
pub use watchers::{Change, Watchers};

use crate::clock::Clock;
use crate::config::Settings;
use crate::contact::ContactBook;
use crate::files::FilePolicy;
use crate::ledger::once::{Claim, OnceRow};
use crate::ledger::{LedgerError, Opened, WriteError, once, sessions};
use crate::metrics::Metrics;
use crate::session::{Answer, Command, Effect, NewSession, Refusal, Session, Step, apply, create};

/// Where the keys of starts hold.
pub const START_SCOPE: &str = "start";

/// Why the engine says no.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No session has this id.
    #[error("no session has this id")]
    UnknownSession,
    /// The machine refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// As many sessions are live as may be.
    #[error("{live} sessions are live, of {limit}")]
    Capacity {
        /// How many are.
        live: u32,
        /// How many may be.
        limit: u32,
    },
    /// Another live session writes there.
    #[error("another live session works in {0:?}")]
    RootTaken(std::path::PathBuf),
    /// The ledger cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl From<WriteError<Self>> for Fault {
    fn from(error: WriteError<Self>) -> Self {
        match error {
            WriteError::Refused(fault) => fault,
            WriteError::Ledger(error) => Self::Ledger(error),
        }
    }
}

/// What the runner room has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Launch a run.
    Launch {
        /// Its session.
        session: SessionId,
        /// The run.
        run: RunId,
        /// Its launch.
        epoch: u32,
    },
    /// End a run's process.
    End {
        /// Its session.
        session: SessionId,
        /// The run.
        run: RunId,
    },
    /// Ask the provider of the session's subagent for this turn's answer.
    Ask {
        /// Its session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
    },
}

/// A caller's key, where it holds, and what it stands for.
#[derive(Debug, Clone)]
pub struct Once {
    /// Where the key holds: the operation, and the session for all but start.
    pub scope: String,
    /// The caller's key.
    pub key: RequestKey,
    /// Hash of everything that makes the call what it is.
    pub content_hash: String,
    /// The lease that the call mints, if it mints one.
    pub mints: Option<LeaseId>,
}

/// What came of a command.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The session as it is now.
    pub session: Session,
    /// What the asker is told.
    pub answer: Answer,
}

impl Outcome {
    /// Whether this very call was made before.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.answer == Answer::Replayed
    }
}

/// The engine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    ledger: Opened,
    clock: Arc<dyn Clock>,
    settings: Settings,
    policy: Arc<FilePolicy>,
    secret: RecoverySecret,
    tries: Tries,
    watchers: Watchers,
    metrics: Metrics,
    contact: ContactBook,
    performing: Performing,
    pulse: pulse::Pulse,
    journal_head: watch::Sender<u64>,
    launches: watch::Sender<bool>,
    waits: Semaphore,
    orders: UnboundedSender<Order>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// What an engine is made of.
#[derive(Debug)]
pub struct Parts {
    /// The opened ledger.
    pub ledger: Opened,
    /// The settings.
    pub settings: Settings,
    /// The file rules.
    pub policy: Arc<FilePolicy>,
    /// The recovery secret.
    pub secret: RecoverySecret,
    /// Where orders to the runner room go.
    pub orders: UnboundedSender<Order>,
}

impl Engine {
    /// An engine over an opened ledger.
    #[must_use]
    pub fn new(parts: Parts, clock: Arc<dyn Clock>) -> Self {
        let Parts { ledger, settings, policy, secret, orders } = parts;
        let contact = ContactBook::open(&settings.state_dir);
        let shared = Shared {
            ledger,
            clock,
            settings,
            policy,
            secret,
            tries: Tries::default(),
            watchers: Watchers::default(),
            metrics: Metrics::default(),
            contact,
            performing: Performing::default(),
            pulse: pulse::Pulse::default(),
            journal_head: watch::Sender::new(0),
            launches: watch::Sender::new(true),
            waits: Semaphore::new(watchers::MOST_WAITS),
            orders,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The file rules.
    #[must_use]
    pub fn policy(&self) -> &Arc<FilePolicy> {
        &self.shared.policy
    }

    /// The recovery secret.
    #[must_use]
    pub fn secret(&self) -> &RecoverySecret {
        &self.shared.secret
    }

    /// Wrong recovery tokens, lately.
    #[must_use]
    pub fn tries(&self) -> &Tries {
        &self.shared.tries
    }

    /// What is being performed at this moment.
    #[must_use]
    pub fn performing(&self) -> &Performing {
        &self.shared.performing
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// What the front has seen of its clients.
    #[must_use]
    pub fn contact(&self) -> &ContactBook {
        &self.shared.contact
    }

    /// Shows the journal's last place, and each later one.
    #[must_use]
    pub fn journal_head(&self) -> watch::Receiver<u64> {
        self.shared.journal_head.subscribe()
    }

    /// Shows that a session changed. Subscribe before looking.
    #[must_use]
    pub fn watch(&self, session: &SessionId) -> watch::Receiver<Change> {
        self.shared.watchers.subscribe(session)
    }

    /// Lets launches begin, or keeps them back: an executor that goes down leaves them to the next one.
    pub fn allow_launches(&self, allowed: bool) {
        self.shared.launches.send_replace(allowed);
    }

    /// Waits until launches may begin.
    pub async fn launches_allowed(&self) {
        // The sender lives as long as this engine does.
        let _ = self.shared.launches.subscribe().wait_for(|allowed| *allowed).await;
    }

    /// Hands an order to the runner room.
    pub fn order(&self, order: Order) {
        // Only a process that is going down has no runner room.
        let _ = self.shared.orders.send(order);
    }

    /// A session as it is.
    ///
    /// # Errors
    /// [`Fault::UnknownSession`], or that the ledger cannot be read.
    pub fn load(&self, id: &SessionId) -> Result<Session, Fault> {
        let found = self.glance(|connection| load(connection, id))?;
        found.map(|session| self.with_grace(session)).ok_or(Fault::UnknownSession)
    }

    /// The session that a start with this key made before, if there was one.
    ///
    /// # Errors
    /// As [`Engine::create`].
    pub async fn replayed_start(
        &self,
        key: RequestKey,
        content_hash: String,
    ) -> Result<Option<Outcome>, Fault> {
        let found = self.read(move |connection| {
            let claim = once::claim(connection, START_SCOPE, &key, &content_hash)?;
            let Claim::Replay(row) = &claim else { return Ok((claim, None)) };
            let session = load(connection, &row.session_id)?;
            Ok((claim, session))
        });
        match found.await? {
            (Claim::Replay(row), Some(session)) => replay_of_start(session, &row).map(Some),
            (Claim::Conflict, _) => Err(Refusal::IdempotencyConflict.into()),
            _ => Ok(None),
        }
    }

    /// Makes a session; given again with the same key, the session that was made then.
    ///
    /// # Errors
    /// [`Refusal::IdempotencyConflict`], [`Fault::Capacity`], [`Refusal::LeaseMismatch`] if the lease that the first
    /// call minted has been rotated since, or that the ledger cannot be written.
    pub async fn create(&self, new: NewSession, once: Once) -> Result<Outcome, Fault> {
        let engine = self.clone();
        let capacity = self.shared.settings.limits.live_sessions;
        let made = self.shared.ledger.writer.write(move |tx| {
            let claim = once::claim(tx, &once.scope, &once.key, &once.content_hash)?;
            let step = match claim {
                Claim::Conflict => return Err(refused(Refusal::IdempotencyConflict)),
                Claim::Replay(row) => {
                    let session =
                        load(tx, &row.session_id)?.ok_or(WriteError::Refused(Fault::UnknownSession))?;
                    let outcome = replay_of_start(session, &row).map_err(WriteError::Refused)?;
                    return Ok((outcome, Box::new(|| ())));
                }
                Claim::Fresh => {
                    let live = sessions::count_live(tx)?;
                    if live >= capacity {
                        return Err(WriteError::Refused(Fault::Capacity { live, limit: capacity }));
                    }
                    if let Some(path) = territory::taken(tx, &new)? {
                        return Err(WriteError::Refused(Fault::RootTaken(path)));
                    }
                    create(new, engine.now())
                }
            };
            engine.commit(tx, None, step, Some(&once))
        });
        Ok(made.await?)
    }

    /// Asks something of a session. `command` is made inside the transaction, so that what it looks up is what the
    /// machine decides on.
    ///
    /// # Errors
    /// [`Fault::UnknownSession`], the machine's refusal, or that the ledger cannot be written.
    pub async fn submit(
        &self,
        id: &SessionId,
        once: Option<Once>,
        command: impl FnOnce(&Connection, Claim) -> Result<Command, LedgerError> + Send + 'static,
    ) -> Result<Outcome, Fault> {
        let (engine, id) = (self.clone(), id.clone());
        let capacity = self.shared.settings.limits.live_sessions;
        let done = self.shared.ledger.writer.write(move |tx| {
            let before = load(tx, &id)?.ok_or(WriteError::Refused(Fault::UnknownSession))?;
            let before = engine.with_grace(before);
            let claim = match &once {
                Some(once) => once::claim(tx, &once.scope, &once.key, &once.content_hash)?,
                None => Claim::Fresh,
            };
            let fresh = claim == Claim::Fresh;
            let command = command(tx, claim)?;
            let step = apply(&before, engine.now(), command).map_err(refused)?;
            territory::expect_room(tx, capacity, &before, &step.session)?;
            engine.commit(tx, Some(&before), step, once.as_ref().filter(|_| fresh))
        });
        Ok(done.await?)
    }

    /// Looks at a session with a lease. Writes only when the lease is worth renewing; where it cannot be written, the
    /// answer is still given, with the lease as it was.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub async fn look(&self, id: &SessionId, lease: LeaseId) -> Result<Outcome, Fault> {
        let before = self.load(id)?;
        let step = apply(&before, self.now(), Command::Look { lease: lease.clone() })?;
        if step.session == before {
            return Ok(Outcome { session: before, answer: step.answer });
        }
        match self.submit(id, None, move |_, _| Ok(Command::Look { lease })).await {
            Err(Fault::Ledger(error)) => {
                tracing::error!(%error, "a lease could not be renewed");
                Ok(Outcome { session: before, answer: step.answer })
            }
            other => other,
        }
    }

    fn commit(
        &self,
        tx: &Connection,
        before: Option<&Session>,
        step: Step,
        once: Option<&Once>,
    ) -> Committed {
        let Step { session, effects, answer } = step;
        let changed = before != Some(&session);
        if changed {
            record::save(tx, &session)?;
        }
        let head = record::effects(tx, &session, &effects, self.now())?;
        if let Some(once) = once {
            let row = OnceRow { session_id: session.id.clone(), lease_id: once.mints.clone() };
            once::record(tx, &once.scope, &once.key, &once.content_hash, &row)?;
        }
        crash::before_commit(&effects);
        let (engine, shown) = (self.clone(), session.clone());
        // Who waits is woken by changes alone: one that asks in a loop would wake itself for ever.
        let news = changed || !effects.is_empty();
        let after = move || {
            crash::after_commit(&effects);
            if news {
                engine.after_commit(&shown, &effects, head);
            }
        };
        Ok((Outcome { session, answer }, Box::new(after)))
    }

    /// Runs on the writer thread: nothing here may block.
    fn after_commit(&self, session: &Session, effects: &[Effect], journal_head: Option<u64>) {
        for effect in effects {
            match effect {
                Effect::Launch { run_id, epoch } => {
                    self.order(Order::Launch {
                        session: session.id.clone(),
                        run: run_id.clone(),
                        epoch: *epoch,
                    });
                }
                Effect::EndRunner { run_id, .. } => {
                    self.order(Order::End { session: session.id.clone(), run: run_id.clone() });
                }
                Effect::AskModel { turn_id } => {
                    self.order(Order::Ask { session: session.id.clone(), turn: turn_id.clone() });
                }
                Effect::ActionCancelled { id, .. } => self.shared.performing.cancel(id),
                Effect::TurnOpened { .. } => self.shared.metrics.turn(),
                _ => {}
            }
        }
        // What of a closed run is still in flight is to end: a command does, a write that has begun pays no heed.
        session.finishing.iter().for_each(|call| self.shared.performing.cancel(&call.id));
        if let Some(seq) = journal_head {
            self.shared.journal_head.send_replace(seq);
        }
        self.shared.watchers.changed(&session.id, session.revision);
    }
}

type Committed = Result<(Outcome, crate::ledger::AfterCommit), WriteError<Fault>>;

const fn refused(refusal: Refusal) -> WriteError<Fault> {
    WriteError::Refused(Fault::Refused(refusal))
}

/// Reads a session's value.
pub(crate) fn load(connection: &Connection, id: &SessionId) -> Result<Option<Session>, LedgerError> {
    sessions::load(connection, id)?.map(|text| parse(&text)).transpose()
}

/// Reads a session's value from its text.
pub(crate) fn parse(text: &str) -> Result<Session, LedgerError> {
    serde_json::from_str(text).map_err(|error| LedgerError::damaged("session.state", error))
}

/// A replay gives out only the lease that the first call minted.
fn replay_of_start(session: Session, row: &OnceRow) -> Result<Outcome, Fault> {
    if row.lease_id.as_ref() != Some(&session.lease.id) {
        return Err(Refusal::LeaseMismatch.into());
    }
    Ok(Outcome { session, answer: Answer::Replayed })
}
