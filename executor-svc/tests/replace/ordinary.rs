//! What goes well, and what is kept.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use executor_svc::files::FileFault;
use executor_svc::files::replace::{How, ReplaceFault, ReplaceOptions, Verdict, WriterCheck};
use gatehouse_proto::digest::sha256_hex;
use rustix::fs::XattrFlags;

use crate::world::World;

#[test]
fn a_file_is_replaced_whole_and_the_outcome_says_how() {
    let world = World::new();
    let path = world.put("dir/file", "old");
    let target = world.open(&path).unwrap();
    assert_eq!((target.bytes(), target.sha256()), (Some(&b"old"[..]), Some(sha256_hex(b"old").as_str())));
    let prepared = target.prepare(b"new".to_vec(), "toolu_x").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old", "preparing changes nothing");
    world.assert_tidy();
    let intent = prepared.intent().clone();
    assert!(intent.temporary.contains("toolu_x"));
    let outcome = prepared.perform().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(outcome.before_sha256, Some(sha256_hex(b"old")));
    assert_eq!(outcome.after_sha256, Some(sha256_hex(b"new")));
    assert_eq!(outcome.how, How::Exchanged);
    #[cfg(target_os = "linux")]
    assert_eq!(outcome.foreign_writer_check, WriterCheck::Lease);
    world.assert_tidy();
    assert_eq!(world.replacer.reconcile(&world.files, &intent).verdict, Verdict::Applied);
}

#[test]
fn a_file_is_made_with_the_directories_on_the_way() {
    let world = World::with(ReplaceOptions { umask: 0o027, ..ReplaceOptions::default() });
    let path = world.root.join("a/b/c.txt");
    let prepared = world.open(&path).unwrap().prepare(b"new".to_vec(), "x").unwrap();
    assert_eq!(prepared.intent().create_directories, [world.root.join("a"), world.root.join("a/b")]);
    assert!(!world.root.join("a").exists(), "preparing changes nothing");
    let outcome = prepared.perform().unwrap();
    assert_eq!(outcome.created_directories, [world.root.join("a"), world.root.join("a/b")]);
    assert_eq!((outcome.before_sha256, outcome.how), (None, How::Created));
    assert_eq!(outcome.foreign_writer_check, WriterCheck::NotNeeded);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o640);
    assert_eq!(world.root.join("a").metadata().unwrap().mode() & 0o7777, 0o750);
    let second = world.write(world.root.join("a/d/e"), "x").unwrap();
    assert_eq!(second.created_directories, [world.root.join("a/d")]);
}

#[test]
fn a_file_can_be_empty_before_and_after() {
    let world = World::new();
    let path = world.put("file", "");
    world.write(&path, "x").unwrap();
    world.write(&path, "").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[test]
fn mode_times_and_attributes_are_kept_or_new_as_promised() {
    let world = World::new();
    let path = world.put("script", "old");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4751)).unwrap();
    let attributes = rustix::fs::setxattr(&path, "user.note", b"\0kept", XattrFlags::empty());
    let old = path.metadata().unwrap();
    world.write(&path, "new").unwrap();
    let new = path.metadata().unwrap();
    assert_eq!(new.mode() & 0o7777, 0o4751);
    assert_eq!((new.uid(), new.gid()), (old.uid(), old.gid()));
    assert!(new.modified().unwrap() >= old.modified().unwrap());
    assert_ne!(new.ino(), old.ino());
    if attributes.is_ok() {
        let mut value = [0; 16];
        let got = rustix::fs::getxattr(&path, "user.note", value.as_mut_slice()).unwrap();
        assert_eq!(&value[..got], b"\0kept");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_access_list_is_kept_and_that_of_the_directory_is_not_imposed() {
    use rustix::io::Errno;
    // user::rw-, user:1234:r--, group::r--, mask::r--, other::---
    let list =
        acl(&[(1, 6, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)]);
    let world = World::new();
    let (listed, plain) = (world.put("listed", "old"), world.put("plain", "old"));
    match rustix::fs::setxattr(&listed, "system.posix_acl_access", &list, XattrFlags::empty()) {
        // The temporary directory lies on a file system without access lists: nothing to keep.
        Err(Errno::NOTSUP) => return,
        result => result.unwrap(),
    }
    rustix::fs::setxattr(&world.root, "system.posix_acl_default", &list, XattrFlags::empty()).unwrap();
    let of = |path: &PathBuf| {
        let mut value = [0; 256];
        rustix::fs::getxattr(path, "system.posix_acl_access", value.as_mut_slice())
            .map(|got| value[..got].to_vec())
    };
    let before = (listed.metadata().unwrap().mode(), plain.metadata().unwrap().mode());
    world.write(&listed, "new").unwrap();
    world.write(&plain, "new").unwrap();
    assert_eq!(of(&listed).unwrap(), list);
    assert_eq!(of(&plain).unwrap_err(), Errno::NODATA);
    assert_eq!((listed.metadata().unwrap().mode(), plain.metadata().unwrap().mode()), before);
    // What is new has what the directory gives.
    world.write(world.root.join("new"), "x").unwrap();
    assert!(of(&world.root.join("new")).is_ok());
}

/// The kernel's form of an access list: version 2, then tag, permissions and id of each entry.
#[cfg(target_os = "linux")]
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn the_owner_is_kept_where_that_is_possible_and_the_write_refused_where_not() {
    let world = World::new();
    let path = world.put("file", "old");
    // Only the superuser can give a file away.
    if std::os::unix::fs::chown(&path, Some(1234), Some(4321)).is_err() {
        assert_ne!(path.metadata().unwrap().uid(), 1234);
        return;
    }
    world.write(&path, "new").unwrap();
    let new = path.metadata().unwrap();
    assert_eq!((new.uid(), new.gid()), (1234, 4321));
}

#[test]
fn a_removal_undoes_a_creation_and_takes_empty_directories_along() {
    let world = World::new();
    let path = world.root.join("a/b/file");
    let made = world.write(&path, "made").unwrap();
    world.put("a/other", "stays");
    let target = world.open(&path).unwrap();
    let prepared = target.prepare_removal(&made.created_directories, "undo").unwrap();
    let intent = prepared.intent().clone();
    let outcome = prepared.perform().unwrap();
    assert_eq!((outcome.how, outcome.after_sha256), (How::Removed, None));
    assert_eq!(outcome.removed_directories, [world.root.join("a/b")]);
    assert!(!path.exists() && world.root.join("a/other").exists());
    assert_eq!(world.replacer.reconcile(&world.files, &intent).verdict, Verdict::Applied);
    let nothing = world.open(&path).unwrap().prepare_removal(&[], "undo").unwrap_err();
    assert!(matches!(nothing, ReplaceFault::File(FileFault::NotFound { .. })));
}

#[test]
fn two_actions_on_one_path_come_one_after_the_other() {
    let world = World::new();
    let path = world.put("count", "0");
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..20 {
                    let target = world.open(&path).unwrap();
                    let count: u32 = std::str::from_utf8(target.bytes().unwrap()).unwrap().parse().unwrap();
                    target.prepare((count + 1).to_string().into_bytes(), "x").unwrap().perform().unwrap();
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "160");
    let held = world.open(&path).unwrap();
    let busy =
        world.replacer.open(&world.files, &path, Instant::now() + Duration::from_millis(1)).unwrap_err();
    assert_eq!(busy, ReplaceFault::Busy { path });
    drop(held);
    assert_eq!(Arc::strong_count(&world.files), 1);
}
