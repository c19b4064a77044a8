//! The time, injectable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// That many milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The moment `duration` later; the end of time if there is none.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment so many milliseconds later, or earlier; the nearest one there is.
    #[must_use]
    pub const fn moved(self, millis: i64) -> Self {
        Self(self.0.saturating_add_signed(millis))
    }

    /// How many milliseconds `other` is later than this; negative if it is earlier.
    fn until(self, other: Self) -> i64 {
        let apart = i64::try_from(self.0.abs_diff(other.0)).unwrap_or(i64::MAX);
        if other >= self { apart } else { -apart }
    }
}

/// Where the time comes from.
///
/// Leases are promises of so many seconds, so [`Clock::now`] runs evenly: it does not jump when somebody sets the system's
/// clock, and it stands still while the machine is suspended. What that makes it differ from the time of day by is seen
/// with [`Clock::drift`] and made up for with [`Clock::follow`], by whoever moves the leases along.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;

    /// By how many milliseconds the time of day is ahead of [`Clock::now`]; negative if it is behind.
    fn drift(&self) -> i64;

    /// Moves [`Clock::now`] by so many milliseconds.
    fn follow(&self, millis: i64);
}

/// The system's clocks: the time of day when this was made, and the monotonic one from then on.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    origin: AtomicU64,
}

impl SystemClock {
    /// A clock that shows the time of day, now.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now(), origin: AtomicU64::new(time_of_day().0) }
    }
}

fn time_of_day() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().after(since_epoch)
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.origin.load(Ordering::SeqCst)).after(self.started.elapsed())
    }

    fn drift(&self) -> i64 {
        self.now().until(time_of_day())
    }

    fn follow(&self, millis: i64) {
        move_by(&self.origin, millis);
    }
}

fn move_by(at: &AtomicU64, millis: i64) {
    let moved = |old: u64| Some(Timestamp(old).moved(millis).0);
    // The closure always gives a value.
    let _ = at.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    time_of_day: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `at`.
    #[must_use]
    pub const fn at(at: Timestamp) -> Self {
        Self { now: AtomicU64::new(at.0), time_of_day: AtomicU64::new(at.0) }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        move_by(&self.now, millis);
        move_by(&self.time_of_day, millis);
    }

    /// Sets the time of day forward or back; a machine that was suspended finds it set forward, too.
    pub fn jump(&self, millis: i64) {
        move_by(&self.time_of_day, millis);
    }

    /// Puts it back, as a clock does that does not run evenly.
    pub fn put_back(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        move_by(&self.now, -millis);
        move_by(&self.time_of_day, -millis);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn drift(&self) -> i64 {
        self.now().until(Timestamp(self.time_of_day.load(Ordering::SeqCst)))
    }

    fn follow(&self, millis: i64) {
        move_by(&self.now, millis);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_shows_the_time_of_day_and_follows_it_only_when_told() {
        let clock = SystemClock::start();
        assert!(clock.drift().abs() < 1000, "{}", clock.drift());
        let before = clock.now();
        clock.follow(-3_600_000);
        assert!(clock.now() < before);
        assert!((3_599_000..3_601_000).contains(&clock.drift()), "{}", clock.drift());
        clock.follow(3_600_000);
        assert!(clock.now() >= before && clock.drift().abs() < 1000);
    }

    #[test]
    fn moments_move_within_the_bounds_of_time() {
        let moment = Timestamp::from_millis(10);
        assert_eq!((moment.moved(5).millis(), moment.moved(-15).millis()), (15, 0));
        assert_eq!(Timestamp::from_millis(u64::MAX).moved(1).millis(), u64::MAX);
        assert_eq!((moment.until(moment.moved(-4)), moment.until(moment.moved(4))), (-4, 4));
    }
}
