//! Replacing files on a real file system: what it keeps, what it refuses, what it sees of others, what a crash leaves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helpers fail the test")]

mod conflicts;
mod crashes;
mod ordinary;
#[path = "../worktree/ordinary_user.rs"]
mod ordinary_user;
mod paths;
mod racing;
mod refusals;
mod small_disk;
mod world;
mod writers;
