//! What an attempt is given and what comes of it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;

/// What was got, or why not.
pub type Outcome = io::Result<String>;

/// The words of the command line.
pub struct Arguments<'a> {
    pub name: &'a str,
    rest: &'a [OsString],
}

impl<'a> Arguments<'a> {
    pub fn of(words: &'a [OsString]) -> Self {
        let (name, rest) =
            words.split_first().map_or(("", words), |(name, rest)| (name.to_str().unwrap_or(""), rest));
        Self { name, rest }
    }

    pub fn text(&self, at: usize) -> &'a OsStr {
        self.rest.get(at).map_or_else(|| OsStr::new(""), OsString::as_os_str)
    }

    pub fn path(&self, at: usize) -> &'a Path {
        Path::new(self.text(at))
    }

    pub fn number(&self, at: usize) -> i64 {
        let text = self.text(at).to_str().unwrap_or("");
        let hex = text.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
        hex.or_else(|| text.parse().ok()).unwrap_or(0)
    }

    pub fn small(&self, at: usize) -> i32 {
        i32::try_from(self.number(at)).unwrap_or(0)
    }

    pub fn rest_from(&self, at: usize) -> Arguments<'a> {
        Arguments::of(self.rest.get(at..).unwrap_or_default())
    }

    pub fn count(&self) -> usize {
        self.rest.len()
    }
}

/// Prints it.
pub fn tell(outcome: Outcome) -> ExitCode {
    let line = match outcome {
        Ok(got) => format!("ok {got}\n"),
        Err(error) => match error.raw_os_error() {
            Some(number) => format!("errno {:?}\n", Errno::from_raw(number)),
            None => format!("error {error}\n"),
        },
    };
    match io::stdout().write_all(line.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
