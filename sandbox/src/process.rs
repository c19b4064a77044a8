//! Who a process is, proven before any signal is sent.
//!
//! A pid alone names whatever runs under that number now. A [`ProcessIdentity`] says who was meant: the pid, when the
//! process began, the file it runs and, where there is one, a nonce on its command line. [`ProcessHandle::adopt`]
//! proves that the process is still that one; the handle then never reaches another, also when the number is used
//! again (Linux: a pidfd; macOS: the identity is proven anew before each signal).

use std::io;
use std::path::{Path, PathBuf};

pub use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

#[cfg_attr(target_os = "linux", path = "process/linux.rs")]
#[cfg_attr(target_os = "macos", path = "process/macos.rs")]
mod platform;
pub mod record_lock;

/// Who a process is. Fit for storing; a pid never leaves the machine's own state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process id.
    pub pid: u32,
    /// When it began, in the platform's own unit (Linux: clock ticks since boot; macOS: microseconds since 1970).
    pub start_time: u64,
    /// The file it runs, all links resolved.
    pub executable: PathBuf,
    /// A random text that must stand as one of its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
}

/// Why a process is not, or not provably, the one that was meant.
#[derive(Debug, thiserror::Error)]
pub enum Gone {
    /// Nothing runs under that number any more, or only a zombie does.
    #[error("the process has ended")]
    Ended,
    /// Another process has that number now.
    #[error("another process has its number: the {differs} differs")]
    Another {
        /// The part of the identity that does not fit.
        differs: &'static str,
    },
    /// The system does not tell. Not proof of anything; no signal is sent.
    #[error("its identity cannot be read")]
    Unreadable(#[source] io::Error),
}

impl Gone {
    /// Whether this is proof that the process does not run any more.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        matches!(self, Self::Ended | Self::Another { .. })
    }
}

/// The identity of the process that has this pid now, without a nonce. Take it while the process is known to be the
/// right one (as its parent, before it was waited for), and before it makes itself not dumpable.
///
/// # Errors
/// When there is none, or the system does not tell.
pub fn identity_of(pid: u32) -> Result<ProcessIdentity, Gone> {
    let start_time = platform::start_time(pid)?;
    let executable = platform::executable(pid)?;
    Ok(ProcessIdentity { pid, start_time, executable, nonce: None })
}

/// When a process began, in the platform's own unit; nothing when there is none, or it has ended.
#[cfg(target_os = "macos")]
pub(crate) fn started(pid: u32) -> Option<u64> {
    platform::start_time(pid).ok()
}

impl ProcessIdentity {
    /// The same, with a nonce that must stand as an argument of its own on the process's command line.
    #[must_use]
    pub fn with_nonce(mut self, nonce: impl Into<String>) -> Self {
        self.nonce = Some(nonce.into());
        self
    }

    /// Compares with what runs now.
    fn prove(&self) -> Result<(), Gone> {
        if platform::start_time(self.pid)? != self.start_time {
            return Err(Gone::Another { differs: "start time" });
        }
        self.prove_executable(platform::executable(self.pid))?;
        match &self.nonce {
            Some(nonce) if !platform::arguments(self.pid)?.iter().any(|arg| arg == nonce.as_bytes()) => {
                Err(Gone::Another { differs: "nonce" })
            }
            _ => Ok(()),
        }
    }

    /// The kernel hides the file of a process that is not dumpable from other processes of the same user. Its nonce,
    /// which is proven next, then stands in for it; without one nothing is proven.
    fn prove_executable(&self, seen: Result<PathBuf, Gone>) -> Result<(), Gone> {
        match seen {
            Ok(now) if same_file(&now, &self.executable) => Ok(()),
            Ok(_) => Err(Gone::Another { differs: "executable" }),
            Err(Gone::Unreadable(error))
                if error.kind() == io::ErrorKind::PermissionDenied && self.nonce.is_some() =>
            {
                Ok(())
            }
            Err(other) => Err(other),
        }
    }
}

/// The same path, whether or not the file was replaced since (an upgrade must not orphan what runs).
fn same_file(now: &Path, then: &Path) -> bool {
    let bare = |path: &Path| {
        let text = path.to_string_lossy();
        text.strip_suffix(" (deleted)").unwrap_or(&text).to_owned()
    };
    bare(now) == bare(then)
}

/// A process whose identity was proven, and which this handle keeps naming.
#[derive(Debug)]
pub struct ProcessHandle {
    identity: ProcessIdentity,
    grip: platform::Grip,
}

impl ProcessHandle {
    /// Takes hold of the process if it still is the one that `identity` names.
    ///
    /// # Errors
    /// When it is gone ([`Gone::is_proven`]), or the system does not tell.
    pub fn adopt(identity: &ProcessIdentity) -> Result<Self, Gone> {
        // The order matters: the grip first, then the proof, then that the gripped process still lives. Only so is
        // what was proven what is held.
        let grip = platform::Grip::take(identity)?;
        identity.prove()?;
        if !grip.is_alive() {
            return Err(Gone::Ended);
        }
        Ok(Self { identity: identity.clone(), grip })
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Whether it still runs (a zombie does not).
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.grip.is_alive()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it has ended, or the system refuses.
    pub fn signal(&self, signal: Signal) -> Result<(), Gone> {
        self.grip.signal(signal)
    }

    /// Sends a signal to the process group that it leads. Nothing is sent unless the leader itself still runs.
    ///
    /// # Errors
    /// When it has ended, does not lead a group, or the system refuses.
    pub fn signal_group(&self, signal: Signal) -> Result<(), Gone> {
        if !self.is_alive() {
            return Err(Gone::Ended);
        }
        let leader = as_pid(self.identity.pid)?;
        nix::sys::signal::killpg(leader, signal).map_err(|errno| match errno {
            nix::errno::Errno::ESRCH => Gone::Ended,
            other => Gone::Unreadable(other.into()),
        })
    }

    /// Waits until it has ended. A child of ours still has to be waited for by its parent afterwards.
    pub async fn wait_gone(&self) {
        self.grip.wait_gone().await;
    }
}

/// A pid as the system calls take it: positive, so that it never means a group or "all".
fn as_pid(pid: u32) -> Result<nix::unistd::Pid, Gone> {
    match i32::try_from(pid) {
        Ok(raw) if raw > 0 => Ok(nix::unistd::Pid::from_raw(raw)),
        _ => Err(Gone::Another { differs: "number" }),
    }
}

#[cfg(test)]
mod tests;
