//! The probes: each is a real attempt by a real program inside the real sandbox; it asserts why the attempt failed, and the
//! same attempt outside succeeds.
//!
//! `data/probes.toml` is the list of them. What a line of it tries in one call of `sandbox-probe` is tried by `listed`, on
//! the system that this runs on; what takes more than that has a test of its own, which the line names. Only what exists
//! on one system alone is in a folder of that system.
//!
//! Run by root, the whole suite runs once more as an ordinary user (see `ordinary_user`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod git;
mod host;
mod life;
#[cfg(target_os = "linux")]
#[path = "../linux/mod.rs"]
mod linux;
mod list;
mod listed;
#[cfg(target_os = "macos")]
#[path = "../macos/mod.rs"]
mod macos;
mod network;
mod ordinary_user;
mod probe;
mod program;
mod tools;
