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

impl From<LedgerError> for Failed {
    fn from(error: LedgerError) -> Self {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    /// It refused: it is undone, alone.
    No,
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
            Ok(Err(error)) => Some(deliver(Kept::No, answer, move || Err(error))),
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
    let outcome = execute(connection, "BEGIN IMMEDIATE").and_then(|()| run(connection, group, &mut delivers));
    let outcome = outcome.map_err(Failed::from).and_then(|kept| {
        // Where nothing was changed, nothing is written, and nobody waits for the disk.
        let has_changed = kept == Kept::Yes && connection.total_changes() != before;
        let reached = reached.filter(|_| has_changed);
        let head = reached.map(|reached| head::advance(connection, &reached)).transpose()?;
        execute(connection, if kept == Kept::Yes { "COMMIT" } else { "ROLLBACK" })?;
        Ok(head)
    });
    (delivers, outcome)
}

/// Runs the changes. One that is alone needs no savepoint: its refusal undoes the whole transaction.
fn run(
    connection: &Connection,
    group: &mut Peekable<impl Iterator<Item = Change>>,
    delivers: &mut Vec<Deliver>,
) -> rusqlite::Result<Kept> {
    let Some(first) = group.next() else { return Ok(Kept::No) };
    if group.peek().is_none() {
        return Ok(run_change(connection, first, delivers));
    }
    run_apart(connection, first, delivers)?;
    for change in group {
        run_apart(connection, change, delivers)?;
    }
    Ok(Kept::Yes)
}

/// Runs one change of several so that its refusal undoes only itself.
fn run_apart(connection: &Connection, change: Change, delivers: &mut Vec<Deliver>) -> rusqlite::Result<()> {
    execute(connection, "SAVEPOINT change")?;
    if run_change(connection, change, delivers) == Kept::No {
        execute(connection, "ROLLBACK TO change")?;
    }
    execute(connection, "RELEASE change")
}

fn run_change(connection: &Connection, change: Change, delivers: &mut Vec<Deliver>) -> Kept {
    // A fault of ours in one change must not end the thread that all depend on.
    let ran = catch_unwind(AssertUnwindSafe(|| change(Ok(connection)))).ok().flatten();
    let Some((kept, deliver)) = ran else { return Kept::No };
    // Noted first: whatever fails from here on, its caller is told.
    delivers.push(deliver);
    kept
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn writer() -> (Writer, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let connection = super::super::open::connect(&dir.path().join("t.db")).unwrap();
        connection.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY)").unwrap();
        (Writer::start(connection, None).unwrap(), dir)
    }

