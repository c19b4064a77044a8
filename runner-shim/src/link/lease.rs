//! The lease as the shim knows it when nobody is there to ask.

use std::time::Duration;

use tokio::time::Instant;

/// When the executor was last heard, and how long it said that the lease would last then.
///
/// `Instant` is the monotonic clock, which stands still while the machine is suspended: a laptop that slept over the
/// end of a lease wakes up to an executor that decides, not to a run that has ended itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseClock {
    heard: Instant,
    left: Duration,
}

/// Shorter absences never count, also when the lease was about to run out: while the executor is there, it decides.
const GRACE: Duration = Duration::from_secs(15);
/// How long a shim waits for its first contact.
const FIRST_CONTACT: Duration = Duration::from_secs(30);
/// Between two heartbeats, at least and at most. A lost connection is noticed at once, by the call that is open; they are for
/// the lease's time. They are most of what a waiting session costs, so they are rare where a lease is long.
const HEARTBEAT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));
/// Longer than any lease; keeps the sum far from overflow.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

impl LeaseClock {
    /// Before first contact.
    pub(super) const fn unheard(now: Instant) -> Self {
        Self { heard: now, left: FIRST_CONTACT }
    }

    /// At each contact.
    pub(super) fn heard(now: Instant, seconds_left: u64) -> Self {
        Self { heard: now, left: Duration::from_secs(seconds_left).clamp(GRACE, LONGEST) }
    }

    /// Whether the executor has been away for longer than the lease.
    pub(super) fn is_out(self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) >= self.left
    }
}

/// When the executor is to be heard again: after a quarter of what is left of the lease, within bounds.
pub(super) fn until_next_heartbeat(seconds_left: u64) -> Duration {
    Duration::from_secs(seconds_left / 4).clamp(HEARTBEAT.0, HEARTBEAT.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_rare_where_a_lease_is_long_and_never_rarer_than_their_bound() {
        let after = |left| until_next_heartbeat(left).as_secs();
        assert_eq!([0, 19, 40, 60, 1800, u64::MAX].map(after), [5, 5, 10, 15, 30, 30]);
    }

    #[test]
    fn the_lease_is_out_only_when_the_executor_stays_away_for_longer() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let clock = LeaseClock::heard(start, 60);
        assert!(!clock.is_out(after(59)) && clock.is_out(after(60)));
        let short = LeaseClock::heard(start, 0);
        assert!(!short.is_out(after(14)) && short.is_out(after(15)));
        assert!(!LeaseClock::heard(start, u64::MAX).is_out(after(86_400)));
        let unheard = LeaseClock::unheard(start);
        assert!(!unheard.is_out(after(29)) && unheard.is_out(after(30)));
    }
}
