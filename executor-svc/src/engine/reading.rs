//! Reading past the writer, and waiting for what it commits.

use std::time::Duration;

use gatehouse_proto::ids::SessionId;
use rusqlite::Connection;

use super::{Engine, Fault};
use crate::ledger::{LedgerError, Trouble};
use crate::session::Session;

/// How many calls may wait for a session to change at the same time; one more is answered at once with what there is.
pub(super) const MOST_WAITS: usize = 4096;

impl Engine {
    /// Runs `look` on one consistent view of the ledger.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.shared.ledger.readers.read(look).await
    }

    /// The same for what goes through much of the ledger: it keeps no other read waiting.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn read_long<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.shared.ledger.readers.long(look).await
    }

    /// What keeps the ledger from being written at present, if anything does.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        self.shared.ledger.writer.trouble()
    }

    /// The first damage that a read has met since the start.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        self.shared.ledger.readers.damage()
    }

    /// Waits until `enough` holds of the session, at most for `wait`, and gives it as it then is.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub async fn wait_until(
        &self,
        id: &SessionId,
        wait: Duration,
        enough: impl Fn(&Session) -> bool,
    ) -> Result<Session, Fault> {
        let mut changes = self.watch(id);
        // Who comes when all places are taken does not wait.
        let place = self.shared.waits.try_acquire().ok();
        let deadline = tokio::time::Instant::now() + if place.is_some() { wait } else { Duration::ZERO };
        let mut woken = false;
        loop {
            let session = self.load(id).await?;
            if enough(&session) {
                if woken {
                    self.metrics().woken(changes.borrow().at.elapsed());
                }
                return Ok(session);
            }
            woken = tokio::time::timeout_at(deadline, changes.changed()).await.is_ok();
            if !woken {
                return Ok(session);
            }
        }
    }
}
