//! When a model turn was asked for, and when its reply began to come: for whoever measures.
//!
//! Noted only if the prompt says so ([`MARK`]), in a file beside the transcript, one line for each turn that is answered:
//! two numbers, nanoseconds since 1970. Before each request there is then a pause, now longer, now shorter: some disks
//! answer at the beat of a clock, and what is measured must not march in step with it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a prompt has to hold.
const MARK: &str = "[note the times]";

/// The longest pause, in microseconds.
const PAUSE: u64 = 8000;

/// The notes of a run.
#[derive(Debug, Default)]
pub struct Times {
    file: Option<File>,
    asked: u128,
    began: u128,
    /// Of a small generator.
    dice: u64,
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

impl Times {
    /// For a run with this prompt.
    pub fn of(prompt: &str, transcript: &Path) -> io::Result<Self> {
        if !prompt.contains(MARK) {
            return Ok(Self::default());
        }
        let path = transcript.with_extension("times");
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file: Some(file), ..Self::default() })
    }

    /// The request is about to be sent.
    pub fn asked(&mut self) {
        if self.file.is_some() {
            self.dice =
                self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_micros((self.dice >> 33) % PAUSE));
        }
        (self.asked, self.began) = (now(), 0);
    }

    /// Something of the reply has come.
    pub fn reply(&mut self) {
        if self.began == 0 {
            self.began = now();
        }
    }

    /// The reply is here.
    pub fn over(&mut self) -> io::Result<()> {
        let (asked, began) = (self.asked, self.began);
        self.file.as_mut().map_or(Ok(()), |file| writeln!(file, "{asked} {began}"))
    }
}
