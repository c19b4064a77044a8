//! Paths as they are spelled.

use std::path::{Component, Path, PathBuf};

/// The path without `.`, `..` and doubled slashes. Exact, because no component may be a link.
pub(super) fn normalised(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            Component::RootDir | Component::Normal(_) | Component::Prefix(_) => out.push(component),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_and_doubled_slashes_vanish() {
        for (given, wanted) in
            [("/a/../b//./c/", "/b/c"), ("/../..", "/"), ("/", "/"), ("/a/b/../../..//x", "/x")]
        {
            assert_eq!(normalised(Path::new(given)), Path::new(wanted));
        }
    }
}
