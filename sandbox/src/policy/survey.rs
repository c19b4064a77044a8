//! What a sandbox has to hide for one session: looked for on the disk, within bounds.
//!
//! A mask covers a path. So besides the protected paths that exist, a command must not find what leads to the same
//! contents under other names: what protected links point to, other hard links of protected files below the session's
//! root, and files that are protected by their name wherever they are (`.env`).

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::matcher::{Position, ProtectedPaths};

/// How far the disk is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyBounds {
    /// Directory entries, over all.
    pub entries: usize,
    /// Time, over all.
    pub time: Duration,
}

impl Default for SurveyBounds {
    /// A large repository with its dependencies; about a second with a cold cache.
    fn default() -> Self {
        Self { entries: 300_000, time: Duration::from_secs(3) }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// What to hide, sorted: for [`crate::launch::Confinement::hidden`].
    pub hidden: Vec<PathBuf>,
    /// How many of these lie below the session's root.
    pub below_root: usize,
    /// Protected files with more than one link: where the other links are is known only as far as they lie below the
    /// session's root.
    pub linked_files: usize,
    /// A bound ended the search: there may be more.
    pub cut: bool,
}

impl ProtectedPaths {
    /// Looks for what has to be hidden from commands of a session with this root (absolute, all links resolved).
    #[must_use]
    pub fn survey(&self, root: &Path, bounds: SurveyBounds) -> Survey {
        let mut search = Search {
            left: bounds.entries,
            until: Instant::now() + bounds.time,
            hidden: BTreeSet::new(),
            inodes: HashSet::new(),
            homes: self.home_directories(),
            root: root.to_owned(),
            device: root.metadata().ok().map(|found| found.dev()),
            cut: false,
        };
        for path in self.existing() {
            search.protected(&path);
        }
        if let Ok(position) = self.position(root) {
            search.below(self, position);
        }
        let below_root = search.hidden.iter().filter(|path| path.starts_with(root)).count();
        Survey {
            hidden: search.hidden.into_iter().collect(),
            below_root,
            linked_files: search.inodes.len(),
            cut: search.cut,
        }
    }
}

struct Search {
    left: usize,
    until: Instant,
    hidden: BTreeSet<PathBuf>,
    /// Protected files that have another link somewhere.
    inodes: HashSet<(u64, u64)>,
    homes: Vec<PathBuf>,
    root: PathBuf,
    device: Option<u64>,
    cut: bool,
}

impl Search {
    /// A protected path: all of it is hidden, and what it leads to.
    fn protected(&mut self, path: &Path) {
        self.hidden.insert(path.to_owned());
        let mut waiting = VecDeque::from([path.to_owned()]);
        while let Some(path) = waiting.pop_front() {
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_symlink() {
                self.target_of(&path);
            } else if found.is_dir() {
                waiting.extend(self.entries(&path).iter().map(DirEntry::path));
            } else {
                self.note_links(&found);
            }
        }
    }

    /// What a protected link points to is hidden, unless that would hide the system or the session's root: a link into
    /// the system holds no secret.
    fn target_of(&mut self, link: &Path) {
        let Ok(target) = link.canonicalize() else { return };
        let Ok(found) = target.metadata() else { return };
        let below_a_home = self.homes.iter().any(|home| target.starts_with(home) && target != *home);
        let file = found.is_file() && !is_of_the_system(&target);
        if (file || below_a_home) && !self.root.starts_with(&target) {
            if found.is_file() {
                self.note_links(&found);
            }
            self.hidden.insert(target);
        }
    }

    fn note_links(&mut self, found: &Metadata) {
        if found.is_file() && found.nlink() > 1 {
            self.inodes.insert((found.dev(), found.ino()));
        }
    }

    /// Everything below the root, nearest first. Links are not followed: what they lead to is judged where it is.
    fn below(&mut self, paths: &ProtectedPaths, position: Position) {
        let mut waiting = VecDeque::from([(self.root.clone(), position)]);
        while let Some((dir, position)) = waiting.pop_front() {
            for entry in self.entries(&dir) {
                let path = entry.path();
                let Ok(position) = paths.child(&position, &entry.file_name()) else {
                    self.protected(&path);
                    continue;
                };
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    if self.is_on_the_same_device(&entry) {
                        waiting.push_back((path, position));
                    }
                } else if kind.is_file() && !self.inodes.is_empty() {
                    // One look at each file, and only where there is something to compare with.
                    let same = |found: Metadata| self.inodes.contains(&(found.dev(), found.ino()));
                    if entry.metadata().is_ok_and(same) {
                        self.hidden.insert(path);
                    }
                }
            }
        }
    }

    /// Other file systems below the root are left out (the network's could block for good) and, unless they are the
    /// kernel's own, count as cut.
    fn is_on_the_same_device(&mut self, entry: &DirEntry) -> bool {
        let same = entry.metadata().is_ok_and(|found| Some(found.dev()) == self.device);
        let kernels = || ["/proc", "/sys", "/dev"].iter().any(|own| entry.path() == Path::new(own));
        self.cut |= !same && !kernels();
        same
    }

