//! Who has a file open for writing, or is about to, is seen by a lease of the kernel.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use executor_svc::files::replace::{Outcome, ReplaceFault, Step};

use crate::world::{Before, World};

type Started = Arc<Mutex<Vec<JoinHandle<()>>>>;

/// Replaces `file`, which has `old`, and before a step starts writers that wait for their files: each appends its text.
fn with_writers(
    step: Step,
    writers: impl Fn(&Path) -> Vec<(PathBuf, &'static str)> + Send + Sync + 'static,
) -> (World, Result<Outcome, ReplaceFault>) {
    let (root, started) = (Arc::new(Mutex::new(PathBuf::new())), Started::default());
    let (known, begun) = (Arc::clone(&root), Arc::clone(&started));
    let world = World::watched(Before::new(step, move || {
        for (path, text) in writers(&known.lock().unwrap()) {
            let probe = File::open(&path).unwrap();
            let append = move || {
                File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
            };
            begun.lock().unwrap().push(std::thread::spawn(append));
            while !is_waited_for(&probe) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }));
    root.lock().unwrap().clone_from(&world.root);
    let path = world.put("file", "old");
    let result = world.write(&path, "new");
    for thread in started.lock().unwrap().drain(..) {
        thread.join().unwrap();
    }
    (world, result)
}

/// Whether somebody waits to open this file for writing: the kernel then says that its lease is being broken.
fn is_waited_for(file: &File) -> bool {
    let inode = format!(":{} ", file.metadata().unwrap().ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| line.contains("BREAKING") && line.contains(&inode))
}

fn beside(root: &Path) -> PathBuf {
    let names = std::fs::read_dir(root).unwrap().flatten().map(|entry| entry.path());
    names.into_iter().find(|path| path.to_string_lossy().contains("/.gatehouse-")).unwrap()
}

#[track_caller]
fn assert_conflict(result: Result<Outcome, ReplaceFault>) {
    let fault = result.unwrap_err();
    assert!(
        matches!(fault, ReplaceFault::Conflict { .. }) && fault.to_string().contains("open for writing"),
        "{fault}"
    );
}

#[test]
fn a_writer_that_has_the_file_open_is_seen_before_anything_is_swapped() {
    let held = Arc::new(Mutex::new(None));
    let (keeps, root) = (Arc::clone(&held), Arc::new(Mutex::new(PathBuf::new())));
    let known = Arc::clone(&root);
    let world = World::watched(Before::new(Step::SyncTemporary, move || {
        let path = known.lock().unwrap().join("file");
        *keeps.lock().unwrap() = Some(File::options().append(true).open(path).unwrap());
        Ok(())
    }));
    root.lock().unwrap().clone_from(&world.root);
    let path = world.put("file", "old");
    let inode = path.metadata().unwrap().ino();
    assert_conflict(world.write(&path, "new"));
    assert_eq!(path.metadata().unwrap().ino(), inode);
    held.lock().unwrap().take().unwrap().write_all(b" and more").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old and more");
    world.assert_tidy();
    // A reader is nobody's conflict.
    let _reader = File::open(&path).unwrap();
    world.write(&path, "new").unwrap();
}

#[test]
fn a_writer_that_waits_for_the_old_file_gets_it_back_in_its_place() {
    let (world, result) = with_writers(Step::Swap, |root| vec![(root.join("file"), " and more")]);
    assert_conflict(result);
    assert_eq!(std::fs::read(world.root.join("file")).unwrap(), b"old and more");
    world.assert_tidy();
    for step in [Step::Verify, Step::SyncDirectory, Step::RemoveOld] {
        let (world, result) = with_writers(step, |root| vec![(beside(root), " and more")]);
        assert_conflict(result);
        assert_eq!(std::fs::read(world.root.join("file")).unwrap(), b"old and more", "{step:?}");
        world.assert_tidy();
    }
}

#[test]
fn a_writer_that_waits_for_the_new_file_writes_to_it_when_it_is_done() {
    for step in [Step::Verify, Step::RemoveOld] {
        let (world, result) = with_writers(step, |root| vec![(root.join("file"), " and more")]);
        result.unwrap();
        assert_eq!(std::fs::read(world.root.join("file")).unwrap(), b"new and more", "{step:?}");
        world.assert_tidy();
    }
}

#[test]
fn with_writers_to_both_files_nothing_is_lost_and_a_person_is_asked() {
    let both = |root: &Path| vec![(beside(root), " and more"), (root.join("file"), " and yet more")];
    let (world, result) = with_writers(Step::Verify, both);
    let fault = result.unwrap_err();
    let kept = beside(&world.root);
    assert_eq!(fault.code().as_str(), "uncertain");
    assert!(fault.to_string().contains(kept.file_name().unwrap().to_str().unwrap()), "{fault}");
    assert_eq!(std::fs::read(world.root.join("file")).unwrap(), b"old and more");
    assert_eq!(std::fs::read(kept).unwrap(), b"new and yet more");
}
