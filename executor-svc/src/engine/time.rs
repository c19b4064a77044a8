//! Keeping the engine's clock at the time of day without moving the end of any lease.

use super::{Engine, Fault, parse, record};
use crate::clock::Timestamp;
use crate::ledger::{WriteError, journal, sessions};
use crate::session::{Command, apply};

/// A smaller difference to the time of day is left alone: clocks are always being nudged a little.
const NOTICEABLE_MILLIS: u64 = 2_000;

impl Engine {
    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Moves the engine's clock to the time of day, if somebody has set that or the machine was suspended, and the leases
    /// of all live sessions with it. Gives the milliseconds it moved by.
    ///
    /// # Errors
    /// When the ledger cannot be read or written; the clock then stays as it was.
    pub async fn follow_the_time_of_day(&self) -> Result<i64, Fault> {
        if self.shared.clock.drift().unsigned_abs() < NOTICEABLE_MILLIS {
            return Ok(0);
        }
        let engine = self.clone();
        let moved = self.shared.ledger.writer.write::<i64, Fault, _>(move |tx| {
            let millis = engine.shared.clock.drift();
            for text in sessions::live(tx)? {
                let session = parse(&text)?;
                let step = apply(&session, engine.now(), Command::ClockMoved { millis })
                    .map_err(|refusal| WriteError::Refused(refusal.into()))?;
                record::save(tx, &step.session)?;
            }
            let body = serde_json::json!({ "millis": millis });
            let head = journal::append_for_all(tx, engine.now(), "clock.moved", &body)?;
            // On the writer thread: no decision falls between the commit and this.
            let after = move || {
                engine.shared.clock.follow(millis);
                engine.shared.pulse.clock_moved(millis);
                engine.shared.journal_head.send_replace(head);
            };
            Ok((millis, Box::new(after)))
        });
        Ok(moved.await?)
    }
}
