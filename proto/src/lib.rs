//! The gRPC contract between Gatehouse's processes.
//!
//! Three services, one per role and socket: [`v1`]`::front_*` for `mcp-front`, `runner_*` for a `runner-shim`,
//! `operator_*` for the person at the machine. Beside the generated code stand what both ends must agree on: the
//! newtypes of every id ([`ids`]), the stable error codes ([`codes`]) and how they travel ([`refusal`]), the digest
//! of a tool call's input ([`digest`]), the text of a skill ([`skill`]), and connecting and serving over Unix sockets
//! ([`socket`]).
//!
//! Nothing here decides anything; decisions live in the executor's `session` room.

#![forbid(unsafe_code)]

pub mod codes;
pub mod digest;
pub mod ids;
mod names;
pub mod refusal;
pub mod skill;
pub mod socket;

/// Generated from `proto/gatehouse/v1/*.proto`.
#[allow(
    missing_docs,
    missing_debug_implementations,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::restriction,
    reason = "generated code"
)]
pub mod v1 {
    tonic::include_proto!("gatehouse.v1");
}
