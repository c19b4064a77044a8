//! Step 2: the network.
//!
//! The new network namespace has one interface, loopback, and it is down: nothing can be reached, not even by whoever
//! gets round the system call filter. For Claude Code it is switched on, and the listeners that it may connect to are
//! made inside and handed out: the shim accepts on them from outside, and no other process of the machine can reach them.
//!
//! Making the namespace takes the kernel a good part of the time of a launch. So the keeper does it while the first process
//! builds the view; that one waits for it, and joins it before it gives up the privilege to do so. The program is
//! started later still.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use super::{Step, failed, namespaces, raw, refused};
use crate::launch::{Layer, Network};

/// Below this number a port needs a privilege outside, and people expect well-known services behind it.
const FIRST_PORT: u16 = 1024;
/// More than the two that a run needs would be a mistake.
const MOST_LISTENERS: usize = 8;

/// What tells the first process that the keeper is in its new network.
pub(super) struct Meeting {
    keeper: OwnedFd,
    made_in: PipeReader,
    made_out: PipeWriter,
}

/// The first process's side.
pub(super) struct Joining {
    keeper: OwnedFd,
    made: PipeReader,
}

/// The keeper's side.
pub(super) struct Making(PipeWriter);

impl Meeting {
    /// Called by the keeper.
    pub(super) fn arrange() -> io::Result<Self> {
        let keeper = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        let (made_in, made_out) = io::pipe()?;
        Ok(Self { keeper, made_in, made_out })
    }

    pub(super) fn split(self) -> (Joining, Making) {
        let Self { keeper, made_in, made_out } = self;
        (Joining { keeper, made: made_in }, Making(made_out))
    }
}

impl Joining {
    /// Waits for the network and joins it.
    ///
    /// # Errors
    /// When the keeper has failed to make it (it says so itself), or is gone.
    pub(super) fn join(mut self, network: &Network, layers: &mut Vec<Layer>) -> Step {
        self.made
            .read_exact(&mut [0])
            .map_err(|_| failed(Layer::Netns, "the keeper made no network")(Errno::ESRCH))?;
        namespaces::join_network(self.keeper.as_fd(), layers)?;
        // The keeper has switched it on by now.
        layers.extend((*network != Network::None).then_some(Layer::Loopback));
        Ok(())
    }
}

impl Making {
    /// Makes the network; gives the listeners that were asked for.
    ///
    /// # Errors
    /// When the namespace, the interface or a listener cannot be had.
    pub(super) fn make(mut self, network: &Network) -> Step<Vec<TcpListener>> {
        let mut layers = Vec::new();
        namespaces::leave_network(&mut layers)?;
        let listeners = set_up(network, &mut layers)?;
        // A first process that is gone needs no network, and has said why.
        let _ = self.0.write_all(b"+");
        Ok(listeners)
    }
}

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
