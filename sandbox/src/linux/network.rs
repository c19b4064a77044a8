//! Step 2: the network.
//!
//! The new network namespace has one interface, loopback, and it is down: nothing can be reached, not even by whoever
//! gets round the system call filter. For Claude Code it is switched on, and the listeners that it may connect to are
//! made inside and handed out: the shim accepts on them from outside, and no other process of the machine can reach them.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use super::{Step, failed, raw, refused};
use crate::launch::{Layer, Network};

/// Below this number a port needs a privilege outside, and people expect well-known services behind it.
const FIRST_PORT: u16 = 1024;
/// More than the two that a run needs would be a mistake.
const MOST_LISTENERS: usize = 8;

/// Sets the network up; gives the listeners that were asked for.
///
/// # Errors
/// When the interface or a listener cannot be had.
pub(super) fn set_up(network: &Network, layers: &mut Vec<Layer>) -> Step<Vec<TcpListener>> {
    match network {
        Network::None => Ok(Vec::new()),
        Network::PrivateLoopback => {
            switch_on(layers)?;
            Ok(Vec::new())
        }
        Network::Listeners { ports } => {
            if ports.len() > MOST_LISTENERS || ports.iter().any(|&port| port < FIRST_PORT) {
                return Err(refused(Layer::Loopback, "ports below 1024, or too many"));
            }
            switch_on(layers)?;
            ports.iter().map(|&port| listen(port)).collect()
        }
    }
}

fn switch_on(layers: &mut Vec<Layer>) -> Step {
    // Any Internet socket will do; one that is bound to nothing says nothing.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed(Layer::Loopback, "socket"))?;
    raw::loopback_up(socket.as_fd()).map_err(failed(Layer::Loopback, "ioctl SIOCSIFFLAGS lo"))?;
    layers.push(Layer::Loopback);
    Ok(())
}

fn listen(port: u16) -> Step<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(failed(Layer::Loopback, format!("bind 127.0.0.1:{port}")))
}
