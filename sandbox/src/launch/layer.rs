//! The layers of a sandbox, and what is said of one that cannot be had.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use super::remedy::Remedy;

/// A layer. Its name is what [`super::Confined::enforced_by`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// A user namespace: no privilege of the host's.
    Userns,
    /// A mount namespace: a view of the file system of its own.
    Mountns,
    /// A process namespace: no process of the host's is visible, and all end with the first.
    Pidns,
    /// A network namespace: no network interface of the host's.
    Netns,
    /// An IPC namespace: no System V or POSIX queue or segment of the host's.
    Ipcns,
    /// A namespace for the host's name.
    Utsns,
    /// A cgroup namespace.
    Cgroupns,
    /// The whole file system read-only, set-user-id and device files without effect.
    ReadOnlyView,
    /// A root that holds only what was named.
    MinimalRoot,
    /// `/tmp` of its own.
    Scratch,
    /// `/dev` of its own: a handful of harmless devices.
    Dev,
    /// `/proc` of its own, read-only.
    Proc,
    /// Protected paths and the host's control sockets are hidden.
    Masks,
    /// The loopback interface of the own network is up; nothing else is in it.
    Loopback,
    /// No capability, and none to be had.
    Capabilities,
    /// No privilege through set-user-id files.
    NoNewPrivs,
    /// Landlock's rules for files.
    Landlock,
    /// Landlock's rules for TCP.
    LandlockTcp,
    /// Landlock's rules for signals and abstract Unix sockets.
    LandlockScopes,
    /// The system call filter.
    Seccomp,
    /// Limits of resources.
    Rlimits,
    /// macOS: a profile of the system's sandbox, in force for the program and all that it starts.
    Seatbelt,
    /// macOS: every process that the program starts is followed, and ended with it.
    ProcessTracker,
}

impl Layer {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Userns => "userns",
            Self::Mountns => "mountns",
            Self::Pidns => "pidns",
            Self::Netns => "netns",
            Self::Ipcns => "ipcns",
            Self::Utsns => "utsns",
            Self::Cgroupns => "cgroupns",
            Self::ReadOnlyView => "read_only_view",
            Self::MinimalRoot => "minimal_root",
            Self::Scratch => "scratch",
            Self::Dev => "dev",
            Self::Proc => "proc",
            Self::Masks => "masks",
            Self::Loopback => "loopback",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivs => "no_new_privs",
            Self::Landlock => "landlock",
            Self::LandlockTcp => "landlock_tcp",
            Self::LandlockScopes => "landlock_scopes",
            Self::Seccomp => "seccomp",
            Self::Rlimits => "rlimits",
            Self::Seatbelt => "seatbelt",
            Self::ProcessTracker => "process_tracker",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A layer that could not be had, so that nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerFailure {
    /// The layer.
    pub layer: Layer,
    /// The system call that failed, with what it was about.
    pub call: String,
    /// Its error number; 0 where there is none.
    pub errno: i32,
    /// What can be done about it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

impl LayerFailure {
    /// A failure whose remedy is not known.
    pub(crate) fn new(layer: Layer, call: impl Into<String>, errno: impl Into<i32>) -> Self {
        Self { layer, call: call.into(), errno: errno.into(), remedy: None }
    }
}

impl fmt::Display for LayerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, call, errno, remedy } = self;
        write!(f, "sandbox layer {layer}: {call}")?;
        if *errno != 0 {
            write!(f, ": {}", io::Error::from_raw_os_error(*errno))?;
        }
        remedy.map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl std::error::Error for LayerFailure {}
