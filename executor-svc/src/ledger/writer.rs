//! The one thread that writes, and group commit.
//!
//! A change is a closure. The thread takes one, opens a transaction, runs it and every other change that is waiting by
//! then, each inside a savepoint of its own, and commits them all with one fsync. A change that refuses is rolled back
//! alone. What must happen after the commit (waking waiters, handing out orders) is returned by the change itself and
//! runs on the writer thread, so that it happens also if the caller has gone away meanwhile.

use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::LedgerError;

/// How many changes one commit may carry: enough for every live session at once, few enough to bound a rollback.
const GROUP_LIMIT: usize = 256;

/// What a change leaves for after the commit. Must not block.
pub type AfterCommit = Box<dyn FnOnce() + Send>;

/// Tells the caller: `None` after a good commit, the error if the commit itself failed.
type Deliver = Box<dyn FnOnce(Option<&str>) + Send>;
type Change = Box<dyn FnOnce(&Connection) -> (Kept, Deliver) + Send>;

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
    changes: Sender<Change>,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Result<Self, LedgerError> {
        let (changes, queue) = channel();
        std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || serve(&connection, &queue))
            .map_err(|source| LedgerError::Io { path: "ledger-writer".into(), source })?;
        Ok(Self { changes })
    }

    /// Runs `change` in the next commit and returns when that commit is durable.
    ///
    /// The change goes through even if the returned future is dropped.
    ///
    /// # Errors
    /// [`WriteError::Refused`] with the change's own refusal, [`WriteError::Ledger`] if nothing could be committed.
    pub async fn write<T, R, F>(&self, change: F) -> Result<T, WriteError<R>>
    where
        T: Send + 'static,
        R: Send + 'static,
        F: FnOnce(&Connection) -> Result<(T, AfterCommit), WriteError<R>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let boxed: Change = Box::new(move |connection| match change(connection) {
            Ok((value, after)) => deliver(Kept::Yes, answer, move || {
                after();
                Ok(value)
            }),
            // A refusal waits for the commit too: what it rests on may have been written by a neighbour in the group.
            Err(error) => deliver(Kept::No, answer, move || Err(error)),
        });
        self.changes.send(boxed).map_err(|_| LedgerError::WriterStopped)?;
        // Dropped unasked: not even the transaction could be begun.
        answered.await.map_err(|_| LedgerError::NotCommitted("it could not be begun".to_owned()))?
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
    let deliver = Box::new(move |failure: Option<&str>| {
        let result = match failure {
            None => result(),
            Some(why) => Err(WriteError::Ledger(LedgerError::NotCommitted(why.to_owned()))),
        };
        let _ = answer.send(result);
    });
    (kept, deliver)
}

fn serve(connection: &Connection, queue: &Receiver<Change>) {
    while let Ok(first) = queue.recv() {
        let group =
            std::iter::once(first).chain(std::iter::from_fn(|| queue.try_recv().ok())).take(GROUP_LIMIT);
        let (delivers, outcome) = commit_group(connection, group);
        let failure = outcome.err().map(|error| error.to_string());
        if let Some(why) = &failure {
            tracing::error!(why, "ledger commit failed");
            let _ = connection.execute_batch("ROLLBACK");
        }
        for deliver in delivers {
            deliver(failure.as_deref());
        }
    }
}

fn commit_group(
    connection: &Connection,
    group: impl Iterator<Item = Change>,
) -> (Vec<Deliver>, rusqlite::Result<()>) {
    let mut delivers = Vec::new();
    let mut outcome = connection.execute_batch("BEGIN IMMEDIATE");
    if outcome.is_ok() {
        for change in group {
            outcome = run_alone(connection, change, &mut delivers);
            if outcome.is_err() {
                break;
            }
        }
    }
    let outcome = outcome.and_then(|()| connection.execute_batch("COMMIT"));
    (delivers, outcome)
}

/// Runs one change so that its refusal undoes only itself.
fn run_alone(connection: &Connection, change: Change, delivers: &mut Vec<Deliver>) -> rusqlite::Result<()> {
    connection.prepare_cached("SAVEPOINT change")?.execute([])?;
    let (kept, deliver) = change(connection);
    // Noted first: whatever fails from here on, its caller is told.
    delivers.push(deliver);
    if kept == Kept::No {
        connection.prepare_cached("ROLLBACK TO change")?.execute([])?;
    }
    connection.prepare_cached("RELEASE change")?.execute([])?;
    Ok(())
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
        (Writer::start(connection).unwrap(), dir)
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
        assert!(matches!(broken, Err(WriteError::Ledger(LedgerError::NotCommitted(_)))), "{broken:?}");
        // It saw a row that never was.
        assert!(matches!(refused, Err(WriteError::Ledger(LedgerError::NotCommitted(_)))), "{refused:?}");
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
}
