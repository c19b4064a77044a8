//! Reading committed state: a few rows by their keys on the thread that asks, other short reads on threads that do nothing
//! else. A file system that hangs under those who work on files, or a client that does not read, keeps nobody from being
//! told where a session stands.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::writer::execute;
use super::{LedgerError, Trouble, open};

/// How many threads read, each with a connection of its own.
const THREADS: usize = 4;
/// How many reads may wait for a thread; whoever brings another waits before it is taken.
const QUEUE: usize = 4096;
/// How many long reads are made at the same time, besides.
const LONG: usize = 2;

/// How many connections there are for whoever reads on its own thread. Such reads are short: waiting for one of these
/// costs less than opening another.
const LENT: usize = 4;

type Job = Box<dyn FnOnce(&mut Option<Connection>) + Send>;

/// The threads that read. They end when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Readers {
    jobs: Sender<Job>,
    places: Arc<Semaphore>,
    long: Arc<Semaphore>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    connect: fn(&Path) -> Result<Connection, LedgerError>,
    lending: Mutex<Lending>,
    returned: Condvar,
    /// The first damage that a read has met.
    damage: Mutex<Option<String>>,
}

/// The connections that are lent to other threads.
#[derive(Debug, Default)]
struct Lending {
    idle: Vec<Connection>,
    lent: usize,
}

/// A connection as long as it is lent, or the place of one that has yet to be opened. It comes back when dropped.
struct Lent<'a> {
    shared: &'a Shared,
    connection: Option<Connection>,
}

impl Readers {
    pub(super) fn start(path: PathBuf) -> Result<Self, LedgerError> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..THREADS {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name(format!("ledger-reader-{number}"))
                .spawn(move || serve(&queue))
                .map_err(|source| LedgerError::Io { path: "ledger-reader".into(), source })?;
        }
        Ok(Self::of(jobs, Shared::new(path, connect)))
    }

    /// Reads a ledger that nobody serves, and changes nothing; only on the caller's own thread.
    #[must_use]
    pub fn to_look(state_dir: &Path) -> Self {
        Self::of(channel().0, Shared::new(open::path(state_dir), open::connect_to_look))
    }

    fn of(jobs: Sender<Job>, shared: Shared) -> Self {
        let (places, long) = (Arc::new(Semaphore::new(QUEUE)), Arc::new(Semaphore::new(LONG)));
        Self { jobs, places, long, shared: Arc::new(shared) }
    }

    /// Runs `look` on one consistent view of the ledger. It must be short: see [`Self::long`].
    ///
    /// # Errors
    /// `look`'s own, or that the ledger cannot be opened.
    pub async fn read<T, F>(&self, look: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    {
        let closed = || LedgerError::damaged("reader", "it is closed");
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| closed())?;
        let (answer, answered) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let job: Job = Box::new(move |kept| {
            // The place is the job's: who asked may be gone long before it is run.
            let _place = place;
            // Where nobody is told any more, nothing has to be read.
            if !answer.is_closed() {
                let _ = answer.send(shared.look(kept, look));
            }
        });
        self.jobs.send(job).map_err(|_| closed())?;
        answered.await.map_err(|_| LedgerError::damaged("reader", "it ended early"))?
    }

    /// The same for what goes through much of the ledger: a few at a time, and none of them keeps a short read waiting.
    /// As long as it runs, the log of the ledger is not cut back.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn long<T, F>(&self, look: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    {
        let place = Arc::clone(&self.long).acquire_owned().await;
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || {
            let _place = place;
            shared.look(&mut None, look)
        })
        .await
        .map_err(|error| LedgerError::damaged("reader", error))?
    }

    /// The same on the caller's own thread, for a few rows by their keys: handing over to a thread that reads, and being
    /// woken by it, takes longer than reading them. `look` must not read by this itself.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn glance<T>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut lent = self.shared.lend();
        self.shared.look(&mut lent.connection, look)
    }

    /// The first damage that a read has met since the start, in words for the person at the machine.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        self.shared.damage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(queue: &Mutex<Receiver<Job>>) {
    let mut kept = None;
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A fault of ours in one read must not cost a thread.
        let _ = catch_unwind(AssertUnwindSafe(|| job(&mut kept)));
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut lending = self.shared.lending();
        lending.lent -= 1;
        lending.idle.extend(self.connection.take());
        drop(lending);
        self.shared.returned.notify_one();
    }
}

impl Shared {
    fn new(path: PathBuf, connect: fn(&Path) -> Result<Connection, LedgerError>) -> Self {
        let (lending, returned) = (Mutex::default(), Condvar::new());
        Self { path, connect, lending, returned, damage: Mutex::default() }
    }

    fn lending(&self) -> MutexGuard<'_, Lending> {
        self.lending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(&self) -> Lent<'_> {
        let all_lent = |lending: &mut Lending| lending.lent == LENT;
        let free = self.returned.wait_while(self.lending(), all_lent);
        let mut lending = free.unwrap_or_else(PoisonError::into_inner);
        lending.lent += 1;
        Lent { shared: self, connection: lending.idle.pop() }
    }

    fn look<T>(
        &self,
        kept: &mut Option<Connection>,
        look: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let result = self.try_look(kept, look);
        if let Err(error) = &result
            && error.trouble() == Trouble::Damaged
        {
            let mut damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
            if damage.is_none() {
                tracing::error!(%error, "the ledger is damaged; `gatehouse verify` says where");
                *damage = Some(error.to_string());
            }
        }
        result
    }

    fn try_look<T>(
        &self,
        kept: &mut Option<Connection>,
        look: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        // Kept again only when all went well: whatever a read stumbled over, the next one begins anew.
        let connection = match kept.take() {
            Some(connection) => connection,
            None => (self.connect)(&self.path)?,
        };
        execute(&connection, "BEGIN")?;
        let result = look(&connection)?;
        execute(&connection, "COMMIT")?;
        *kept = Some(connection);
        Ok(result)
    }
}

fn connect(path: &Path) -> Result<Connection, LedgerError> {
    let connection = open::connect(path)?;
    connection.pragma_update(None, "query_only", "on")?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_reads_and_broken_ones_keep_no_short_read_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let opened = super::super::open(dir.path()).unwrap();
        let readers = opened.readers;
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let long = readers.long(move |_| Ok(wait.recv().is_ok()));
        let work = async {
            for _ in 0..2 * THREADS {
                let broken = readers.read::<(), _>(|_| panic!("a fault")).await;
                assert!(matches!(broken, Err(LedgerError::Damaged { .. })));
            }
            assert_eq!(readers.read(super::super::journal::last_seq).await.unwrap(), 0);
            go.send(()).unwrap();
        };
        let (long, ()) = tokio::join!(long, work);
        assert!(long.unwrap());
    }

    #[test]
    fn however_many_threads_read_there_are_few_connections_and_a_broken_read_gives_its_place_back() {
        let dir = tempfile::tempdir().unwrap();
        let readers = super::super::open(dir.path()).unwrap().readers;
        std::thread::scope(|threads| {
            for _ in 0..8 * LENT {
                threads.spawn(|| {
                    let broken = || readers.glance::<()>(|_| panic!("a fault"));
                    assert!(catch_unwind(AssertUnwindSafe(broken)).is_err());
                    assert_eq!(readers.glance(super::super::journal::last_seq).unwrap(), 0);
                });
            }
        });
        let lending = readers.shared.lending();
        assert_eq!(lending.lent, 0);
        assert!((1..=LENT).contains(&lending.idle.len()), "{} connections", lending.idle.len());
    }
}
