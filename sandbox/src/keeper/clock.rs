//! The time limit.

use std::time::{Duration, Instant};

use crate::launch::TimeLimit;

/// What the time demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Request,
    Kill,
}

/// The time limit: first a request to end, then the end.
#[derive(Debug)]
pub(crate) struct Clock {
    request: Option<Instant>,
    kill: Option<Instant>,
    asked: bool,
}

impl Clock {
    pub(crate) fn start(limit: Option<TimeLimit>) -> Self {
        let now = Instant::now();
        let request = limit.and_then(|limit| now.checked_add(Duration::from_millis(limit.run_ms)));
        let kill =
            limit.zip(request).and_then(|(limit, at)| at.checked_add(Duration::from_millis(limit.grace_ms)));
        Self { request, kill, asked: false }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        if self.asked { self.kill } else { self.request }
    }

    pub(crate) fn tick(&mut self) -> Due {
        match self.next() {
            Some(at) if Instant::now() >= at => {
                if std::mem::replace(&mut self.asked, true) {
                    self.kill = None;
                    Due::Kill
                } else {
                    Due::Request
                }
            }
            _ => Due::Nothing,
        }
    }

    pub(crate) const fn timed_out(&self) -> bool {
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_comes_first_and_the_kill_once_after_it() {
        let mut clock = Clock::start(Some(TimeLimit { run_ms: 0, grace_ms: 0 }));
        assert!(!clock.timed_out() && clock.next().is_some());
        assert_eq!([clock.tick(), clock.tick(), clock.tick()], [Due::Request, Due::Kill, Due::Nothing]);
        assert!(clock.timed_out() && clock.next().is_none());
        let mut patient = Clock::start(Some(TimeLimit::seconds(1000)));
        assert_eq!(patient.tick(), Due::Nothing);
        assert_eq!(Clock::start(None).next(), None);
    }
}
