//! A scripted ChatGPT: the MCP client that `gatehouse demo` and the process-level suites drive the front with.
//!
//! [`Client`] speaks JSON-RPC over the three ways a front can be reached: HTTP on TCP, HTTP on a Unix socket, and the
//! standard input and output of a child. Like the tunnel it opens a connection per HTTP call and keeps nothing
//! between two calls. [`Brain`] is one session as ChatGPT holds it: the ids it was given and the six tools.
//!
//! It decides nothing by itself and repeats nothing: what a script asks is what is sent.

mod answer;
mod brain;
mod client;
pub mod http;
mod stdio;

pub use answer::{State, ToolError, ToolResult};
pub use brain::{Brain, Call, Start, fresh_id};
pub use client::{Client, ClientError, RpcError, Tap};
pub use http::Endpoint;
pub use stdio::Pipe;
