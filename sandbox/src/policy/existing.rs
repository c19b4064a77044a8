//! What of the list exists on this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::matcher::ProtectedPaths;
use super::pattern::{Anchor, Component, Test};

impl ProtectedPaths {
    /// The protected paths that exist now, sorted. Lines that hold anywhere (`**/…`) are looked for in the homes; a
    /// line that does not spell a name the way the disk does may be missed.
    #[must_use]
    pub fn existing(&self) -> Vec<PathBuf> {
        let homes = self.home_directories();
        let mut found = BTreeSet::new();
        for rule in &self.rules {
            let path = &rule.pattern.components;
            match rule.pattern.anchor {
                Anchor::Root => found.extend(find(Path::new("/"), path)),
                Anchor::Home | Anchor::Anywhere => {
                    found.extend(homes.iter().flat_map(|home| find(home, path)));
                }
            }
        }
        found.retain(|path| self.rule_for(path).is_some());
        found.into_iter().collect()
    }

    /// The home directories that exist.
    pub(super) fn home_directories(&self) -> Vec<PathBuf> {
        self.homes.iter().flat_map(|home| find(Path::new("/"), home)).collect()
    }
}

/// What matches `components` below `start`. Links count as themselves and are not followed.
fn find(start: &Path, components: &[Component]) -> Vec<PathBuf> {
    let mut level = vec![start.to_owned()];
    for component in components {
        level = match &component.test {
            Test::Is(_) => level.into_iter().map(|dir| dir.join(&component.written)).collect(),
            Test::Fits(_) => level.iter().flat_map(|dir| matching_children(dir, &component.test)).collect(),
        };
    }
    level.retain(|path| path.symlink_metadata().is_ok());
    level
}

fn matching_children(dir: &Path, test: &Test) -> Vec<PathBuf> {
    let real = dir.symlink_metadata().is_ok_and(|found| found.is_dir());
    let entries = if real { dir.read_dir().ok() } else { None };
    let names = entries.into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| test.passes(&super::fold::fold(name))).map(|name| dir.join(name)).collect()
}
