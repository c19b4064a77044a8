//! A launch as data, and the one way to start a program.
//!
//! [`Launcher::start`] runs the small, single-threaded `sandbox-launch` binary, hands it a [`LaunchRequest`] through an
//! inherited pipe (an argument list can be read by every process of the user), and reads from a second pipe how far
//! it came. That pipe closes on exec, so a failed set-up is never taken for the program's own exit, and a program
//! that runs is known to have got every step that the request asks for.
//!
//! The steps, in order: death with the parent, session, limits, umask, directory, signals, descriptors, exec. Each is
//! fatal when it fails. [`Launcher::start_confined`] puts the layers of the operating system's sandbox between them, as
//! [`LaunchRequest::policy`] and [`Confinement`] ask; what it reports as enforced is in force, and a layer that cannot
//! be had is a failed launch.

mod confined;
mod confinement;
mod layer;
pub(crate) mod raw;
mod remedy;
mod start;
pub(crate) mod status;
pub mod steps;

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub use crate::linux::elf::{ElfError, program_files};
pub use confined::{Confined, Ended, Exit, Hold, Usage};
pub use confinement::{Confinement, Network, SCRATCH, SCRATCH_HOME, Scratch, TimeLimit};
pub use layer::{Layer, LayerFailure};
pub use remedy::Remedy;
pub use start::{LaunchError, Launched, Launcher, Streams};
pub use status::Stage;

/// What is to be started, and how. Complete: the started program inherits neither environment nor directory nor
/// descriptors (but the three standard ones, see [`Streams`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchRequest {
    /// The program, by absolute path (nothing is searched for), and its arguments.
    pub argv: Vec<OsString>,
    /// The working directory, absolute.
    pub cwd: OsString,
    /// The whole environment.
    pub env: BTreeMap<String, OsString>,
    /// Which group the program's processes belong to.
    pub group: ProcessGroup,
    /// What it may use up.
    pub limits: Limits,
    /// What it may reach.
    pub policy: Policy,
}

/// Which group the program's processes belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessGroup {
    /// The launching process's own.
    Inherited,
    /// A new session, and so a new group, both numbered by the program's pid; no controlling terminal.
    OwnSession,
}

/// Resource limits; `None` leaves what the launching process has. Core files are always off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Open descriptors.
    pub open_files: Option<u64>,
    /// Processes of the user (the kernel counts all of them, not only the program's).
    pub processes: Option<u64>,
    /// Bytes in one file.
    pub file_bytes: Option<u64>,
    /// Bytes of address space of each process.
    pub address_space_bytes: Option<u64>,
    /// Seconds of processor time of each process.
    pub cpu_seconds: Option<u64>,
}

/// What a program may reach: one of four policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A command that ChatGPT asked for.
    Command,
    /// Claude Code.
    Claude,
    /// Git, for our own questions about a repository.
    Git,
    /// A process of ours that confines itself. Never the policy of a launch; the launcher refuses it.
    SelfConfinement,
}

impl Policy {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Claude => "claude",
            Self::Git => "git",
            Self::SelfConfinement => "self",
        }
    }
}

/// What `sandbox-launch` is told: the launch, and what it may reach. Without the latter the program is set apart
/// (session, environment, directory, limits, descriptors) and not confined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    pub launch: LaunchRequest,
    /// The pid of whoever launches. Not an argument: the program can read those of the process that starts it.
    pub parent: u32,
    pub confinement: Option<Confinement>,
}

#[cfg(test)]
mod tests;
