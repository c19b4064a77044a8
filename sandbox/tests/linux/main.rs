//! The sandbox on Linux: each probe is a real attempt by a real program inside the real sandbox; it asserts why the attempt
//! failed, and the same attempt outside succeeds.
//!
//! Run by root, the whole suite runs once more as an ordinary user (see `ordinary_user`).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod claude;
mod files;
mod git;
mod host;
mod kernel;
mod life;
mod network;
mod ordinary_user;
mod probe;
mod processes;
mod required;
mod self_confinement;
mod tools;
