//! The one thread that writes, and group commit.
//!
//! A change is a closure. The thread takes one, opens a transaction, runs it and every other change that is waiting by
//! then, each inside a savepoint of its own (one alone needs none), and commits them all with one fsync. A change that
//! refuses is rolled back alone. What must happen after the commit (waking waiters, handing out orders) is returned by
//! the change itself and runs on the writer thread, so that it happens also if the caller has gone away meanwhile.
//!
//! While commits fail, for whatever cause, everybody is told at once and nothing is kept; the thread tries by itself
//! whether the cause is gone, and shows how it stands ([`Writer::trouble`]).

use std::iter::Peekable;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::head::{self, Head, HeadFile};
use super::{LedgerError, Trouble};

/// How many changes one commit may carry: enough for every live session at once, few enough to bound a rollback.
const GROUP_LIMIT: usize = 256;
/// How many changes may wait for the thread; whoever brings another waits before it is taken.
const QUEUE: usize = 1024;
/// Between two tries whether a ledger that could not be written can be written again.
const PROBE: Duration = Duration::from_secs(1);

/// What a change leaves for after the commit. Must not block.
pub type AfterCommit = Box<dyn FnOnce() + Send>;

/// Why a commit failed.
#[derive(Debug, Clone)]
struct Failed {
    trouble: Trouble,
    why: String,
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self { trouble: Trouble::of(&error), why: error.to_string() }
    }
}

impl From<&LedgerError> for Failed {
    fn from(error: &LedgerError) -> Self {
        Self { trouble: error.trouble(), why: error.to_string() }
    }
}

impl From<&Failed> for LedgerError {
    fn from(failed: &Failed) -> Self {
        Self::NotCommitted { trouble: failed.trouble, why: failed.why.clone() }
    }
}

/// Tells the caller: `None` after a good commit, the error if the commit itself failed.
type Deliver = Box<dyn FnOnce(Option<&Failed>) + Send>;
/// A change, run on a connection or told at once that nothing can be written.
type Change = Box<dyn FnOnce(Result<&Connection, &Failed>) -> Option<(Kept, Deliver)> + Send>;

/// A change in the queue, with its place there.
struct Queued {
    change: Change,
    _place: OwnedSemaphorePermit,
}

/// Whether what a change wrote is to be committed.
#[derive(Debug)]
enum Kept {
    Yes,
    /// It refused, or the ledger failed it: it is undone, alone.
    No(Option<Failed>),
}

/// Why a change did not become durable.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<R> {
    /// The change itself said no; nothing of it was kept.
    #[error("refused")]
    Refused(R),
    /// The ledger could not be written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl<R> WriteError<R> {
    /// How the ledger failed, if it did.
    fn failed(&self) -> Option<Failed> {
        match self {
            Self::Refused(_) => None,
            Self::Ledger(error) => Some(error.into()),
        }
    }
}

impl<R> From<rusqlite::Error> for WriteError<R> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Ledger(error.into())
    }
}

/// The handle to the writer thread. The thread ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Writer {
    changes: Sender<Queued>,
    places: Arc<Semaphore>,
    trouble: watch::Receiver<Option<Trouble>>,
}

/// What the thread has.
struct Desk {
    connection: Connection,
    head: Option<HeadFile>,
    trouble: watch::Sender<Option<Trouble>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, head: Option<HeadFile>) -> Result<Self, LedgerError> {
        let (changes, queue) = channel();
        let (shown, trouble) = watch::channel(None);
        let mut desk = Desk { connection, head, trouble: shown };
        std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || desk.serve(&queue))
            .map_err(|source| LedgerError::Io { path: "ledger-writer".into(), source })?;
        Ok(Self { changes, places: Arc::new(Semaphore::new(QUEUE)), trouble })
    }

    /// What keeps the ledger from being written at present, if anything does. It goes by itself when the cause does.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        *self.trouble.borrow()
    }

    /// Runs `change` in the next commit and returns when that commit is durable.
    ///
    /// Once it is queued, the change goes through even if the returned future is dropped.
    ///
    /// # Errors
    /// [`WriteError::Refused`] with the change's own refusal, [`WriteError::Ledger`] if nothing could be committed.
    pub async fn write<T, R, F>(&self, change: F) -> Result<T, WriteError<R>>
    where
        T: Send + 'static,
        R: Send + 'static,
        F: FnOnce(&Connection) -> Result<(T, AfterCommit), WriteError<R>> + Send + 'static,
    {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| LedgerError::WriterStopped)?;
        let (answer, answered) = oneshot::channel();
        let change: Change = Box::new(move |attempt| match attempt.map(change) {
            Ok(Ok((value, after))) => Some(deliver(Kept::Yes, answer, move || {
                after();
                Ok(value)
            })),
            // A refusal waits for the commit too: what it rests on may have been written by a neighbour in the group.
            Ok(Err(error)) => Some(deliver(Kept::No(error.failed()), answer, move || Err(error))),
            Err(failed) => {
                let _ = answer.send(Err(WriteError::Ledger(failed.into())));
                None
            }
        });
        let queued = Queued { change, _place: place };
        self.changes.send(queued).map_err(|_| LedgerError::WriterStopped)?;
        // Dropped without an answer: the change itself panicked.
        answered.await.map_err(|_| LedgerError::damaged("a change", "it ended early"))?
    }
}

/// What tells the caller once the group's commit is known.
fn deliver<T, R>(
    kept: Kept,
    answer: oneshot::Sender<Result<T, WriteError<R>>>,
    result: impl FnOnce() -> Result<T, WriteError<R>> + Send + 'static,
) -> (Kept, Deliver)
where
    T: Send + 'static,
    R: Send + 'static,
{
    let deliver = Box::new(move |failed: Option<&Failed>| {
        let result = match failed {
            None => result(),
            Some(failed) => Err(WriteError::Ledger(failed.into())),
        };
        let _ = answer.send(result);
    });
    (kept, deliver)
}

