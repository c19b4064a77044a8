//! The launching side of a confined program.

use std::io;
use std::net::TcpListener;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::Child;

use super::LaunchRequest;
use super::confinement::Confinement;
use super::start::{LaunchError, Launcher, Streams};

/// A confined program that runs, with every step of its set-up done.
#[derive(Debug)]
pub struct Confined {
    /// The program's keeper: it carries the program's standard streams, lives a moment longer than the program, and ends
    /// the same way (same exit code, or by the same signal). Killing it kills all that is inside.
    pub child: Child,
    /// The layers of the sandbox that are in force for it, in the order in which they were put up.
    pub enforced_by: Vec<String>,
    /// The listeners that were asked for, in order. They belong to the program's own network: nobody else can reach
    /// them.
    pub listeners: Vec<TcpListener>,
    /// The hold on everything inside.
    pub hold: Hold,
}

/// The hold on everything inside. Dropping it kills all of it.
#[derive(Debug)]
pub struct Hold {
    control: UnixStream,
    /// What the keeper has said so far about the end.
    said: Vec<u8>,
    /// The first process inside; with its end the kernel ends all others.
    #[cfg(target_os = "linux")]
    init: std::os::fd::OwnedFd,
}

/// How a confined program ended. Everything inside is gone by the time this is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// The program's own end.
    pub how: Exit,
    /// The time limit was reached.
    pub timed_out: bool,
    /// The scratch held more than it may, so that everything was ended.
    pub scratch_full: bool,
    /// What the program and all that it waited for used up.
    pub usage: Usage,
}

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited, with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Everything inside was killed at once, from outside.
    TornDown,
}

/// What was used up; zero where everything was torn down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The most memory that any one process had; bytes.
    pub peak_memory_bytes: u64,
    /// Processor time in programs; microseconds.
    pub user_us: u64,
    /// Processor time in the kernel; microseconds.
    pub system_us: u64,
}

impl Hold {
    /// Sends a signal to the program (with a session of its own: to its process group). Works from a process that may
    /// itself send no signals.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn signal(&self, signal: nix::sys::signal::Signal) -> io::Result<()> {
        let number = u8::try_from(signal as i32).map_err(io::Error::other)?;
        self.control.try_write(&[number]).map(drop)
    }

    /// Kills everything inside. Works from a process that may itself send no signals.
    ///
    /// # Errors
    /// When everything has ended already.
    pub async fn kill(&mut self) -> io::Result<()> {
        use tokio::io::AsyncWriteExt;
        self.control.shutdown().await
    }

    /// A descriptor of the first process inside (a pidfd): readable when everything is gone; SIGKILL through it ends all.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn init(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.init)
    }

    /// Waits until everything inside is gone.
    ///
    /// # Errors
    /// When the keeper was killed, so that nobody tells; everything inside is gone then, or about to be.
    pub async fn ended(&mut self) -> io::Result<Ended> {
        (&mut self.control).take(4096).read_to_end(&mut self.said).await?;
        if self.said.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_slice(&self.said).map_err(io::Error::from)
    }
}

#[cfg(target_os = "linux")]
impl Launcher {
    /// Starts a confined program, and returns once it runs.
    ///
    /// The program dies with the *thread* that calls this (see [`Launcher::start`]), when the [`Hold`] is dropped, and
    /// when its keeper is killed.
    ///
    /// # Errors
    /// When any step or layer fails; nothing runs then.
    pub async fn start_confined(
        &self,
        request: &LaunchRequest,
        confinement: &Confinement,
        streams: Streams,
    ) -> Result<Confined, LaunchError> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(LaunchError::Pipe)?;
        ours.set_nonblocking(true).map_err(LaunchError::Pipe)?;
        let control = UnixStream::from_std(ours).map_err(LaunchError::Pipe)?;
        let (child, enforced_by) =
            self.carry_out(request, Some(confinement), streams, Some(theirs.into())).await?;
        let mut handed = crate::linux::handover::receive(&control).await.map_err(LaunchError::Pipe)?;
        if handed.is_empty() {
            return Err(LaunchError::Silent);
        }
        let init = handed.remove(0);
        let listeners = handed.into_iter().map(TcpListener::from).collect();
        Ok(Confined { child, enforced_by, listeners, hold: Hold { control, said: Vec::new(), init } })
    }
}

#[cfg(target_os = "macos")]
impl Launcher {
    /// Starts a confined program, and returns once it runs.
    ///
    /// The program dies when the [`Hold`] is dropped, when this process ends, and when its keeper is killed. The
    /// listeners that are asked for are made here, on 127.0.0.1: every process of the machine can reach them, and no two
    /// programs can have the same.
    ///
    /// # Errors
    /// When any step or layer fails; nothing runs then.
    pub async fn start_confined(
        &self,
        request: &LaunchRequest,
        confinement: &Confinement,
        streams: Streams,
    ) -> Result<Confined, LaunchError> {
        let listeners = listeners(request, confinement)?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(LaunchError::Pipe)?;
        ours.set_nonblocking(true).map_err(LaunchError::Pipe)?;
        let control = UnixStream::from_std(ours).map_err(LaunchError::Pipe)?;
        let (child, enforced_by) =
            self.carry_out(request, Some(confinement), streams, Some(theirs.into())).await?;
        Ok(Confined { child, enforced_by, listeners, hold: Hold { control, said: Vec::new() } })
    }
}

/// For Claude Code. A process that confines itself makes its own.
#[cfg(target_os = "macos")]
fn listeners(request: &LaunchRequest, confinement: &Confinement) -> Result<Vec<TcpListener>, LaunchError> {
    use super::{Layer, LayerFailure, Network, Policy};
    let Network::Listeners { ports } = &confinement.network else { return Ok(Vec::new()) };
    if request.policy != Policy::Claude {
        return Ok(Vec::new());
    }
    let failed = |call: String, errno| LaunchError::Layer(LayerFailure::new(Layer::Loopback, call, errno));
    let listen = |port: &u16| {
        let call = format!("bind 127.0.0.1:{port}");
        if *port < 1024 {
            return Err(failed(call, nix::errno::Errno::EINVAL as i32));
        }
        TcpListener::bind(("127.0.0.1", *port))
            .map_err(|error| failed(call, error.raw_os_error().unwrap_or(0)))
    };
    ports.iter().map(listen).collect()
}
