//! Which file system an object lies on, and under which other paths a bind mount shows it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is mounted below a real path, by its place.
///
/// # Errors
/// When the system does not say what is mounted.
pub(crate) fn mounted_below(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    Ok(super::sys::mounts_by_present_name()?.below(path).into_keys().collect())
}

/// What a file system is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FsClass {
    /// Holds ordinary files, on this machine.
    Ordinary,
    /// Holds files that another machine or process serves, and may stop serving.
    Network,
    /// Holds no ordinary files, or is not known to.
    Special,
}

/// Known to hold ordinary files. Whatever is not named here or below is treated as special.
const ORDINARY: &[&str] = &[
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "bcachefs",
    "f2fs",
    "zfs",
    "jfs",
    "reiserfs",
    "nilfs2",
    "tmpfs",
    "ramfs",
    "rootfs",
    "overlay",
    "overlayfs",
    "aufs",
    "squashfs",
    "erofs",
    "cramfs",
    "iso9660",
    "udf",
    "vfat",
    "msdos",
    "exfat",
    "ntfs",
    "ntfs3",
    "hfs",
    "hfsplus",
    "apfs",
    "ecryptfs",
    "virtiofs",
    "ubifs",
    "jffs2",
    "ufs",
    "minix",
];

/// Served by another machine or process.
const NETWORK: &[&str] = &[
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ceph", "coda", "ncpfs", "lustre", "beegfs",
    "orangefs", "ocfs2", "gfs2", "9p", "vboxsf", "vmhgfs", "fuse", "fuseblk", "afpfs", "webdav", "ftp",
    "macfuse", "osxfuse",
];

/// The class of a file system, by its name.
pub(super) fn class_of(kind: &str) -> FsClass {
    if ORDINARY.contains(&kind) {
        FsClass::Ordinary
    } else if NETWORK.contains(&kind) || kind.starts_with("fuse.") {
        FsClass::Network
    } else {
        FsClass::Special
    }
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub id: u64,
    /// The device's name, equal for every mount of one file system.
    pub device: String,
    /// Which directory of the file system is shown.
    pub root: PathBuf,
    /// Where it is shown.
    pub point: PathBuf,
    /// The file system's name.
    pub kind: String,
}

/// Every mount that this process can see. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Mounts {
    list: Arc<Vec<Mount>>,
}

impl Mounts {
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "macOS names the mount of an object itself")
    )]
    pub(super) fn new(list: Vec<Mount>) -> Self {
        Self { list: Arc::new(list) }
    }

    /// The mount that a real path lies on: the innermost, and of several at one place the last.
    pub(super) fn containing(&self, path: &Path) -> Option<&Mount> {
        let around = self.list.iter().filter(|mount| path.starts_with(&mount.point));
        around.max_by_key(|mount| mount.point.components().count())
    }

    /// The mount with this id.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "macOS names the mount of an object itself")
    )]
    pub(super) fn by_id(&self, id: u64) -> Option<&Mount> {
        self.list.iter().find(|mount| mount.id == id)
    }

    /// The other paths under which other mounts show what lies at `path` on `mount`.
    pub(super) fn aliases(&self, mount: &Mount, path: &Path) -> Vec<PathBuf> {
        let Ok(below) = path.strip_prefix(&mount.point) else { return Vec::new() };
        let inside = joined(&mount.root, below);
        let others = self.list.iter().filter(|other| other.device == mount.device && other.id != mount.id);
        others
            .filter_map(|other| Some(joined(&other.point, inside.strip_prefix(&other.root).ok()?)))
            .collect()
    }

    /// The mounts below a real path, by their place; of several at one place the last.
    pub(super) fn below(&self, path: &Path) -> HashMap<PathBuf, Mount> {
        let below = self.list.iter().filter(|mount| mount.point != path && mount.point.starts_with(path));
        below.map(|mount| (mount.point.clone(), mount.clone())).collect()
    }

    /// Where parts of what `mount` shows are shown by other mounts: the path through `mount`, and the other path.
    pub(super) fn shown_elsewhere(&self, mount: &Mount) -> Vec<(PathBuf, PathBuf)> {
        let others = self.list.iter().filter(|other| other.device == mount.device && other.id != mount.id);
        let inside = others.filter_map(|other| {
            let below = other.root.strip_prefix(&mount.root).ok()?;
            Some((joined(&mount.point, below), other.point.clone()))
        });
        inside.collect()
    }

    /// Whether the whole file system that `mount` belongs to is shown somewhere below `root`.
    pub(super) fn covers(&self, root: &Path, mount: &Mount) -> bool {
        let same = self.list.iter().filter(|other| other.device == mount.device);
        same.chain([mount]).any(|other| other.root == Path::new("/") && other.point.starts_with(root))
    }
}