    /// The entries of a directory, as far as the bounds allow.
    fn entries(&mut self, dir: &Path) -> Vec<DirEntry> {
        if Instant::now() >= self.until {
            self.cut = true;
            return Vec::new();
        }
        // What cannot be listed by us cannot be listed by a command either.
        let Ok(listing) = fs::read_dir(dir) else { return Vec::new() };
        let mut entries: Vec<DirEntry> = listing.filter_map(Result::ok).take(self.left + 1).collect();
        if entries.len() > self.left {
            entries.truncate(self.left);
            self.cut = true;
        }
        self.left -= entries.len();
        entries
    }
}

/// Where programs and their data are: nobody's secrets.
fn is_of_the_system(path: &Path) -> bool {
    const SYSTEM: [&str; 11] = [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/opt",
        "/nix/store",
        "/gnu/store",
        "/snap",
        "/System",
    ];
    SYSTEM.iter().any(|dir| path.starts_with(dir))
}

#[cfg(test)]
mod tests {
    use super::super::{Os, ProtectedList};
    use super::*;
    use std::os::unix::fs::symlink;

    struct Disk {
        top: tempfile::TempDir,
        paths: ProtectedPaths,
    }

    fn disk() -> Disk {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        for dir in ["home/.ssh/more", "home/dot/keys", "ws/deep/er"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        for file in
            ["home/.ssh/id_rsa", "home/dot/token", "home/dot/keys/k", "ws/.env", "ws/deep/er/.env", "ws/x"]
        {
            fs::write(at(file), "x").unwrap();
        }
        let list = ProtectedList::built_in(Os::Linux).unwrap();
        let paths = ProtectedPaths::new(list, &[at("home").canonicalize().unwrap()]);
        Disk { top, paths }
    }

    impl Disk {
        fn at(&self, name: &str) -> PathBuf {
            self.top.path().canonicalize().unwrap().join(name)
        }

        fn survey(&self) -> Survey {
            self.paths.survey(&self.at("ws"), SurveyBounds::default())
        }

        fn hides(&self, name: &str) -> bool {
            self.survey().hidden.contains(&self.at(name))
        }
    }

    #[test]
    fn protected_paths_and_protected_names_below_the_root_are_found() {
        let disk = disk();
        let survey = disk.survey();
        for name in ["home/.ssh", "ws/.env", "ws/deep/er/.env"] {
            assert!(survey.hidden.contains(&disk.at(name)), "{name}: {survey:?}");
        }
        assert!(!survey.hidden.contains(&disk.at("ws/x")));
        assert_eq!((survey.below_root, survey.cut), (2, false));
    }

    #[test]
    fn what_protected_links_point_to_is_found() {
        let disk = disk();
        symlink("../dot/token", disk.at("home/.ssh/more/token")).unwrap();
        symlink("../dot/keys", disk.at("home/.ssh/keys")).unwrap();
        symlink("/usr/bin/env", disk.at("home/.ssh/env")).unwrap();
        symlink("/", disk.at("home/.ssh/all")).unwrap();
        symlink(disk.at("ws"), disk.at("home/.ssh/ws")).unwrap();
        symlink("nowhere", disk.at("home/.ssh/dangling")).unwrap();
        // `token` is two levels down, so its link leads elsewhere.
        assert!(!disk.hides("home/dot/token"));
        symlink("../../dot/token", disk.at("home/.ssh/more/right")).unwrap();
        assert!(disk.hides("home/dot/token") && disk.hides("home/dot/keys"));
        let hidden = disk.survey().hidden;
        for path in ["/", "/usr/bin/env"] {
            assert!(!hidden.contains(&PathBuf::from(path)), "{path}");
        }
        assert!(!disk.hides("ws"), "the root itself is needed");
    }

    #[test]
    fn other_hard_links_below_the_root_are_found_and_counted() {
        let disk = disk();
        assert_eq!(disk.survey().linked_files, 0);
        fs::hard_link(disk.at("home/.ssh/id_rsa"), disk.at("ws/deep/innocent")).unwrap();
        assert!(disk.hides("ws/deep/innocent"));
        assert_eq!(disk.survey().linked_files, 1);
    }

    #[test]
    fn a_bound_is_told() {
        let disk = disk();
        let few = SurveyBounds { entries: 3, ..SurveyBounds::default() };
        assert!(disk.paths.survey(&disk.at("ws"), few).cut);
        let short = SurveyBounds { time: Duration::ZERO, ..SurveyBounds::default() };
        let survey = disk.paths.survey(&disk.at("ws"), short);
        assert!(
            survey.cut && survey.hidden.contains(&disk.at("home/.ssh")),
            "what exists is known without a search"
        );
    }
}
