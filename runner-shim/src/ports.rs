//! The two ports through which Claude Code reaches us, and nobody else does.
//!
//! They lie in the network that Claude Code has to itself: the launcher makes the listeners there and hands them over.

use std::io;
use std::net::TcpListener;

use axum::Router;
use axum::serve::ListenerExt;

use crate::gate::{Carrier, Gate, Secret};

/// The same in every run: no two runs share a network, and nothing else is in it.
const MESSAGES: u16 = 47_811;
const TOOLS: u16 = 47_812;

/// The two ports and what each wants to be shown.
#[derive(Debug)]
pub struct Ports {
    /// The Messages API.
    pub messages: (u16, Secret),
    /// The MCP server.
    pub tools: (u16, Secret),
}

impl Ports {
    /// With fresh secrets.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn mint() -> Result<Self, getrandom::Error> {
        Ok(Self { messages: (MESSAGES, Secret::mint()?), tools: (TOOLS, Secret::mint()?) })
    }
}

/// Serves one of them, behind its gate, until the run ends.
///
/// # Errors
/// When the listener cannot be used.
pub fn serve(
    listener: TcpListener,
    (port, secret): &(u16, Secret),
    carrier: Carrier,
    router: impl FnOnce(Gate) -> Router,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = router(Gate { secret: secret.clone(), carrier, port: *port });
    // Events are small and must not wait for each other.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(())
}
