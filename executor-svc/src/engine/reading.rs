//! Reading past the writer.

use rusqlite::Connection;

use super::Engine;
use crate::ledger::{LedgerError, Trouble};

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

    /// The same on the caller's own thread, for a few rows by their keys.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn glance<T>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.shared.ledger.readers.glance(look)
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
}
