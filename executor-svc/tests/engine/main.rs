//! The executor without processes: engine, ledger and services over real sockets, on a clock that the test moves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod costs;
mod full_disk;
mod house;
mod launches;
mod leases;
mod operator;
mod restarts;
mod twins;
mod waits;
