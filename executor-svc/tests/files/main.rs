//! The file tools, asked the way the action room asks them, on a real file system.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod budgets;
mod links;
#[path = "../worktree/ordinary_user.rs"]
mod ordinary_user;
mod reading;
mod refusals;
mod special;
mod walking;
mod world;
