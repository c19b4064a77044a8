//! The real Claude Code through the real `runner-shim` binary, against an executor that the test plays.
//!
//! Needs `CLAUDE_BIN` (the executable, version 2.1.247), and `sandbox-launch` and `sandbox-relay` beside `runner-shim` (build
//! the workspace's binaries first). Where either is missing, every test here fails and says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod confined;
mod endings;
mod executor;
mod hostile;
mod http;
mod model;
mod ordinary_user;
mod prompts;
mod proxy;
mod relay;
mod restarts;
mod retries;
mod shim;
mod starts;
mod whole;
