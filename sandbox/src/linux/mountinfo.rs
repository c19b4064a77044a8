//! `/proc/self/mountinfo`, for finding other places where the same file shows.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One mount, in the words of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount<'a> {
    /// The device of its file system.
    device: &'a [u8],
    /// Which directory (or file) of the file system it shows.
    root: Cow<'a, Path>,
    /// Where.
    point: Cow<'a, Path>,
}

/// What a table of usual length takes; a longer one is read as well.
const USUAL: usize = 8 * 1024;

/// The table of what this process sees.
///
/// # Errors
/// When it cannot be read.
pub(super) fn own() -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(USUAL);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut text)?;
    Ok(text)
}

/// Reads the table. Lines of another form are left out; the kernel writes none.
pub(super) fn parse(text: &[u8]) -> Vec<Mount<'_>> {
    let lines = || text.split(|&byte| byte == b'\n');
    let mut mounts = Vec::with_capacity(lines().count());
    mounts.extend(lines().filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        Some(Mount { device: fields.next()?, root: path(fields.next()?), point: path(fields.next()?) })
    }));
    mounts
}

fn path(field: &[u8]) -> Cow<'_, Path> {
    if field.contains(&b'\\') {
        Cow::Owned(PathBuf::from(OsString::from_vec(unescape(field))))
    } else {
        Cow::Borrowed(Path::new(OsStr::from_bytes(field)))
    }
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
pub(super) fn other_places(mounts: &[Mount<'_>], path: &Path) -> Vec<PathBuf> {
    // Of mounts on one point the last is the one that shows.
    let holds = |mount: &&Mount<'_>| below(path, &mount.point).is_some();
    let Some(own) = mounts.iter().filter(holds).max_by_key(|mount| mount.point.as_os_str().len()) else {
        return Vec::new();
    };
    let Some(rest) = below(path, &own.point) else { return Vec::new() };
    let inside = join(&own.root, rest);
    let others = mounts.iter().filter(|mount| mount.device == own.device && *mount != own);
    others
        .filter_map(|mount| match (below(&inside, &mount.root), below(&mount.root, &inside)) {
            (Some(rest), _) => Some(join(&mount.point, rest)),
            (None, Some(_)) => Some(mount.point.to_path_buf()),
            (None, None) => None,
        })
        .filter(|place| place != path)
        .collect()
}

/// What is left of a path below a directory; empty for the directory itself. On bytes, as the kernel writes no path that
/// could be spelled in another way: this is done for each path and each mount of the machine.
fn below<'a>(path: &'a Path, dir: &Path) -> Option<&'a Path> {
    let (path, dir) = (path.as_os_str().as_bytes(), dir.as_os_str().as_bytes());
    let rest = path.strip_prefix(dir.strip_suffix(b"/").unwrap_or(dir))?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(b"/")? };
    Some(Path::new(OsStr::from_bytes(rest)))
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
    fn below_is_a_matter_of_whole_names() {
        let rest = |path: &'static str, dir: &str| below(Path::new(path), Path::new(dir)).map(Path::to_owned);
        assert_eq!(rest("/a/b/c", "/a"), Some("b/c".into()));
        assert_eq!(rest("/a", "/a"), Some("".into()));
        assert_eq!(rest("/a/b", "/"), Some("a/b".into()));
        assert_eq!(rest("/", "/"), Some("".into()));
        assert_eq!(rest("/ab", "/a"), None);
        assert_eq!(rest("/a", "/a/b"), None);
    }

    #[test]
    fn an_escape_that_is_none_is_kept() {
        assert_eq!(unescape(b"a\\04"), b"a\\04");
        assert_eq!(unescape(b"\\9zz"), b"\\9zz");
        assert_eq!(unescape(b"\\011x"), b"\tx");
    }
}
