//! What goes over the status pipe: one JSON object a line, then the end of the file at exec.

use serde::{Deserialize, Serialize};

use super::layer::LayerFailure;

/// The step of a launch that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The request could not be read, or asks for what cannot be.
    Request,
    /// Dying with the parent could not be arranged, or the parent is dead already.
    ParentDeath,
    /// The session or process group.
    Session,
    /// A resource limit.
    Limits,
    /// The working directory.
    Directory,
    /// Signal mask and dispositions.
    Signals,
    /// A layer of the sandbox.
    Confinement,
    /// Closing every descriptor that is not the program's.
    Descriptors,
    /// Starting the program itself; the error number says why (not there, not executable, …).
    Exec,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::ParentDeath => "parent_death",
            Self::Session => "session",
            Self::Limits => "limits",
            Self::Directory => "directory",
            Self::Signals => "signals",
            Self::Confinement => "confinement",
            Self::Descriptors => "descriptors",
            Self::Exec => "exec",
        })
    }
}

/// A step that failed, with the system's error number (0 where there is none).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The step.
    pub stage: Stage,
    /// The error number.
    pub errno: i32,
}

impl Failure {
    pub(crate) fn new(stage: Stage, errno: impl Into<i32>) -> Self {
        Self { stage, errno: errno.into() }
    }

    /// A closure for `map_err` on the calls of one step.
    pub(crate) fn at(stage: Stage) -> impl Fn(nix::errno::Errno) -> Self {
        move |errno| Self::new(stage, errno as i32)
    }
}

/// Why nothing was started: a step of the launch, or a layer of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Failed {
    Step(Failure),
    Layer(LayerFailure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Step(failure)
    }
}

impl From<LayerFailure> for Failed {
    fn from(failure: LayerFailure) -> Self {
        Self::Layer(failure)
    }
}

/// A line of the status pipe.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// Everything is set up, by these layers; exec comes next.
    Ready(Vec<String>),
    /// It ends here.
    Failed(Failed),
}

impl Line {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// What the whole text of the pipe says: the layers in force, or what failed (`None`: it died without a word).
pub(crate) fn outcome(text: &[u8]) -> Result<Vec<String>, Option<Failed>> {
    let mut layers = None;
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Line::Ready(found)) => layers = Some(found),
            Ok(Line::Failed(failure)) => return Err(Some(failure)),
            Err(_) => return Err(None),
        }
    }
    layers.ok_or(None)
}
