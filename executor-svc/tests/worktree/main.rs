//! Worktrees with the real git in the real sandbox.
//!
//! Run by root, the whole suite runs once more as an ordinary user (see `ordinary_user`).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod binding;
mod canaries;
mod half_made;
mod life;
mod ordinary_user;
#[path = "../engine/program.rs"]
mod program;
mod refusals;
mod snapshot;
mod strange;
mod unavailable;
mod world;
