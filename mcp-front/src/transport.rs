//! The protocol's two transports. The MCP library is known here and nowhere else.
//!
//! The library does the protocol: negotiation of the three revisions, the shapes of results. What it gets to see was
//! admitted before: [`jsonrpc`] reads every message strictly and lets through only the few methods that exist here,
//! `access` decides who may speak over HTTP at all, and whatever is refused is refused as a JSON-RPC error.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::cli::Protocol;
use crate::contact::Contact;
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::surface::Registry;
use crate::waits::Waits;

mod access;
mod headers;
pub mod http;
pub mod jsonrpc;
mod library;
pub mod listen;
pub mod stdio;

/// The largest message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 6 * 1024 * 1024;

/// What both transports serve.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The tools.
    pub surfaces: Registry,
    /// Who answers them, asked directly only for readiness.
    pub executor: Executor,
    /// Who waits.
    pub waits: Waits,
    /// What reached us.
    pub contact: Contact,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Which protocol revisions are offered.
    pub protocol: Protocol,
    /// Cancelled when the front is to end: calls that wait are then answered at once.
    pub closing: CancellationToken,
}
