//! What other processes do between any two steps is seen, and not lost.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use executor_svc::files::replace::{
    How, Outcome, ReplaceFault, ReplaceOptions, Replacer, Step, WithoutExchange, WriterCheck,
};
use rustix::io::Errno;

use crate::world::{Before, World};

/// Replaces `file`, which has `old`, while `act` is done before a step, on a system that does not tell who has a file
/// open for writing; gives the fault and what the file has then.
fn meanwhile(step: Step, act: impl Fn(&Path) + Send + Sync + 'static) -> (ReplaceFault, Option<Vec<u8>>) {
    let (world, result) = replaced(|act| Before::new(step, act).untold(), act);
    let fault = result.unwrap_err();
    world.assert_tidy();
    (fault, std::fs::read(world.root.join("dir/file")).ok())
}

type Act = Box<dyn Fn() -> Result<(), Errno> + Send + Sync>;

/// The same with any watch made of the act.
fn replaced(
    watch: impl FnOnce(Act) -> Before<Act>,
    act: impl Fn(&Path) + Send + Sync + 'static,
) -> (World, Result<Outcome, ReplaceFault>) {
    let place = Arc::new(Mutex::new(PathBuf::new()));
    let known = Arc::clone(&place);
    let world = World::watched(watch(Box::new(move || {
        act(&known.lock().unwrap());
        Ok(())
    })));
    let path = world.put("dir/file", "old");
    place.lock().unwrap().clone_from(&path);
    let result = world.write(&path, "new");
    (world, result)
}

#[track_caller]
fn assert_conflict(fault: &ReplaceFault, what: &str) {
    assert!(matches!(fault, ReplaceFault::Conflict { .. }), "{fault}");
    assert!(fault.to_string().contains(what), "{fault}");
}

const BEFORE_THE_SWAP: [Step; 5] =
    [Step::MakeTemporary, Step::WriteTemporary, Step::WriteSecondHalf, Step::SyncTemporary, Step::Swap];

#[test]
fn a_change_in_place_before_the_swap_stays() {
    for step in BEFORE_THE_SWAP {
        for content in ["longer than before", "odl"] {
            let (fault, there) = meanwhile(step, move |path| std::fs::write(path, content).unwrap());
            assert_conflict(&fault, "changed it");
            assert_eq!(there.as_deref(), Some(content.as_bytes()), "{step:?}");
        }
    }
}

#[test]
fn a_replacement_before_the_swap_stays() {
    for step in BEFORE_THE_SWAP {
        let (fault, there) = meanwhile(step, |path| {
            let other = path.with_extension("other");
            std::fs::write(&other, "theirs").unwrap();
            std::fs::rename(other, path).unwrap();
        });
        assert_conflict(&fault, "replaced it");
        assert_eq!(there.as_deref(), Some(&b"theirs"[..]), "{step:?}");
    }
}

#[test]
fn a_removal_before_the_swap_stays() {
    for step in BEFORE_THE_SWAP {
        let (fault, there) = meanwhile(step, |path| std::fs::remove_file(path).unwrap());
        assert_conflict(&fault, "removed it");
        assert_eq!(there, None, "{step:?}");
    }
}

#[test]
fn a_link_that_takes_the_place_before_the_swap_is_put_back_and_not_followed() {
    let (fault, there) = meanwhile(Step::Swap, |path| {
        let outside = path.ancestors().nth(3).unwrap().join("outside/target");
        std::fs::write(&outside, "untouched").unwrap();
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(outside, path).unwrap();
    });
    assert_conflict(&fault, "replaced it");
    assert_eq!(there.as_deref(), Some(&b"untouched"[..]), "read through the link, which is there again");
}

#[test]
fn a_directory_that_takes_the_place_before_the_swap_is_put_back() {
    let (fault, there) = meanwhile(Step::Swap, |path| {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
        std::fs::write(path.join("inside"), "x").unwrap();
    });
    assert_conflict(&fault, "replaced it");
    assert_eq!(there, None);
}

#[test]
fn new_permissions_and_new_names_before_the_swap_are_conflicts() {
    use std::os::unix::fs::PermissionsExt;
    let (fault, there) = meanwhile(Step::Swap, |path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    });
    assert_conflict(&fault, "changed it");
    let (linked, _) = meanwhile(Step::Swap, |path| {
        std::fs::hard_link(path, path.with_extension("second")).unwrap();
    });
    assert_conflict(&linked, "changed it");
    assert_eq!(there.as_deref(), Some(&b"old"[..]));
}

fn swapped_out(path: &Path) -> PathBuf {
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten();
    let mut names = entries.map(|entry| entry.path());
    names.find(|path| path.to_string_lossy().contains("/.gatehouse-")).unwrap()
}

#[test]
fn a_late_change_to_what_was_swapped_out_is_put_back() {
    let (fault, there) = meanwhile(Step::Verify, |path| std::fs::write(swapped_out(path), "odl").unwrap());
    assert_conflict(&fault, "changed it");
    assert_eq!(there.as_deref(), Some(&b"odl"[..]));
}

