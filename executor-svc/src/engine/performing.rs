//! What is being performed at this moment, in this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use gatehouse_proto::ids::{SessionId, ToolCallId};
use tokio::sync::watch;

use crate::cancel::Cancel;
use crate::clock::Timestamp;
use crate::commands::Progress;

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
    progress: Progress,
    /// Closes when the action is no longer in flight.
    over: watch::Sender<()>,
}

/// An action in flight, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Performed {
    /// The action.
    pub id: ToolCallId,
    /// Since when.
    pub since: Timestamp,
    /// How many bytes it has written so far; only commands write.
    pub output_bytes: u64,
}

/// What became of an attempt to begin.
#[derive(Debug)]
pub enum Entry {
    /// It is yours to perform, under this cancel mark, and this is where others see how far you are.
    Begun(Cancel, Progress),
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
        let (cancel, progress) = (Cancel::default(), Progress::default());
        let running = InFlight {
            session: session.clone(),
            started_at: now,
            cancel: cancel.clone(),
            progress: progress.clone(),
            over: watch::Sender::new(()),
        };
        actions.insert(id.clone(), running);
        Entry::Begun(cancel, progress)
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

    /// What is in flight for a session.
    #[must_use]
    pub fn of(&self, session: &SessionId) -> Vec<Performed> {
        let actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        actions
            .iter()
            .filter(|(_, a)| a.session == *session)
            .map(|(id, a)| Performed {
                id: id.clone(),
                since: a.started_at,
                output_bytes: a.progress.output_bytes(),
            })
            .collect()
    }
}
