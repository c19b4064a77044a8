//! Protected files with further names: hiding a path does not hide those.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use gatehouse_sandbox::policy::{Os, ProtectedList, ProtectedPaths};

use super::Line;

/// How many entries are looked at, over all: protected places can be large (a browser's profile).
const ENTRIES: usize = 50_000;
/// How many files are named.
const NAMED: usize = 3;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Protected files with more than one name.
    pub linked: Vec<PathBuf>,
    /// Whether the search ended at its bound.
    pub cut: bool,
}

/// Looks. It blocks on the disk.
#[must_use]
pub fn gather(home: PathBuf) -> Facts {
    // The list is a part of this program, and read by its tests.
    let Ok(list) = ProtectedList::built_in(Os::current()) else { return Facts::default() };
    let mut facts = Facts::default();
    let mut waiting = ProtectedPaths::new(list, &[home]).existing();
    let mut left = ENTRIES;
    while let Some(path) = waiting.pop() {
        if left == 0 {
            facts.cut = true;
            break;
        }
        left -= 1;
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.take(left).map(|entry| entry.path()));
        } else if found.is_file() && found.nlink() > 1 {
            facts.linked.push(path);
        }
    }
    facts.linked.sort();
    facts
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    const CHECK: &str = "protected_links";
    let cut = if facts.cut { " (not all were looked at)" } else { "" };
    if facts.linked.is_empty() {
        return vec![Line::ok(CHECK, format!("no protected file has a second name{cut}"))];
    }
    let named: Vec<_> = facts.linked.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let more = match facts.linked.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    vec![Line::warning(
        CHECK,
        format!("protected files with further names: {}{more}{cut}", named.join(", ")),
        "Under its other name a file may not be protected. `find / -xdev -samefile FILE` shows the names; copy the file instead of linking it.",
    )]
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{Ok as Fine, Warning};
    use super::*;

    #[test]
    fn a_second_name_of_a_protected_file_is_found_and_told() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir(home.join(".ssh")).unwrap();
        std::fs::write(home.join(".ssh/id_rsa"), "x").unwrap();
        let of_home = |facts: &Facts| facts.linked.iter().filter(|path| path.starts_with(&home)).count();
        assert_eq!(of_home(&gather(home.clone())), 0);
        std::fs::hard_link(home.join(".ssh/id_rsa"), home.join("innocent")).unwrap();
        let facts = gather(home.clone());
        assert!(facts.linked.contains(&home.join(".ssh/id_rsa")), "{facts:?}");
        let line = &judge(&Facts { linked: vec!["/a".into(); 5], cut: true })[0];
        assert!(
            line.verdict == Warning && line.found.contains("and 2 more") && line.found.contains("not all")
        );
        assert_eq!(judge(&Facts::default())[0].verdict, Fine);
    }
}
