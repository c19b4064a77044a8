//! What is done to the ledger besides commands.

use std::convert::Infallible;

use gatehouse_proto::ids::SessionId;
use rusqlite::Connection;
use serde_json::Value;

use super::Engine;
use crate::ledger::{LedgerError, Readers, WriteError, journal};

/// A journal entry that belongs to no command.
#[derive(Debug, Clone)]
pub struct Remark {
    /// The session that it is about; `None` if it is about no single one.
    pub session: Option<SessionId>,
    /// What happened, as `noun.verb`.
    pub kind: &'static str,
    /// Further facts.
    pub body: Value,
}

impl Engine {
    /// Reads the ledger without the engine.
    #[must_use]
    pub fn ledger_readers(&self) -> Readers {
        self.shared.ledger.readers.clone()
    }

    /// Appends these entries to the journal, all or none.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn remark(&self, remarks: Vec<Remark>) -> Result<(), LedgerError> {
        let engine = self.clone();
        let written = self.shared.ledger.writer.write::<(), Infallible, _>(move |tx| {
            let (now, mut head) = (engine.now(), None);
            for Remark { session, kind, body } in remarks {
                head = Some(match session {
                    Some(session) => journal::append(tx, now, &session, kind, &body)?,
                    None => journal::append_for_all(tx, now, kind, &body)?,
                });
            }
            let after = move || {
                if let Some(seq) = head {
                    engine.shared.journal_head.send_replace(seq);
                }
            };
            Ok(((), Box::new(after)))
        });
        written.await.map_err(ledgers)
    }

    /// A change of the ledger that is no command: which process serves a run.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn note(
        &self,
        change: impl FnOnce(&Connection) -> Result<(), LedgerError> + Send + 'static,
    ) -> Result<(), LedgerError> {
        let noted = self.shared.ledger.writer.write::<(), (), _>(move |tx| {
            change(tx)?;
            Ok(((), Box::new(|| ())))
        });
        match noted.await {
            Ok(()) | Err(WriteError::Refused(())) => Ok(()),
            Err(WriteError::Ledger(error)) => Err(error),
        }
    }

    /// Runs `work` while nothing is committed: what it reads is all there is, until it ends. It must be short.
    ///
    /// # Errors
    /// `work`'s own.
    pub async fn exclusively<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let done = self.shared.ledger.writer.write::<T, Infallible, _>(move |tx| {
            let found = work(tx)?;
            Ok((found, Box::new(|| ())))
        });
        done.await.map_err(ledgers)
    }
}

fn ledgers(error: WriteError<Infallible>) -> LedgerError {
    match error {
        WriteError::Refused(never) => match never {},
        WriteError::Ledger(error) => error,
    }
}
