//! What a repository may be in the middle of.

use std::path::Path;

/// What git keeps in a worktree's own directory while something is under way.
const MARKS: [(&str, &str); 8] = [
    ("rebase-apply/applying", "applying mailed patches (git am)"),
    ("rebase-apply", "a rebase"),
    ("rebase-merge", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a cherry-pick or revert of several commits"),
    ("BISECT_LOG", "a bisection"),
];

/// Refs that some repositories (reftable) keep elsewhere.
pub(super) const REFS: [&str; 2] = ["CHERRY_PICK_HEAD", "REVERT_HEAD"];

/// What is under way in the checkout with this directory of its own.
pub(super) fn operation(git_dir: &Path) -> Option<&'static str> {
    MARKS.iter().find(|(name, _)| git_dir.join(name).symlink_metadata().is_ok()).map(|(_, what)| *what)
}

/// What one of [`REFS`] means.
pub(super) fn of_ref(name: &str) -> Option<&'static str> {
    MARKS.iter().find(|(mark, _)| *mark == name).map(|(_, what)| *what)
}
