//! Which directories a session that writes has to itself.

use std::path::{Path, PathBuf};

use super::state::{Profile, Session};

/// What a session claims.
#[derive(Debug, Clone, Copy)]
pub struct Territory<'a> {
    /// Whether and where it writes.
    pub profile: Profile,
    /// Where it works.
    pub root: &'a Path,
    /// Of a worktree: the repository that it was made from, which must stay as it is meanwhile.
    pub source: &'a Path,
}

impl<'a> Territory<'a> {
    /// What this session claims.
    #[must_use]
    pub fn of(session: &'a Session) -> Self {
        Self { profile: session.profile, root: &session.root.path, source: &session.source_directory }
    }

    /// Where both would get into each other's way: one writes what the other writes or was made from. Two worktrees of
    /// one repository do not, for neither writes that.
    #[must_use]
    pub fn clash(&self, other: &Territory<'_>) -> Option<PathBuf> {
        if self.profile == Profile::ReadOnly || other.profile == Profile::ReadOnly {
            return None;
        }
        let claims = [(self.root, other.root), (self.root, other.source), (self.source, other.root)];
        let overlap = |(one, two): &(&Path, &Path)| one.starts_with(two) || two.starts_with(one);
        claims.into_iter().find(overlap).map(|(_, theirs)| theirs.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clash(one: (Profile, &str, &str), two: (Profile, &str, &str)) -> bool {
        let territory = |(profile, root, source): (Profile, &'static str, &'static str)| Territory {
            profile,
            root: Path::new(root),
            source: Path::new(source),
        };
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let (one, two) =
            (territory((one.0, leak(one.1), leak(one.2))), territory((two.0, leak(two.1), leak(two.2))));
        assert_eq!(one.clash(&two).is_some(), two.clash(&one).is_some(), "it is mutual");
        one.clash(&two).is_some()
    }

    #[test]
    fn who_writes_the_same_an_enclosing_or_an_enclosed_directory_clashes() {
        use Profile::{DirectWrite, ReadOnly, WorktreeWrite};
        let direct = |root| (DirectWrite, root, root);
        assert!(clash(direct("/a/b"), direct("/a/b")));
        assert!(clash(direct("/a/b"), direct("/a/b/c")));
        assert!(!clash(direct("/a/b"), direct("/a/bc")));
        assert!(!clash(direct("/a/b"), (ReadOnly, "/a/b", "/a/b")));
        assert!(clash(direct("/a/b"), (WorktreeWrite, "/w/1", "/a/b")));
        assert!(clash(direct("/a"), (WorktreeWrite, "/w/1", "/a/b")));
        assert!(!clash((WorktreeWrite, "/w/2", "/a/b"), (WorktreeWrite, "/w/1", "/a/b")));
    }
}
