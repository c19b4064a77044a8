//! The journal, followed.

use gatehouse_proto::v1;
use tokio::sync::mpsc;
use tonic::Status as Wire;

use super::ledger;
use crate::engine::Engine;
use crate::ledger::journal;

/// How many journal entries are read at a time for a watcher.
const EVENTS_AT_A_TIME: u32 = 256;

/// Sends entries from `next` on, for as long as somebody listens.
pub(super) async fn follow(
    engine: Engine,
    mut next: u64,
    session: Option<String>,
    out: mpsc::Sender<Result<v1::Event, Wire>>,
) {
    let mut head = engine.journal_head();
    loop {
        head.mark_unchanged();
        let wanted = session.clone();
        let read = engine.read(move |connection| {
            let entries = journal::entries(connection, next, wanted.as_deref(), EVENTS_AT_A_TIME)?;
            Ok((entries, journal::last_seq(connection)?))
        });
        let (entries, last) = match read.await {
            Ok(found) => found,
            Err(error) => {
                let _ = out.send(Err(ledger(error))).await;
                return;
            }
        };
        let full = entries.len() == EVENTS_AT_A_TIME as usize;
        next = if full { entries.last().map_or(next, |entry| entry.seq + 1) } else { next.max(last + 1) };
        for entry in entries {
            let event = v1::Event {
                seq: entry.seq,
                at_ms: entry.at.millis(),
                native_session_id: entry.session_id,
                kind: entry.kind,
                body_json: entry.body,
            };
            if out.send(Ok(event)).await.is_err() {
                return;
            }
        }
        if !full {
            tokio::select! {
                changed = head.changed() => if changed.is_err() { return },
                () = out.closed() => return,
            }
        }
    }
}
