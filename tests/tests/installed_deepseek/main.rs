//! Subagents with the real Claude Code and a DeepSeek on loopback: what they do, what they must not, and how they end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod credential;
mod delegation;
mod endings;
mod failures;
mod other_program;
mod restarts;
mod tls;
mod world;
