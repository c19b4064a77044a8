//! Whether this process has been running all the time.
//!
//! While the process was stopped, nobody could call, and a lease that ran out meanwhile says nothing about its session. So a
//! beat is kept; one that comes late begins a time of grace, the same as a start of the executor gives.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Engine;
use crate::clock::Timestamp;
use crate::session::{RESTART_GRACE, Session};

/// Between two beats.
pub const BEAT: Duration = Duration::from_secs(2);
/// A beat that is later than this was held up by something.
const LATE: Duration = Duration::from_secs(10);

/// The beat. Without a first one nothing is ever late.
#[derive(Debug, Default)]
pub(super) struct Pulse(Mutex<Beats>);

#[derive(Debug, Default)]
struct Beats {
    last: Option<Timestamp>,
    grace_until: Timestamp,
}

impl Beats {
    fn notice(&mut self, now: Timestamp) {
        let Some(last) = self.last else { return };
        if now.since(last) > LATE {
            self.grace_until = now.after(RESTART_GRACE);
            tracing::warn!(
                gap_s = now.since(last).as_secs(),
                "time passed in which nobody could call; leases get grace"
            );
        }
        self.last = Some(now);
    }
}

impl Pulse {
    fn beat(&self, now: Timestamp) {
        let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beats.last.get_or_insert(now);
        beats.notice(now);
    }

    /// The clock was moved, and no time has passed.
    pub(super) fn clock_moved(&self, millis: i64) {
        let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beats.last = beats.last.map(|last| last.moved(millis));
        beats.grace_until = beats.grace_until.moved(millis);
    }

    /// Until when no lease runs out.
    fn grace_until(&self, now: Timestamp) -> Timestamp {
        let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever calls first after a gap must not be judged before the beat is.
        beats.notice(now);
        // After the clock was put back, what lies in the future is no grace of ours.
        if beats.grace_until > now.after(RESTART_GRACE) {
            beats.grace_until = Timestamp::default();
        }
        beats.grace_until
    }
}

impl Engine {
    /// Says that the process runs; to be called every [`BEAT`].
    pub fn beat(&self) {
        self.shared.pulse.beat(self.now());
    }

    /// A session as it counts now: with the grace that its lease has.
    #[must_use]
    pub fn with_grace(&self, mut session: Session) -> Session {
        if session.state.status().is_live() {
            let grace = self.shared.pulse.grace_until(self.now());
            session.lease.expires_at = session.lease.expires_at.max(grace);
        }
        session
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000_000 + seconds * 1000)
    }

    #[test]
    fn a_late_beat_gives_a_minute_and_a_regular_one_nothing() {
        let pulse = Pulse::default();
        assert_eq!(pulse.grace_until(after(0)), Timestamp::default(), "nothing has begun to beat");
        pulse.beat(after(0));
        for second in 1..=20 {
            pulse.beat(after(2 * second));
            assert_eq!(pulse.grace_until(after(2 * second)), Timestamp::default());
        }
        assert_eq!(pulse.grace_until(after(3640)), after(3700), "noticed by whoever comes first");
        pulse.beat(after(3642));
        assert_eq!(pulse.grace_until(after(3642)), after(3700), "and once");
    }

    #[test]
    fn a_clock_that_was_put_back_leaves_no_grace_behind() {
        let pulse = Pulse::default();
        pulse.beat(after(0));
        assert_eq!(pulse.grace_until(after(7200)), after(7260));
        pulse.beat(after(100));
        assert_eq!(pulse.grace_until(after(100)), Timestamp::default());
    }
}