impl Desk {
    fn serve(&mut self, queue: &Receiver<Queued>) {
        loop {
            let first = if self.trouble.borrow().is_none() {
                queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                queue.recv_timeout(PROBE)
            };
            match first {
                Ok(first) => self.group(first, queue),
                Err(RecvTimeoutError::Timeout) => {
                    let probed = probe(&self.connection).map_err(Failed::from);
                    self.show(probed.err().as_ref());
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn group(&mut self, first: Queued, queue: &Receiver<Queued>) {
        let waiting = || queue.try_recv().ok().map(|queued| queued.change);
        let group = std::iter::once(first.change).chain(std::iter::from_fn(waiting)).take(GROUP_LIMIT);
        let mut group = group.peekable();
        let before = self.head.as_ref().map(HeadFile::reached);
        let (delivers, outcome) = commit_group(&self.connection, &mut group, before);
        let failed = match outcome {
            Ok(head) => {
                if let (Some(file), Some(head)) = (&mut self.head, head) {
                    file.note(head);
                }
                None
            }
            Err(failed) => {
                let _ = self.connection.execute_batch("ROLLBACK");
                Some(failed)
            }
        };
        // Shown before anybody is told, so that whoever was told finds it shown.
        self.show(failed.as_ref());
        for deliver in delivers {
            deliver(failed.as_ref());
        }
        if let Some(failed) = &failed {
            // Who was not run is told too: another try of each would take its time alone.
            group.for_each(|change| drop(change(Err(failed))));
        }
    }

    fn show(&self, failed: Option<&Failed>) {
        let (before, now) = (*self.trouble.borrow(), failed.map(|failed| failed.trouble));
        if let Some(Failed { trouble, why }) = failed {
            tracing::error!(%trouble, why, "the ledger cannot be written");
        } else if before.is_some() {
            tracing::info!("the ledger can be written again");
        }
        if before != now {
            self.trouble.send_replace(now);
        }
    }
}

/// Whether a commit goes through that changes nothing.
fn probe(connection: &Connection) -> rusqlite::Result<()> {
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tried =
        connection.execute_batch(&format!("BEGIN IMMEDIATE; PRAGMA user_version = {version}; COMMIT"));
    if tried.is_err() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    tried
}

/// A statement without parameters or rows, prepared once.
pub(super) fn execute(connection: &Connection, sql: &'static str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Runs the changes and commits them; gives how far the ledger is then, if it is told how far it was and anything was changed.
fn commit_group(
    connection: &Connection,
    group: &mut Peekable<impl Iterator<Item = Change>>,
    reached: Option<Head>,
) -> (Vec<Deliver>, Result<Option<Head>, Failed>) {
    let mut delivers = Vec::new();
    let before = connection.total_changes();
    let begun = execute(connection, "BEGIN IMMEDIATE").map_err(Failed::from);
    let outcome = begun.and_then(|()| run(connection, group, &mut delivers)).and_then(|kept| {
        let keeps = matches!(kept, Kept::Yes);
        // Where nothing was changed, nothing is written, and nobody waits for the disk.
        let has_changed = keeps && connection.total_changes() != before;
        let reached = reached.filter(|_| has_changed);
        let head = reached.map(|reached| head::advance(connection, &reached)).transpose();
        let head = head.map_err(|error| Failed::from(&error))?;
        execute(connection, if keeps { "COMMIT" } else { "ROLLBACK" })?;
        Ok(head)
    });
    (delivers, outcome)
}

/// Runs the changes. One that is alone needs no savepoint: its refusal undoes the whole transaction.
fn run(
    connection: &Connection,
    group: &mut Peekable<impl Iterator<Item = Change>>,
    delivers: &mut Vec<Deliver>,
) -> Result<Kept, Failed> {
    let Some(first) = group.next() else { return Ok(Kept::No(None)) };
    if group.peek().is_none() {
        return run_change(connection, first, delivers);
    }
    run_apart(connection, first, delivers)?;
    for change in group {
        run_apart(connection, change, delivers)?;
    }
    Ok(Kept::Yes)
}

/// Runs one change of several so that its refusal undoes only itself.
fn run_apart(connection: &Connection, change: Change, delivers: &mut Vec<Deliver>) -> Result<(), Failed> {
    execute(connection, "SAVEPOINT change")?;
    if matches!(run_change(connection, change, delivers)?, Kept::No(_)) {
        execute(connection, "ROLLBACK TO change")?;
    }
    execute(connection, "RELEASE change").map_err(Failed::from)
}

fn run_change(connection: &Connection, change: Change, delivers: &mut Vec<Deliver>) -> Result<Kept, Failed> {
    // A fault of ours in one change must not end the thread that all depend on.
    let ran = catch_unwind(AssertUnwindSafe(|| change(Ok(connection)))).ok().flatten();
    let kept = match ran {
        // Noted first: whatever fails from here on, its caller is told.
        Some((kept, deliver)) => {
            delivers.push(deliver);
            kept
        }
        None => Kept::No(None),
    };
    if !connection.is_autocommit() {
        return Ok(kept);
    }
    // A full disk or an error of it, in the middle of a statement: SQLite has undone everything, the neighbours' changes too.
    let unknown = || Failed { trouble: Trouble::Other, why: "the transaction ended by itself".to_owned() };
    Err(match kept {
        Kept::No(failed) => failed.unwrap_or_else(unknown),
        Kept::Yes => unknown(),
    })
}

#[cfg(test)]
mod tests;
