//! Who waits for which session.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gatehouse_proto::ids::SessionId;
use tokio::sync::watch;

use super::{Engine, Fault};
use crate::session::Session;

/// How many calls may wait for a session to change at the same time; one more is answered at once with what there is.
pub(super) const MOST_WAITS: usize = 4096;

/// What a waiter sees of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The session's revision.
    pub revision: u64,
    /// When the last change was shown.
    pub at: Instant,
}

/// A channel per session that somebody waits for; it shows the session's last change.
#[derive(Debug, Default)]
pub struct Watchers {
    channels: Mutex<HashMap<SessionId, watch::Sender<Change>>>,
}

impl Watchers {
    /// Shows each later change of a session.
    #[must_use]
    pub fn subscribe(&self, session: &SessionId) -> watch::Receiver<Change> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody listens to any more go when a new one comes, so the map stays as small as its use.
        channels.retain(|_, sender| sender.receiver_count() > 0);
        let none = || watch::Sender::new(Change { revision: 0, at: Instant::now() });
        channels.entry(session.clone()).or_insert_with(none).subscribe()
    }

    /// Wakes whoever waits for the session.
    pub fn changed(&self, session: &SessionId, revision: u64) {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = channels.get(session) {
            sender.send_replace(Change { revision, at: Instant::now() });
        }
    }

    /// Wakes whoever waits for the session although its revision is the same: something beside the ledger changed.
    pub fn nudge(&self, session: &SessionId) {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = channels.get(session) {
            sender.send_modify(|change| change.at = Instant::now());
        }
    }
}

impl Engine {
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
            let session = self.load(id)?;
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
