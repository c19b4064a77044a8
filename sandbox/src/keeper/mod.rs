//! What the keeper of a confined program needs on every system: the time limit, and a look at the scratch.

mod clock;
mod scratch_watch;

pub(crate) use clock::{Clock, Due};
pub(crate) use scratch_watch::Watch;

use crate::launch::{Ended, Exit, Usage};

/// The end of a program of which nothing is known but that it is gone.
pub(crate) fn torn_down() -> Ended {
    Ended { how: Exit::TornDown, timed_out: false, scratch_full: false, usage: Usage::default() }
}