#[test]
fn what_takes_the_place_of_the_new_file_while_the_old_one_is_put_back_is_newer_and_stays() {
    let (fault, there) = meanwhile(Step::Verify, |path| {
        std::fs::write(swapped_out(path), "odl").unwrap();
        let other = path.with_extension("other");
        std::fs::write(&other, "newest").unwrap();
        std::fs::rename(other, path).unwrap();
    });
    assert_conflict(&fault, "changed it");
    assert_eq!(there.as_deref(), Some(&b"newest"[..]));
}

#[test]
fn what_another_process_changed_is_restored_where_the_name_was_taken_away() {
    let (fault, there) = meanwhile(Step::Verify, |path| {
        std::fs::write(swapped_out(path), "odl").unwrap();
        std::fs::remove_file(path).unwrap();
    });
    assert_conflict(&fault, "changed it");
    assert_eq!(there.as_deref(), Some(&b"odl"[..]));
}

#[test]
fn a_change_right_after_the_swap_stays_and_is_told() {
    let (fault, there) = meanwhile(Step::Verify, |path| std::fs::write(path, "theirs").unwrap());
    assert_conflict(&fault, "changed it again");
    assert_eq!(there.as_deref(), Some(&b"theirs"[..]));
}

#[test]
fn a_directory_that_is_moved_away_gets_its_file_back() {
    for step in [Step::Swap, Step::Verify] {
        let (fault, there) = meanwhile(step, |path| {
            let (dir, top) = (path.parent().unwrap(), path.ancestors().nth(3).unwrap());
            std::fs::rename(dir, top.join("outside/moved")).unwrap();
            std::os::unix::fs::symlink(top.join("outside/moved"), dir).unwrap();
        });
        assert_conflict(&fault, "moved its directory");
        assert_eq!(there.as_deref(), Some(&b"old"[..]), "{step:?}");
    }
}

#[test]
fn a_file_that_is_made_meanwhile_stays() {
    let place = Arc::new(Mutex::new(PathBuf::new()));
    let known = Arc::clone(&place);
    let world = World::watched(Before::new(Step::Swap, move || {
        std::fs::write(&*known.lock().unwrap(), "theirs").unwrap();
        Ok(())
    }));
    let path = world.root.join("made/file");
    place.lock().unwrap().clone_from(&path);
    assert_conflict(&world.write(&path, "ours").unwrap_err(), "made it");
    assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
    world.assert_tidy();
}

#[test]
fn a_link_that_takes_the_place_of_a_directory_to_be_made_is_not_followed() {
    let place = Arc::new(Mutex::new(PathBuf::new()));
    let known = Arc::clone(&place);
    let world = World::watched(Before::new(Step::MakeDirectories, move || {
        let root = known.lock().unwrap();
        std::os::unix::fs::symlink(root.parent().unwrap().join("outside"), root.join("new")).unwrap();
        Ok(())
    }));
    place.lock().unwrap().clone_from(&world.root);
    let fault = world.write(world.root.join("new/file"), "ours").unwrap_err();
    assert_eq!(fault.code().as_str(), "symlink_refused");
    assert_eq!(std::fs::read_dir(&world.outside).unwrap().count(), 0);
}

#[test]
fn a_failing_step_leaves_nothing_behind() {
    for step in [
        Step::MakeTemporary,
        Step::WriteTemporary,
        Step::WriteSecondHalf,
        Step::SyncTemporary,
        Step::Swap,
        Step::Verify,
        Step::RemoveOld,
    ] {
        for (errno, code) in
            [(Errno::NOSPC, "disk_full"), (Errno::DQUOT, "disk_full"), (Errno::IO, "permission_denied")]
        {
            let world = World::watched(Before::new(step, move || Err(errno)));
            let path = world.put("file", "old");
            assert_eq!(world.refusal(&path), code, "{step:?} {errno}");
            let world = World::watched(Before::new(step, move || Err(errno)));
            if step != Step::RemoveOld {
                assert_eq!(world.refusal(world.root.join("new/deep/file")), code, "{step:?} {errno}");
            }
        }
    }
    let world = World::watched(Before::new(Step::SyncDirectory, || Err(Errno::IO)));
    assert_eq!(world.write(world.root.join("file"), "new").unwrap_err().code().as_str(), "uncertain");
}

#[test]
fn where_names_cannot_be_swapped_the_outcome_says_so_or_the_write_is_refused() {
    let without = || Arc::new(Before::new(Step::Swap, || Err(Errno::INVAL)));
    let world = World::new();
    let path = world.put("file", "old");
    let weaker = Replacer::watched(ReplaceOptions::default(), without());
    let outcome = World::at(world.top(), weaker).write(&path, "new").unwrap();
    assert_eq!(outcome.how, How::Renamed);
    #[cfg(target_os = "linux")]
    assert_eq!(outcome.foreign_writer_check, WriterCheck::Lease);
    assert_eq!(std::fs::read(&path).unwrap(), b"new");

    let refuse = ReplaceOptions { without_exchange: WithoutExchange::Refuse, ..ReplaceOptions::default() };
    let strict = World::at(world.top(), Replacer::watched(refuse, without()));
    assert_eq!(strict.refusal(&path), "special_file_system");
    // A name that is free can be taken in one step all the same, by a hard link.
    let made =
        World::at(world.top(), Replacer::watched(refuse, without())).write(world.root.join("made"), "x");
    assert_eq!(made.unwrap().how, How::Created);
    world.assert_tidy();
}