/// `join` that adds no slash at the end when nothing is joined.
fn joined(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_owned() } else { base.join(rest) }
}

/// The lines of `/proc/self/mountinfo`.
#[cfg(any(target_os = "linux", test))]
pub(super) fn parse_mountinfo(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

#[cfg(any(target_os = "linux", test))]
fn parse_line(line: &[u8]) -> Option<Mount> {
    // id parent major:minor root point options [optional …] - kind source options
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = String::from_utf8_lossy(fields.nth(1)?).into_owned();
    let root = unescaped(fields.next()?);
    let point = unescaped(fields.next()?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount { id, device, root, point, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// Undoes the kernel's `\040` for a space and its like.
#[cfg(any(target_os = "linux", test))]
fn unescaped(field: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| after.get(..3)).flatten();
        let value = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match value {
            Some(value) => {
                out.push(value);
                rest = &after[3..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"20 1 254:0 / / rw - ext4 /dev/vda rw\n\
        21 20 0:5 / /dev rw,nosuid shared:2 master:1 - devtmpfs dev rw\n\
        22 20 254:0 /home/bob/.ssh /mnt/a\\040b rw - ext4 /dev/vda rw\n\
        23 20 254:16 / /data rw - xfs /dev/vdb rw\n\
        24 20 0:50 / /net rw - fuse.sshfs far: rw\n";

    fn mounts() -> Mounts {
        Mounts::new(parse_mountinfo(TABLE))
    }

    #[test]
    fn a_bind_mount_is_seen_through_in_both_directions() {
        let mounts = mounts();
        let bound = mounts.containing(Path::new("/mnt/a b/id_rsa")).unwrap();
        assert_eq!(bound.id, 22);
        assert_eq!(
            mounts.aliases(bound, Path::new("/mnt/a b/id_rsa")),
            [PathBuf::from("/home/bob/.ssh/id_rsa")]
        );
        let whole = mounts.by_id(20).unwrap();
        assert_eq!(mounts.aliases(whole, Path::new("/home/bob/.ssh/x")), [PathBuf::from("/mnt/a b/x")]);
        assert!(mounts.aliases(whole, Path::new("/home/bob/x")).is_empty());
    }

    #[test]
    fn a_root_covers_a_file_system_only_if_all_of_it_is_shown_below() {
        let mounts = mounts();
        let data = mounts.by_id(23).unwrap();
        assert!(mounts.covers(Path::new("/"), data));
        assert!(mounts.covers(Path::new("/data"), data));
        assert!(!mounts.covers(Path::new("/data/x"), data));
        assert!(!mounts.covers(Path::new("/mnt"), mounts.by_id(22).unwrap()));
    }

    #[test]
    fn what_is_not_known_to_hold_ordinary_files_is_special() {
        for (kind, class) in [
            ("ext4", FsClass::Ordinary),
            ("fuse.sshfs", FsClass::Network),
            ("nfs4", FsClass::Network),
            ("devtmpfs", FsClass::Special),
            ("fusectl", FsClass::Special),
            ("proc", FsClass::Special),
            ("autofs", FsClass::Special),
            ("something-new", FsClass::Special),
        ] {
            assert_eq!(class_of(kind), class, "{kind}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_table_can_be_read(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = parse_mountinfo(&text);
        }
    }
}
