//! What a confined program may reach, as data.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a launch may reach beyond what its policy grants to every launch of its kind.
///
/// The policy ([`super::Policy`]) decides the view: `Command` and `Git` see the whole file system read-only, `Claude`
/// sees nothing but what is named here. Everything that is asked for is required: a layer that cannot be had is a failed
/// launch, never a launch with less.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Confinement {
    /// `Claude` only: the files that may be executed or mapped as code, each at the path under which it is looked for.
    #[serde(with = "paths")]
    pub programs: Vec<PathBuf>,
    /// `Claude`: all else that may be read. `Command`, `Git`: what stays visible although it lies below a place that
    /// is covered for every launch (`/tmp`).
    #[serde(with = "paths")]
    pub readable: Vec<PathBuf>,
    /// What is hidden, as far as it exists: protected paths, and other names of the same files. Symlinks are hidden
    /// at their end, and every other mount of the same files with them.
    #[serde(with = "paths")]
    pub hidden: Vec<PathBuf>,
    /// Directories of the host that may be written. They must exist.
    #[serde(with = "paths")]
    pub writable: Vec<PathBuf>,
    /// What is mounted at [`SCRATCH`].
    pub scratch: Scratch,
    /// What of a network there is.
    pub network: Network,
    /// How long it may run.
    pub time: Option<TimeLimit>,
}

/// Where the scratch is inside, whatever it is outside. Where nothing can be mounted (macOS) the scratch stays where it is,
/// and this path means it in [`super::LaunchRequest::cwd`] and in the environment: whoever launches names this one.
pub const SCRATCH: &str = "/tmp";
/// The home directory inside: made in the scratch at each launch. The environment has to name it.
pub const SCRATCH_HOME: &str = "/tmp/home";

/// What is mounted at [`SCRATCH`]. The host's own directory of that name is never visible inside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Scratch {
    /// An empty directory that cannot be written.
    #[default]
    None,
    /// A directory of the host, kept between launches.
    Directory {
        /// Where it is outside.
        #[serde(with = "path")]
        path: PathBuf,
        /// The most that may be in it, in bytes. One file cannot become larger; when all of them together do,
        /// everything inside is ended within moments ([`super::Ended::scratch_full`]).
        bytes: u64,
    },
    /// Memory, gone with the program.
    Memory {
        /// The most that it holds, in bytes; more is `ENOSPC`.
        bytes: u64,
    },
}

/// What of a network there is. The host's is never there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Network {
    /// No socket can be made but a connected pair of Unix stream sockets.
    #[default]
    None,
    /// `Command` only: Internet sockets in a network of its own in which there is only loopback.
    PrivateLoopback,
    /// `Claude`, and on macOS a process that confines itself (there: the ports of this machine on which it may listen).
    /// For `Claude` a network of its own in which these ports of 127.0.0.1 can be connected to. The listeners are
    /// made inside it and handed to whoever launches ([`super::Confined::listeners`], in this order).
    Listeners {
        /// The ports, each at least 1024 (a session cannot clash with another: each has a network of its own).
        ports: Vec<u16>,
    },
}

/// How long a program may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeLimit {
    /// From the program's start until its process group gets SIGTERM; milliseconds.
    pub run_ms: u64,
    /// From then until every process inside is killed; milliseconds.
    pub grace_ms: u64,
}

impl TimeLimit {
    /// A limit with the usual two seconds between request and kill.
    #[must_use]
    pub fn seconds(run: u32) -> Self {
        Self { run_ms: u64::from(run) * 1000, grace_ms: 2000 }
    }
}

/// A path as its bytes: it need not be Unicode.
mod path {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }
}

/// The same for a list.
mod paths {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| path.as_os_str()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<OsString>::deserialize(from)?.into_iter().map(PathBuf::from).collect())
    }
}
