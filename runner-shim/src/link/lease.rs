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

#[cfg(test)]
mod tests {
    use super::*;

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
