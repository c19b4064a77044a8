//! The harness of the process-level suites: the real binaries, the real Claude Code, a scripted ChatGPT.
//!
//! [`Gateway`] runs an executor and a front of its own in a short temporary directory; a suite kills and starts either
//! as it likes. Whatever leaves the gateway is recorded ([`record`]), and [`Gateway::finish`], which every test has to
//! call, goes through all of it for things that must not be there ([`scan`]). A test that fails keeps its directory
//! and prints the logs.
//!
//! Nothing here waits for a fixed time: the harness asks until the state it wants is there, up to a bound.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a harness fails by panicking")]
#![allow(clippy::print_stderr, reason = "the log of a failed test goes to its standard error")]

pub mod binaries;
pub mod commands;
#[cfg(target_os = "linux")]
pub mod confinement;
pub mod deepseek;
pub mod dice;
pub mod gateway;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod hijack;
pub mod memory;
pub mod patient;
pub mod peers;
pub mod places;
pub mod processes;
pub mod raw;
pub mod record;
pub mod relay;
pub mod reported;
pub mod scan;
pub mod transcripts;
pub mod tunnel;
pub mod up;
pub mod waiting;

pub use binaries::{claude, skip};
pub use gateway::{Gateway, Setup};
