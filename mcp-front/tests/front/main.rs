//! The front as its clients meet it: the real program, over real TCP, Unix sockets and pipes, with a real gRPC server
//! in the executor's place.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "test support outside of test functions, and long tables"
)]

mod arbitrary;
mod arguments;
mod client;
#[cfg(target_os = "linux")]
mod confined;
mod ends;
mod executor;
mod golden;
mod lost;
mod process;
mod refused;
mod schema;
mod stdio;
mod translation;
