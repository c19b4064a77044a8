//! The sandbox on macOS: Seatbelt, put on by `/usr/bin/sandbox-exec`, and a keeper that follows every process.
//!
//! ```text
//! keeper (sandbox-launch)                  watcher            program
//! places      real paths of everything
//! profile     parts and parameters
//! fork ──────────────────────────────────▶ waits for the
//! spawn ─────────────────────────────────  keeper's end ────▶ sandbox-exec   the profile, for good
//! proof ◀─ one line over a pipe ──────────────────────────── sandbox-launch --inside
//!                                                              limits, directory, signals
//!                                                              a file that only the profile keeps it from
//!                                                              exec
//! supervisor  signals, time, scratch, every fork, the end
//! ```
//!
//! What is pure (profile, places, following processes) is tested on every system; the rest has been compiled for macOS and
//! not been run. What each step is for, and what a Mac cannot give: `docs/sandbox.md`.

#[cfg(test)]
mod evaluator;
#[cfg(target_os = "macos")]
mod inside;
#[cfg(target_os = "macos")]
mod keeper;
mod outcome;
mod places;
#[cfg(target_os = "macos")]
pub(crate) mod probe;
#[cfg(target_os = "macos")]
mod processes;
mod profile;
#[cfg(target_os = "macos")]
mod raw;
#[cfg(target_os = "macos")]
mod run_directory;
#[cfg(target_os = "macos")]
mod start;
mod tracker;
mod translate;
#[cfg(target_os = "macos")]
mod verify;
#[cfg(target_os = "macos")]
mod watcher;

#[cfg(target_os = "macos")]
pub(crate) use inside::run as run_inside;
#[cfg(target_os = "macos")]
pub(crate) use keeper::run;
#[cfg(target_os = "macos")]
pub(crate) use raw::limit_processes;
#[cfg(target_os = "macos")]
pub(crate) use start::is_inside;
#[cfg(target_os = "macos")]
pub(crate) use verify::confine_self;

#[cfg(test)]
mod tests;