    async fn insert(writer: &Writer, n: i64, refuse: bool) -> Result<i64, WriteError<&'static str>> {
        writer
            .write(move |tx| {
                tx.execute("INSERT INTO t VALUES (?1)", [n])?;
                if refuse { Err(WriteError::Refused("no")) } else { Ok((n, Box::new(|| ()) as AfterCommit)) }
            })
            .await
    }

    #[tokio::test]
    async fn a_refused_change_is_undone_alone_and_its_neighbours_stay() {
        let (writer, dir) = writer();
        let results =
            tokio::join!(insert(&writer, 1, false), insert(&writer, 2, true), insert(&writer, 3, false));
        assert!(results.0.is_ok() && results.2.is_ok());
        assert!(matches!(results.1, Err(WriteError::Refused("no"))));
        let reader = Connection::open(dir.path().join("t.db")).unwrap();
        let kept: Vec<i64> = reader
            .prepare("SELECT n FROM t")
            .unwrap()
            .query_map([], |r| r.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(kept, [1, 3]);
    }

    #[tokio::test]
    async fn a_database_error_undoes_that_change_and_is_reported() {
        let (writer, _dir) = writer();
        insert(&writer, 1, false).await.unwrap();
        assert!(matches!(insert(&writer, 1, false).await, Err(WriteError::Ledger(LedgerError::Sqlite(_)))));
        assert!(insert(&writer, 2, false).await.is_ok());
    }

    #[tokio::test]
    async fn nobody_in_a_group_whose_commit_fails_is_told_anything_else() {
        let (writer, dir) = writer();
        let setup = Connection::open(dir.path().join("t.db")).unwrap();
        setup
            .execute_batch("CREATE TABLE child (n INTEGER REFERENCES t (n) DEFERRABLE INITIALLY DEFERRED)")
            .unwrap();
        // Holds the writer until both others are queued, so that they share a commit.
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let holder = writer.write::<(), (), _>(move |_| {
            let _ = wait.recv();
            Ok(((), Box::new(|| ())))
        });
        // Breaks the commit, not the statement.
        let breaker = writer.write::<(), (), _>(|tx| {
            tx.execute("INSERT INTO child VALUES (99)", [])?;
            Ok(((), Box::new(|| ())))
        });
        let refuser = writer.write::<(), usize, _>(|tx| {
            let seen = tx.query_row("SELECT count(*) FROM child", [], |row| row.get(0))?;
            Err(WriteError::Refused(seen))
        });
        let release = async { go.send(()).unwrap() };
        let (_, broken, refused, ()) = tokio::join!(biased; holder, breaker, refuser, release);
        assert!(matches!(broken, Err(WriteError::Ledger(LedgerError::NotCommitted { .. }))), "{broken:?}");
        // It saw a row that never was.
        assert!(matches!(refused, Err(WriteError::Ledger(LedgerError::NotCommitted { .. }))), "{refused:?}");
        assert!(insert(&writer, 5, false).await.is_ok(), "the writer goes on");
    }

    #[tokio::test]
    async fn a_change_whose_caller_left_is_committed_and_its_after_part_runs() {
        let (writer, dir) = writer();
        let ran = Arc::new(AtomicUsize::new(0));
        let seen = ran.clone();
        let abandoned = writer.write::<(), (), _>(move |tx| {
            tx.execute("INSERT INTO t VALUES (7)", [])?;
            let after: AfterCommit = Box::new(move || {
                seen.fetch_add(1, Ordering::SeqCst);
            });
            Ok(((), after))
        });
        // Polled once, so that it is sent, then dropped.
        let _ = tokio::time::timeout(std::time::Duration::ZERO, abandoned).await;
        insert(&writer, 8, false).await.unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        let reader = Connection::open(dir.path().join("t.db")).unwrap();
        assert_eq!(reader.query_row("SELECT count(*) FROM t", [], |r| r.get::<_, i64>(0)).unwrap(), 2);
    }

    #[tokio::test]
    async fn everybody_who_waits_is_told_at_once_when_nothing_can_be_begun_and_it_goes_on_by_itself() {
        let (writer, dir) = writer();
        let other = Connection::open(dir.path().join("t.db")).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let began = std::time::Instant::now();
        let refused =
            tokio::join!(insert(&writer, 1, false), insert(&writer, 2, false), insert(&writer, 3, false));
        for refused in [refused.0, refused.1, refused.2] {
            let Err(WriteError::Ledger(error)) = refused else { panic!("not refused") };
            assert_eq!(error.trouble(), Trouble::Locked, "{error}");
        }
        assert!(began.elapsed() < Duration::from_secs(12), "one after the other they would take 15 seconds");
        assert_eq!(writer.trouble(), Some(Trouble::Locked));
        other.execute_batch("ROLLBACK").unwrap();
        let mut shown = writer.trouble.clone();
        shown.wait_for(Option::is_none).await.unwrap();
        assert!(insert(&writer, 4, false).await.is_ok());
    }

    #[tokio::test]
    async fn a_change_that_panics_takes_nobody_along() {
        let (writer, _dir) = writer();
        let broken = writer.write::<(), (), _>(|tx| {
            tx.execute("INSERT INTO t VALUES (1)", [])?;
            panic!("a fault")
        });
        let (broken, fine) = tokio::join!(broken, insert(&writer, 2, false));
        assert!(matches!(broken, Err(WriteError::Ledger(LedgerError::Damaged { .. }))));
        assert!(fine.is_ok() && insert(&writer, 1, false).await.is_ok(), "what it had written is undone");
    }
}
