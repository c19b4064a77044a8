//! `.gitignore` files, as git reads them: from the top of the repository down, the innermost match wins.

use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::files::SessionFiles;

/// The largest `.gitignore` that is read, in bytes.
pub(super) const LARGEST: u64 = 1024 * 1024;

/// The `.gitignore` files that hold for a directory, innermost first.
#[derive(Debug)]
pub(super) struct Ignores {
    rules: Gitignore,
    base: Base,
    outer: Option<Arc<Ignores>>,
}

/// Where a `.gitignore` lies.
#[derive(Debug)]
enum Base {
    /// In a directory of the tree: so many bytes of a path are to be taken off.
    Inside(usize),
    /// Above the top: this is to be put in front of a path.
    Above(String),
}

impl Ignores {
    /// What holds at the top of a walk because of `.gitignore` files above it, up to the top of the repository.
    pub(super) fn above(files: &SessionFiles, top: &Path) -> Option<Arc<Self>> {
        let has_git = |dir: &Path| dir.join(".git").symlink_metadata().is_ok();
        if has_git(top) {
            return None;
        }
        let parents: Vec<&Path> = top.ancestors().skip(1).collect();
        let repository = parents.iter().position(|dir| has_git(dir))?;
        let mut chain = None;
        for dir in parents[..=repository].iter().rev() {
            let text = read_guarded(files, &dir.join(".gitignore"));
            let below = top.strip_prefix(dir).ok().and_then(Path::to_str);
            if let (Some(text), Some(below)) = (text, below) {
                chain = Some(Arc::new(Self::parse(&text, Base::Above(format!("{below}/")), chain)));
            }
        }
        chain
    }

    /// What holds in a directory of the tree that has a `.gitignore` of this content.
    pub(super) fn inside(text: &str, directory: &str, outer: Option<Arc<Self>>) -> Arc<Self> {
        let cut = if directory.is_empty() { 0 } else { directory.len() + 1 };
        Arc::new(Self::parse(text, Base::Inside(cut), outer))
    }

    fn parse(text: &str, base: Base, outer: Option<Arc<Self>>) -> Self {
        let mut builder = GitignoreBuilder::new("");
        for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines() {
            // A line that is no glob says nothing to git either.
            let _ = builder.add_line(None, line);
        }
        Self { rules: builder.build().unwrap_or_else(|_| Gitignore::empty()), base, outer }
    }

    /// Whether the path (below the top of the walk) is ignored.
    pub(super) fn ignores(&self, path: &str, is_directory: bool) -> bool {
        let mut at = Some(self);
        while let Some(level) = at {
            let found = match &level.base {
                Base::Inside(cut) => level.rules.matched(&path[*cut..], is_directory),
                Base::Above(below) => level.rules.matched(format!("{below}{path}"), is_directory),
            };
            match found {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => at = level.outer.as_deref(),
            }
        }
        false
    }
}

fn read_guarded(files: &SessionFiles, path: &Path) -> Option<String> {
    let opened = files.open_file(path).ok()?;
    read_text(opened.file, opened.facts.bytes)
}

/// The content of a `.gitignore`, unless it is too large to be one.
pub(super) fn read_text(file: std::fs::File, bytes: u64) -> Option<String> {
    use std::io::Read;
    if bytes > LARGEST {
        return None;
    }
    let mut content = Vec::new();
    file.take(LARGEST).read_to_end(&mut content).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_rule_wins_and_patterns_are_relative_to_their_file() {
        let outer =
            Arc::new(Ignores::parse("*.log\n/only-here\nbuild/\n", Base::Above("sub/".to_owned()), None));
        let inner = Ignores::inside("!keep.log\n/target\n", "dir", Some(outer));
        for (path, is_directory, ignored) in [
            ("dir/a.log", false, true),
            ("dir/keep.log", false, false),
            ("dir/target", true, true),
            ("dir/x/target", true, false),
            ("dir/only-here", false, false),
            ("dir/build", true, true),
            ("dir/build", false, false),
        ] {
            assert_eq!(inner.ignores(path, is_directory), ignored, "{path}");
        }
    }
}
