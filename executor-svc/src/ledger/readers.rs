//! Reading committed state, on the blocking pool, through a few kept connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::{LedgerError, open};

/// How many idle connections are kept.
const KEPT: usize = 8;

/// A pool of connections that read.
#[derive(Debug, Clone)]
pub struct Readers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { shared: Arc::new(Shared { path, idle: Mutex::new(Vec::new()) }) }
    }

    /// Runs `look` on one consistent view of the ledger.
    ///
    /// # Errors
    /// `look`'s own, or that the ledger cannot be opened.
    pub async fn read<T, F>(&self, look: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.read_blocking(look))
            .await
            .map_err(|error| LedgerError::damaged("reader", error))?
    }

    /// The same on the caller's own thread, which may block.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_blocking<T>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut connection = self.shared.take()?;
        let view = connection.transaction()?;
        let result = look(&view);
        view.finish()?;
        self.shared.give_back(connection);
        result
    }
}

impl Shared {
    fn take(&self) -> Result<Connection, LedgerError> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(connection) => Ok(connection),
            None => {
                let connection = open::connect(&self.path)?;
                connection.pragma_update(None, "query_only", "on")?;
                Ok(connection)
            }
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        }
    }
}
