//! Counting what was looked at and what was left out.

use std::collections::BTreeMap;

use crate::files::FileFault;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)+) => {
        /// Why an entry was left out.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Reason { $($(#[$doc])* $variant,)+ }

        impl Reason {
            /// Every reason.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The reason as receipts name it.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

reasons! {
    /// A protected path.
    Protected = "protected",
    /// `.git`.
    Git = "git",
    /// A symbolic link.
    Symlink = "symlink",
    /// A file with further names that are not known to lie inside the root.
    HardLink = "hard_link",
    /// A NUL byte near the start.
    Binary = "binary",
    /// Not UTF-8.
    NotUtf8 = "not_utf8",
    /// A name that is not UTF-8.
    NotUtf8Name = "not_utf8_name",
    /// On a file system that holds no ordinary files.
    SpecialFileSystem = "special_file_system",
    /// On a network or FUSE file system outside the root.
    NetworkFileSystem = "network_file_system",
    /// The system denied it.
    PermissionDenied = "permission_denied",
    /// Named by a `.gitignore`.
    Ignored = "ignored",
    /// A name that begins with a dot.
    Hidden = "hidden",
    /// A FIFO, socket or device.
    NotAFile = "not_a_file",
    /// It vanished or changed under the walk.
    Changed = "changed",
    /// A path too long to be shown.
    PathTooLong = "path_too_long",
    /// It alone took all the time there was.
    Time = "time",
    /// Any other failure of the system.
    Unreadable = "unreadable",
}

impl From<&FileFault> for Reason {
    fn from(fault: &FileFault) -> Self {
        match fault {
            FileFault::Protected { .. } => Self::Protected,
            FileFault::Git { .. } => Self::Git,
            FileFault::Symlink { .. } => Self::Symlink,
            FileFault::HardLink { .. } => Self::HardLink,
            FileFault::NotUtf8 { .. } => Self::NotUtf8,
            FileFault::SpecialFileSystem { .. } => Self::SpecialFileSystem,
            FileFault::NetworkFileSystem { .. } => Self::NetworkFileSystem,
            FileFault::PermissionDenied { .. } | FileFault::OutsideReadRoots { .. } => Self::PermissionDenied,
            FileFault::WrongKind { .. } => Self::NotAFile,
            FileFault::NotFound { .. } | FileFault::Changed { .. } => Self::Changed,
            FileFault::NameTooLong { .. } => Self::PathTooLong,
            FileFault::TimedOut { .. } | FileFault::Cancelled { .. } => Self::Time,
            FileFault::Io { .. } => Self::Unreadable,
        }
    }
}

/// How many entries were visited, and how many left out for which reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    visited: u64,
    skipped: [u64; Reason::ALL.len()],
}

impl Default for Tally {
    fn default() -> Self {
        Self { visited: 0, skipped: [0; Reason::ALL.len()] }
    }
}

impl Tally {
    /// Counts one entry: visited, or left out for a reason.
    pub(super) const fn count(&mut self, left_out: Option<Reason>) {
        match left_out {
            None => self.visited += 1,
            Some(reason) => self.skipped[reason as usize] += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.visited += other.visited;
        for (mine, more) in self.skipped.iter_mut().zip(other.skipped) {
            *mine += more;
        }
    }

    /// How many entries were visited.
    pub(crate) const fn visited(&self) -> u64 {
        self.visited
    }

    /// How many were left out, by reason; reasons that never applied are not named.
    pub(crate) fn skipped(&self) -> BTreeMap<&'static str, u64> {
        let all = Reason::ALL.iter().map(|reason| (reason.as_str(), self.skipped[*reason as usize]));
        all.filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_in_the_documentation() {
        let text = include_str!("../../../../docs/files.md");
        for reason in Reason::ALL {
            assert!(text.contains(&format!("| `{}` |", reason.as_str())), "{}", reason.as_str());
        }
    }
}
