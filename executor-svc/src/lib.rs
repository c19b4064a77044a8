//! Gatehouse's privileged daemon: it holds the ledger, the files and the launches.
//!
//! Rooms, ground floor first; a room imports only from floors below it:
//! 1. `clock`, `cancel`, `config`, `contact`, `credential`, `fail_point`, `folders`, `metrics`, `state_lock`
//! 2. `ledger`, `content`, `files`; `commands`: running a program in the sandbox; `worktree`: isolated
//!    copies of a repository; `skill`: which instructions a session may carry
//! 3. `session`: the pure session machine
//! 4. `tools`; `engine`: where a command meets the ledger; `action`: the one path every tool call takes
//! 5. `runner`: processes; `subagent`: the broker between a subagent and its provider
//! 6. `rpc`: translation, one file per service
//! 7. `main.rs`: wiring
//!
//! The daemon listens on three Unix sockets and never on TCP.

#![forbid(unsafe_code)]

pub mod action;
pub mod cancel;
pub mod clock;
pub mod commands;
pub mod config;
pub mod contact;
pub mod content;
pub mod credential;
pub mod engine;
pub mod fail_point;
pub mod files;
pub mod folders;
pub mod ledger;
pub mod metrics;
pub mod rpc;
pub mod runner;
pub mod session;
pub mod skill;
pub mod state_lock;
pub mod subagent;
pub mod tools;
pub mod worktree;
