//! The executor without Claude Code: engine, ledger and services over real sockets, on a clock that the test moves, and
//! commands in the real sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod asking;
mod caller;
mod clocks;
mod commands;
mod costs;
mod damage;
mod full_disk;
mod house;
mod launches;
mod leases;
mod lived;
mod migration;
mod operator;
mod program;
mod prune;
mod resolve;
mod restarts;
mod skills;
mod stuck;
mod subagents;
mod twins;
mod undo;
mod waits;
mod writes;
