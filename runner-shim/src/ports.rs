//! The two ports through which Claude Code reaches us, and nobody else does.
//!
//! On Linux they lie in the network that Claude Code has to itself: the launcher makes the listeners there and hands them
//! over. Elsewhere they are the machine's, and only their secrets keep others out.

use std::io;
use std::net::TcpListener;

use axum::Router;
use axum::serve::ListenerExt;

use crate::gate::{Carrier, Gate, Secret};

/// The same in every run where no two runs share a network, and nothing else is in it.
const OWN: (u16, u16) = (47_811, 47_812);

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
    /// When the system has no randomness, or no port, to give.
    pub fn mint() -> io::Result<Self> {
        let (messages, tools) = if cfg!(target_os = "linux") { OWN } else { free()? };
        let secret = || Secret::mint().map_err(io::Error::other);
        Ok(Self { messages: (messages, secret()?), tools: (tools, secret()?) })
    }
}

/// Two ports of this machine that nobody has at this moment. If somebody takes one before the launcher does, the launch
/// fails and says so.
fn free() -> io::Result<(u16, u16)> {
    let any = || TcpListener::bind(("127.0.0.1", 0));
    // Both are held at the same time, or they could be one.
    let (one, other) = (any()?, any()?);
    Ok((one.local_addr()?.port(), other.local_addr()?.port()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_the_machine_are_two_and_free() {
        let (one, other) = free().unwrap();
        assert_ne!(one, other);
        assert!(one >= 1024 && other >= 1024);
    }
}
