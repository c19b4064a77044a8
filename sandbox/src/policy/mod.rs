//! What no tool may read and no command may see: the list of protected paths, and the matcher for it.
//!
//! The list is data (`policy/linux.toml`, `policy/macos.toml`), a line and a reason for each path. [`ProtectedPaths`]
//! holds a path against it, component by component, blind to case and to Unicode spelling: refusing a file that only
//! looks like a protected one is the safe side, and on many file systems it is the same file.
//!
//! Matching is pure. Whoever opens files asks about the real path of what was opened; a spelled path proves nothing.
//! Two functions look at the disk: [`ProtectedPaths::existing`] finds what the list names on this machine, so that other
//! names of the same files (hard links, bind mounts) can be recognised, and [`ProtectedPaths::survey`] finds what has to
//! be hidden from a session's commands.

mod commands;
mod existing;
mod fold;
mod list;
mod matcher;
mod pattern;
#[cfg(any(target_os = "macos", test))]
mod regular;
mod survey;
#[cfg(test)]
mod tests;

pub use commands::{CommandRules, CommandRulesError, RefusedCommand};
pub use list::{ListError, Os, ProtectedList, Rule};
pub use matcher::{Position, ProtectedPaths};
pub use pattern::PatternError;
pub use survey::{Survey, SurveyBounds};

/// Whether some file system may take the two names for the same.
#[must_use]
pub fn same_name(one: &str, other: &str) -> bool {
    fold::fold(one) == fold::fold(other)
}

/// The name in a form that is the same for all names that some file system may take for it.
#[must_use]
pub fn folded(name: &str) -> std::borrow::Cow<'_, str> {
    fold::fold(name)
}
