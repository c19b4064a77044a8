//! What is being performed at this moment, in this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use gatehouse_proto::ids::{SessionId, ToolCallId};
use tokio::sync::watch;

use crate::clock::Timestamp;
use crate::tools::Cancel;

/// The actions in flight. A restart finds it empty, which is the truth.
#[derive(Debug, Default)]
pub struct Performing {
    actions: Mutex<HashMap<ToolCallId, InFlight>>,
}

#[derive(Debug)]
struct InFlight {
    session: SessionId,
    started_at: Timestamp,
    cancel: Cancel,
    /// Closes when the action is no longer in flight.
    over: watch::Sender<()>,
}

/// What became of an attempt to begin.
#[derive(Debug)]
pub enum Entry {
    /// It is yours to perform, under this cancel mark.
    Begun(Cancel),
    /// Somebody performs it; this closes when that is over.
    InFlight(watch::Receiver<()>),
}

impl Performing {
    /// Begins an action, unless it is in flight.
    #[must_use]
    pub fn begin(&self, session: &SessionId, id: &ToolCallId, now: Timestamp) -> Entry {
        let mut actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = actions.get(id) {
            return Entry::InFlight(running.over.subscribe());
        }
        let cancel = Cancel::default();
        let running = InFlight {
            session: session.clone(),
            started_at: now,
            cancel: cancel.clone(),
            over: watch::Sender::new(()),
        };
        actions.insert(id.clone(), running);
        Entry::Begun(cancel)
    }

    /// The action is settled, or could not be.
    pub fn finish(&self, id: &ToolCallId) {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Ends an action early.
    pub fn cancel(&self, id: &ToolCallId) {
        if let Some(running) = self.actions.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
            running.cancel.cancel();
        }
    }

    /// What is in flight for a session, and since when.
    #[must_use]
    pub fn of(&self, session: &SessionId) -> Vec<(ToolCallId, Timestamp)> {
        let actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        actions
            .iter()
            .filter(|(_, a)| a.session == *session)
            .map(|(id, a)| (id.clone(), a.started_at))
            .collect()
    }
}
