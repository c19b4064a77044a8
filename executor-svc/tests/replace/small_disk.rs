//! A disk that is full. It takes a mount, so it takes the superuser; others have the same failures by injection.
#![cfg(target_os = "linux")]

use executor_svc::content::{ContentFault, ContentStore};
use executor_svc::files::replace::{ReplaceOptions, Replacer};

use crate::world::World;

/// A small memory file system, unmounted at the end.
struct Disk(tempfile::TempDir);

impl Disk {
    fn of(bytes: u64) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={bytes},nr_inodes=64");
        let made = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(dir.path())
            .output();
        // Without the right to mount there is no small disk; `a_failing_step_leaves_nothing_behind` has the errors.
        made.is_ok_and(|made| made.status.success()).then(|| Self(dir))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let done = std::process::Command::new("umount").arg(self.0.path()).status();
        assert!(done.is_ok_and(|status| status.success()));
    }
}

fn world(disk: &Disk) -> World {
    World::at(&disk.0.path().canonicalize().unwrap(), Replacer::new(ReplaceOptions::default()))
}

#[test]
fn on_a_full_disk_nothing_is_half_written() {
    let Some(disk) = Disk::of(256 * 1024) else { return assert!(cannot_mount()) };
    let world = world(&disk);
    let path = world.put("file", "old");
    let large = "x".repeat(300 * 1024);
    let fault = world.write(&path, &large).unwrap_err();
    assert_eq!(fault.code().as_str(), "disk_full");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(world.write(world.root.join("a/b/new"), &large).unwrap_err().code().as_str(), "disk_full");
    assert!(!world.root.join("a").exists(), "directories that were made are gone again");
    world.assert_tidy();
    world.write(&path, "there is room for this").unwrap();
}

#[test]
fn a_disk_without_inodes_is_full_too() {
    let Some(disk) = Disk::of(1024 * 1024) else { return assert!(cannot_mount()) };
    let world = world(&disk);
    let path = world.put("file", "old");
    let mut filled = 0;
    while std::fs::write(world.root.join(format!("filler-{filled}")), "").is_ok() {
        filled += 1;
    }
    assert_eq!(world.refusal(&path), "disk_full");
    assert_eq!(world.refusal(world.root.join("new")), "disk_full");
    assert_eq!(world.refusal(world.root.join("directory/new")), "disk_full");
}

#[test]
fn a_full_disk_keeps_what_the_store_of_contents_has_and_takes_more_when_there_is_room() {
    let Some(disk) = Disk::of(512 * 1024) else { return assert!(cannot_mount()) };
    let store = ContentStore::open(&disk.0.path().join("content"), 1 << 30).unwrap();
    let first = store.put(b"before").unwrap();
    std::fs::write(disk.0.path().join("filler"), vec![0; 400 * 1024]).unwrap();
    let large = vec![7; 200 * 1024];
    for _ in 0..3 {
        let fault = store.put(&large).unwrap_err();
        assert_eq!((fault.code().as_str(), &fault), ("disk_full", &ContentFault::NoSpace));
    }
    assert_eq!(store.get(first.sha256()).unwrap(), b"before");
    assert_eq!(store.list().unwrap().len(), 1, "nothing half written has a name");
    std::fs::remove_file(disk.0.path().join("filler")).unwrap();
    let kept = store.put(&large).unwrap();
    assert_eq!(store.get(kept.sha256()).unwrap(), large);
}

#[test]
fn a_file_system_that_is_mounted_between_two_writes_is_known_to_the_second() {
    let world = World::new();
    let path = world.put("file", "old");
    world.write(&path, "before the mount").unwrap();
    let Some(disk) = Disk::of(256 * 1024) else { return assert!(cannot_mount()) };
    let mounted = self::world(&disk);
    let there = mounted.put("file", "old");
    mounted.write(&there, "after it").unwrap();
    assert_eq!(std::fs::read(&there).unwrap(), b"after it");
    drop((mounted, disk));
    world.write(&path, "after the end of the mount").unwrap();
}

/// Whether this process may not mount anything, as in most containers.
fn cannot_mount() -> bool {
    Disk::of(4096).is_none()
}
