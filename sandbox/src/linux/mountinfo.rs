//! `/proc/self/mountinfo`, for finding other places where the same file shows.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// The device of its file system.
    device: String,
    /// Which directory (or file) of the file system it shows.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

/// Reads the table. Lines of another form are left out; the kernel writes none.
pub(super) fn parse(text: &[u8]) -> Vec<Mount> {
    let line = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let device = String::from_utf8(fields.next()?.to_vec()).ok()?;
        let mut path = || Some(PathBuf::from(OsString::from_vec(unescape(fields.next()?))));
        Some(Mount { device, root: path()?, point: path()? })
    };
    text.split(|&byte| byte == b'\n').filter_map(line).collect()
}

/// The kernel writes blanks and backslashes in octal.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(value) if byte == b'\\' => {
                out.push(value);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

/// Where else what is at `path` (or part of it) shows. Some of these may be covered by a later mount.
pub(super) fn other_places(mounts: &[Mount], path: &Path) -> Vec<PathBuf> {
    // Of mounts on one point the last is the one that shows.
    let Some(own) = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
    else {
        return Vec::new();
    };
    let Ok(below) = path.strip_prefix(&own.point) else { return Vec::new() };
    let inside = join(&own.root, below);
    let others = mounts.iter().filter(|mount| mount.device == own.device && *mount != own);
    others
        .filter_map(|mount| match (inside.strip_prefix(&mount.root), mount.root.strip_prefix(&inside)) {
            (Ok(rest), _) => Some(join(&mount.point, rest)),
            (_, Ok(_)) => Some(mount.point.clone()),
            _ => None,
        })
        .filter(|place| place != path)
        .collect()
}

/// Joins without a slash at the end.
fn join(start: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { start.to_owned() } else { start.join(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 27 254:0 /home/ann /mnt/home\\040of\\134ann rw - ext4 /dev/vda rw\n\
        31 27 254:0 /home/ann/.ssh/keys /keys rw - ext4 /dev/vda rw\n\
        32 27 0:5 / /tmp rw - tmpfs tmpfs rw\n\
        not a line\n";

    #[test]
    fn a_path_shows_wherever_its_file_system_is_mounted_and_holds_it() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.len(), 4);
        let places = other_places(&mounts, Path::new("/home/ann/.ssh"));
        assert_eq!(places, [PathBuf::from("/mnt/home of\\ann/.ssh"), PathBuf::from("/keys")]);
        assert!(other_places(&mounts, Path::new("/tmp/.ssh")).is_empty());
        let back = other_places(&mounts, Path::new("/mnt/home of\\ann/.ssh"));
        assert_eq!(back, [PathBuf::from("/home/ann/.ssh"), PathBuf::from("/keys")]);
    }

    #[test]
    fn an_escape_that_is_none_is_kept() {
        assert_eq!(unescape(b"a\\04"), b"a\\04");
        assert_eq!(unescape(b"\\9zz"), b"\\9zz");
        assert_eq!(unescape(b"\\011x"), b"\tx");
    }
}
