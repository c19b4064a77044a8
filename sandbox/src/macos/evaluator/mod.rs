//! Would this profile allow that? An evaluator for the part of the profile language that our profiles use, as strict as it
//! can be: what it does not know is an error, never a guess.
//!
//! The language is Scheme with rules; rules are tried from the last to the first, and the first that fits decides. Nobody
//! outside of Apple has a specification: what is here is what published profiles and reports agree on.

mod expression;
mod operation;
mod rules;

pub(super) use operation::OPERATIONS;
pub(super) use rules::{Filter, Profile, Rule};

/// What somebody is about to do.
#[derive(Debug, Clone, Default)]
pub(super) struct Query {
    pub operation: String,
    pub path: Option<String>,
    /// What kind of file is at the path.
    pub kind: Kind,
    /// Of a service, a setting, a call, a segment, a family of sockets.
    pub name: Option<String>,
    /// Host (`localhost` or anything else) and port.
    pub ip: Option<(String, String)>,
    /// Another process: under the same profile or not.
    pub target: Option<Target>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    #[default]
    File,
    Directory,
    Symlink,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Target {
    SameSandbox,
    Others,
}

/// Why a text is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error("not an expression: {0}")]
    Expression(String),
    #[error("unknown operation {0}")]
    Operation(String),
    #[error("unknown or misplaced filter {0}")]
    Filter(String),
    #[error("no parameter {0}")]
    Parameter(String),
    #[error("not a rule: {0}")]
    Rule(String),
}

#[cfg(test)]
mod tests;
