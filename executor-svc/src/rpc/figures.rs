//! The executor's figures as text: what was counted, and what is looked up when somebody asks.

use crate::action::Actions;
use crate::engine::Engine;
use crate::ledger::{LedgerError, health, journal};
use crate::metrics::Exposition;

/// Everything.
///
/// # Errors
/// When the ledger cannot be read.
pub(super) async fn text(engine: &Engine, actions: &Actions) -> Result<String, LedgerError> {
    let (sessions, bytes, entries) = engine
        .read(|connection| {
            Ok((
                health::sessions_by_status(connection)?,
                health::file_bytes(connection)?,
                journal::last_seq(connection)?,
            ))
        })
        .await?;
    let actions = actions.clone();
    let contents = tokio::task::spawn_blocking(move || actions.content_bytes()).await;
    let mut out = Exposition::default();
    out.head("sessions", "gauge", "Sessions in the ledger, by state.");
    for (status, number) in sessions {
        out.value("sessions", &[("status", &status)], number);
    }
    out.head("ledger_bytes", "gauge", "Size of the ledger file.");
    out.value("ledger_bytes", &[], bytes);
    out.head("journal_entries", "gauge", "Entries in the journal.");
    out.value("journal_entries", &[], entries);
    // A store that cannot be read has no size; `gatehouse doctor` says what is wrong with it.
    if let Ok(Ok(bytes)) = contents {
        out.head("content_bytes", "gauge", "What is kept of files before and after changes.");
        out.value("content_bytes", &[], bytes);
    }
    engine.metrics().render(&mut out);
    Ok(out.into_text())
}
