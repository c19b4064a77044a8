//! The executor as a process on a disk that fails it: full, locked, read-only, broken, damaged, killed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod failing;
mod killed;
mod started;
mod world;
