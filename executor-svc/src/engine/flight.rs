//! An action in flight, for as long as a value lives.

use gatehouse_proto::ids::{SessionId, ToolCallId};
use tokio::sync::watch;

use super::{Engine, Entry};
use crate::cancel::Cancel;
use crate::commands::Progress;

/// An action that is being performed. Dropping it, after whatever end, a panic too, says that it no longer is.
#[derive(Debug)]
#[must_use]
pub struct Flight {
    engine: Engine,
    session: SessionId,
    id: ToolCallId,
    cancel: Cancel,
    progress: Progress,
}

/// What became of an attempt to begin.
#[derive(Debug)]
pub enum Takeoff {
    /// It is yours to perform.
    Begun(Flight),
    /// Somebody performs it; this closes when that is over.
    InFlight(watch::Receiver<()>),
}

impl Flight {
    /// Says when the action is to end early.
    #[must_use]
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Where others see how far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let shared = &self.engine.shared;
        shared.performing.finish(&self.id);
        // A flight that settled nothing committed nothing, so whoever waits for its receipt has to be woken from here.
        shared.watchers.nudge(&self.session);
    }
}

impl Engine {
    /// Begins an action, unless it is in flight.
    pub fn take_off(&self, session: &SessionId, id: &ToolCallId) -> Takeoff {
        match self.shared.performing.begin(session, id, self.now()) {
            Entry::Begun(cancel, progress) => Takeoff::Begun(Flight {
                engine: self.clone(),
                session: session.clone(),
                id: id.clone(),
                cancel,
                progress,
            }),
            Entry::InFlight(over) => Takeoff::InFlight(over),
        }
    }
}
