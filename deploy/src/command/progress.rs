//! Telling how far long work is: on standard error, and only if that is a terminal. What a command prints stays as it is.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often progress is told.
const PAUSE: Duration = Duration::from_secs(1);

/// One line that is written over and over, and gone in the end.
#[derive(Debug)]
pub(super) struct Progress {
    shows: bool,
    began: Instant,
    told: Option<Instant>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { shows: std::io::stderr().is_terminal(), began: Instant::now(), told: None }
    }

    /// Tells, if it is time to.
    pub(super) fn tell(&mut self, text: &str) {
        let last = self.told.unwrap_or(self.began);
        if self.shows && last.elapsed() >= PAUSE {
            self.told = Some(Instant::now());
            self.write(&format!("\r\u{1b}[K{text}"));
        }
    }

    fn write(&self, text: &str) {
        let mut stderr = std::io::stderr();
        // Nobody is left to tell when standard error is closed.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told.is_some() {
            self.write("\r\u{1b}[K");
        }
    }
}
