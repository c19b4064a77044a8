//! Which file a program's name stands for, and by which names it goes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How many symlinks are followed; the system's own bound.
const MOST_LINKS: usize = 40;

/// The file that would be started, by absolute path and under the name that was asked for: programs look at how they are
/// called.
pub(super) fn find(name: &str, cwd: &Path, path: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        let file = cwd.join(name);
        return file.exists().then_some(file);
    }
    path.iter().map(|dir| dir.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The names by which a program goes: its own, and that of every symlink on the way to the file.
pub(super) fn names(name: &str, cwd: &Path, path: &[PathBuf]) -> Vec<String> {
    let mut names = vec![last_part(Path::new(name))];
    let Some(mut file) = find(name, cwd, path) else { return names };
    for _ in 0..MOST_LINKS {
        let Ok(target) = file.read_link() else { break };
        file = file.parent().unwrap_or_else(|| Path::new("/")).join(target);
        names.push(last_part(&file));
    }
    // Directories on the way may be links as well.
    names.extend(file.canonicalize().map(|real| last_part(&real)));
    names
}

fn last_part(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn made() -> (tempfile::TempDir, Vec<PathBuf>) {
        let top = tempfile::tempdir().unwrap();
        let bin = top.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for (name, mode) in [("tool", 0o755), ("text", 0o644)] {
            std::fs::write(bin.join(name), "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("tool", bin.join("middle")).unwrap();
        symlink("bin/middle", top.path().join("called")).unwrap();
        symlink("bin", top.path().join("also")).unwrap();
        (top, vec![bin])
    }

    #[test]
    fn a_name_is_looked_for_in_the_path_and_a_path_is_taken_from_the_directory() {
        let (top, path) = made();
        assert_eq!(find("tool", top.path(), &path), Some(path[0].join("tool")));
        assert_eq!(find("text", top.path(), &path), None, "what cannot be executed is passed over");
        assert_eq!(find("./called", top.path(), &path), Some(top.path().join("./called")));
        assert_eq!(find("called", top.path(), &path), None, "the working directory is not searched");
    }

    #[test]
    fn every_link_on_the_way_gives_a_name() {
        let (top, path) = made();
        assert_eq!(names("./called", top.path(), &path), ["called", "middle", "tool", "tool"]);
        assert_eq!(names("also/middle", top.path(), &path), ["middle", "tool", "tool"]);
        assert_eq!(names("nothing", top.path(), &path), ["nothing"]);
    }

    #[test]
    fn a_circle_of_links_ends() {
        let (top, path) = made();
        symlink("round", top.path().join("round")).unwrap();
        assert_eq!(names("./round", top.path(), &path), ["round"]);
    }
}
