//! Gatehouse's MCP front: what ChatGPT (through its tunnel) talks to.
//!
//! It answers the protocol by itself, checks every argument by hand, and turns each of the six session tools into one
//! gRPC call on the executor's `front` socket. It holds no session state and no authority over files: it may be killed
//! and started again at any moment, and the same call with the same ids gives the same answer.
//!
//! * [`transport`]: streamable HTTP and stdio. The only place that knows the MCP library.
//! * [`surface`]: which tools stand at which path, their schemas, and their translation.
//! * [`executor`]: the gRPC client; calls that change something outlive the request that asked for them.
//! * [`errors`]: the one mapping from a gRPC status to what the caller sees.
//! * [`contact`]: what reached the front, told to the executor.
//! * [`waits`]: how many calls may wait at the same time, and for how long.
//!
//! What it does not do: decide anything about sessions, leases, turns or files. That is the executor's.

#![forbid(unsafe_code)]

pub mod cli;
pub mod confine;
pub mod contact;
pub mod errors;
pub mod executor;
pub mod key;
pub mod metrics;
pub mod service;
pub mod surface;
pub mod transport;
pub mod waits;
