//! How many calls may wait for a change at the same time, and for how long.
//!
//! A call that asks to wait and finds no slot is carried out all the same, with a wait of zero: it is answered at once
//! with the state as it is. Calls that do not wait need no slot, so status with a wait of zero and stop always pass.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest wait that any call may have.
pub const LONGEST: Duration = Duration::from_secs(50);
/// The longest wait over stdio, whose clients often send one request at a time.
pub const LONGEST_ON_STDIO: Duration = Duration::from_secs(20);

/// The slots for waiting calls.
#[derive(Debug, Clone)]
pub struct Waits {
    slots: Arc<Semaphore>,
    number: usize,
    longest: Duration,
}

/// The right to wait; the slot is free again when this is dropped.
#[derive(Debug)]
pub struct Granted {
    /// How long the call may wait.
    pub wait: Duration,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Waits {
    /// `number` slots, each for at most `longest`.
    #[must_use]
    pub fn new(number: u32, longest: Duration) -> Self {
        let number = usize::try_from(number).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { slots: Arc::new(Semaphore::new(number)), number, longest: longest.min(LONGEST) }
    }

    /// What a call that asks for `asked` gets: its wait bounded, or none if all slots are taken.
    #[must_use]
    pub fn grant(&self, asked: Duration) -> Granted {
        let wait = asked.min(self.longest);
        if wait.is_zero() {
            return Granted { wait, _slot: None };
        }
        match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => Granted { wait, _slot: Some(slot) },
            Err(_) => Granted { wait: Duration::ZERO, _slot: None },
        }
    }

    /// How many calls wait at this moment.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.number - self.slots.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_beyond_the_last_slot_does_not_wait_and_a_freed_slot_is_used_again() {
        let waits = Waits::new(1, LONGEST);
        let first = waits.grant(Duration::from_secs(30));
        assert_eq!((first.wait, waits.waiting()), (Duration::from_secs(30), 1));
        assert_eq!(waits.grant(Duration::from_secs(30)).wait, Duration::ZERO);
        drop(first);
        assert_eq!(waits.grant(Duration::from_secs(30)).wait, Duration::from_secs(30));
    }

    #[test]
    fn a_call_that_does_not_wait_takes_no_slot() {
        let waits = Waits::new(1, LONGEST);
        let _none = waits.grant(Duration::ZERO);
        assert_eq!(waits.waiting(), 0);
    }

    #[test]
    fn no_wait_is_longer_than_the_transport_bears() {
        assert_eq!(Waits::new(1, LONGEST_ON_STDIO).grant(Duration::from_secs(50)).wait, LONGEST_ON_STDIO);
        assert_eq!(Waits::new(1, Duration::from_secs(3600)).grant(Duration::from_secs(90)).wait, LONGEST);
    }
}
