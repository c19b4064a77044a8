//! A running process confines itself, for good.
//!
//! For processes that need authority to start (read a key, bind a listener, launch a program) and none afterwards. What is
//! open stays open; what can be opened, connected to or started from then on is what [`SelfPolicy`] names and no more.

use std::path::PathBuf;

use crate::launch::{LaunchError, Layer};

/// What a process keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelfPolicy {
    /// The directories that remain: the whole of what is left of the file system, read-only, each under its own path.
    /// The process can connect to the Unix stream sockets that lie in them, also to ones that are made there later.
    pub reachable: Vec<PathBuf>,
}

/// Confines this process and all threads that it starts from now on to `policy`. Gives the layers in force.
///
/// Afterwards it has: the descriptors that are open now (it goes on accepting on listeners, wherever they were made), the
/// directories of the policy, threads, Unix stream sockets. It has no other file, starts no program, makes no
/// connection to any network, makes no listener, and sends no signal to a process that it started before (a confined
/// program's [`crate::launch::Hold`] still works). Its current directory is `/`, its umask stays.
///
/// # Errors
/// When a layer cannot be had, or the process has more than one thread: the kernel then refuses a user namespace. The
/// process may be half confined after an error; it must not go on.
#[cfg(target_os = "linux")]
pub fn confine_self(policy: &SelfPolicy) -> Result<Vec<Layer>, LaunchError> {
    crate::linux::confine_self(&policy.reachable).map_err(LaunchError::Layer)
}

/// Finds out that this process is confined: on this system whoever starts it does that, with
/// [`crate::launch::Policy::SelfConfinement`], and no process can do it to itself.
///
/// # Errors
/// [`LaunchError::Unsupported`] when it was not started confined, and a failed layer when what confines it is not this
/// policy. What goes on after an error goes on unconfined.
#[cfg(target_os = "macos")]
pub fn confine_self(policy: &SelfPolicy) -> Result<Vec<Layer>, LaunchError> {
    crate::macos::confine_self(&policy.reachable)
}
