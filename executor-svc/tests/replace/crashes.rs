//! The process is killed between any two steps, and reconciling finds out what became of the write.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use executor_svc::files::replace::{Intent, ReplaceOptions, Replacer, Step, Verdict};
use gatehouse_proto::digest::sha256_hex;
use proptest::prelude::*;

use crate::world::World;

/// Where the child of a test finds the directory that it works in.
const WORK: &str = "GATEHOUSE_TEST_WORK";

/// What a test's own program does when it is started as a child: writes, says what it intends, and is killed.
#[test]
fn the_child_that_is_killed() {
    let Some(top) = std::env::var_os(WORK).map(PathBuf::from) else { return };
    let world = World::at(&top, Replacer::new(ReplaceOptions::default()));
    let job = std::fs::read_to_string(top.join("job")).unwrap();
    let (kind, name) = job.split_once(' ').unwrap();
    let target = world.open(world.root.join(name)).unwrap();
    let prepared = match kind {
        "remove" => target.prepare_removal(&[], "toolu_killed").unwrap(),
        "write" => target.prepare(AFTER.into(), "toolu_killed").unwrap(),
        other => panic!("{other}"),
    };
    std::fs::write(top.join("intent"), serde_json::to_vec(prepared.intent()).unwrap()).unwrap();
    prepared.perform().unwrap();
}

const BEFORE: &str = "what was there before";
const AFTER: &str = "what is there after, and longer";

/// Has a child do the job and be killed before `step`. False if it came to its end without meeting that step.
fn killed(world: &World, step: Step, job: &str) -> bool {
    std::fs::write(world.top().join("job"), job).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crashes::the_child_that_is_killed", "--nocapture"])
        .env(WORK, world.top())
        .env("GATEHOUSE_FAIL_AT", step.as_str())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    child.signal() == Some(9)
}

fn intent(world: &World) -> Intent {
    serde_json::from_slice(&std::fs::read(world.top().join("intent")).unwrap()).unwrap()
}

fn hash_of(path: &Path) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| sha256_hex(&bytes))
}

/// Reconciles twice, and holds the verdict against what is on disk.
fn settled(world: &World, intent: &Intent) -> Verdict {
    let found = world.replacer.reconcile(&world.files, intent);
    world.assert_tidy();
    assert_eq!(world.replacer.reconcile(&world.files, intent), found, "asking again gives the same");
    let there = hash_of(&intent.path);
    match &found.verdict {
        Verdict::NotApplied => assert_eq!(there.as_deref(), intent.before.sha256()),
        Verdict::Applied => assert_eq!(there.as_deref(), intent.after.sha256()),
        Verdict::Uncertain { why } => panic!("{why}"),
    }
    found.verdict
}

/// The steps before which the file is still what it was.
fn is_early(step: Step) -> bool {
    Step::ALL.iter().position(|s| *s == step) <= Step::ALL.iter().position(|s| *s == Step::Swap)
}

#[test]
fn a_kill_at_any_step_of_a_replacement_leaves_before_or_after() {
    let mut met = Vec::new();
    for step in Step::ALL {
        let world = World::new();
        world.put("dir/file", BEFORE);
        if !killed(&world, step, "write dir/file") {
            continue;
        }
        met.push(step);
        let wanted = if is_early(step) { Verdict::NotApplied } else { Verdict::Applied };
        assert_eq!(settled(&world, &intent(&world)), wanted, "{step:?}");
        world.write(world.root.join("dir/file"), "goes on").unwrap();
    }
    assert_eq!(
        met.len(),
        Step::ALL.len() - 3,
        "all but the ledger's, making directories and putting back: {met:?}"
    );
}

#[test]
fn a_kill_at_any_step_of_a_creation_leaves_nothing_or_the_whole_file() {
    let mut met = 0;
    for step in Step::ALL {
        let world = World::new();
        if !killed(&world, step, "write new/deep/file") {
            continue;
        }
        met += 1;
        let wanted = if is_early(step) { Verdict::NotApplied } else { Verdict::Applied };
        assert_eq!(settled(&world, &intent(&world)), wanted, "{step:?}");
        let there = world.replacer.reconcile(&world.files, &intent(&world)).directories;
        let exists = [world.root.join("new"), world.root.join("new/deep")].into_iter().filter(|d| d.exists());
        assert_eq!(there, exists.collect::<Vec<_>>());
    }
    assert_eq!(met, Step::ALL.len() - 3, "all but the ledger's, putting back and removing the old file");
}

#[test]
fn a_kill_at_any_step_of_a_removal_leaves_the_file_or_nothing() {
    let mut met = 0;
    for step in [Step::Swap, Step::Verify, Step::RemoveOld, Step::SyncDirectory, Step::Finish] {
        let world = World::new();
        world.put("file", BEFORE);
        met += usize::from(killed(&world, step, "remove file"));
        let wanted = if step == Step::Swap { Verdict::NotApplied } else { Verdict::Applied };
        assert_eq!(settled(&world, &intent(&world)), wanted, "{step:?}");
    }
    assert_eq!(met, 5);
}

#[test]
fn another_process_change_that_a_crash_left_swapped_out_is_put_back_and_told() {
    for job in ["write file", "remove file"] {
        for step in [Step::Swap, Step::Verify, Step::RemoveOld] {
            let world = World::new();
            world.put("file", BEFORE);
            assert!(killed(&world, step, job), "{step:?}");
            let intent = intent(&world);
            // What the file is now, or was when it was swapped out: changed by another process.
            let temporary = world.root.join(&intent.temporary);
            let old = if step == Step::Swap { world.root.join("file") } else { temporary };
            std::fs::write(&old, "theirs").unwrap();
            let found = world.replacer.reconcile(&world.files, &intent);
            assert!(matches!(found.verdict, Verdict::Uncertain { .. }), "{step:?} {found:?}");
            assert_eq!(std::fs::read(world.root.join("file")).unwrap(), b"theirs", "{step:?} {job}");
            world.assert_tidy();
        }
    }
}

#[test]
fn what_cannot_be_known_is_uncertain() {
    let world = World::new();
    let path = world.put("file", BEFORE);
    let intent = world.open(&path).unwrap().prepare(AFTER.into(), "x").unwrap().intent().clone();
    let verdict = || world.replacer.reconcile(&world.files, &intent).verdict;
    assert_eq!(verdict(), Verdict::NotApplied);
    std::fs::write(&path, "something else").unwrap();
    assert!(matches!(verdict(), Verdict::Uncertain { .. }));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(verdict(), Verdict::Uncertain { .. }));
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    assert!(matches!(verdict(), Verdict::Uncertain { .. }));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(verdict(), Verdict::Uncertain { .. }));
    std::fs::rename(&world.root, world.top().join("moved")).unwrap();
    assert!(matches!(verdict(), Verdict::Uncertain { .. }));
}

#[test]
fn an_intent_that_names_a_path_as_its_temporary_file_removes_nothing() {
    let world = World::new();
    let path = world.put("file", BEFORE);
    let mut intent = world.open(&path).unwrap().prepare(AFTER.into(), "x").unwrap().intent().clone();
    for name in ["file", "..", ".gatehouse-/../file.tmp", ""] {
        intent.temporary = name.to_owned();
        let found = world.replacer.reconcile(&world.files, &intent);
        assert!(matches!(found.verdict, Verdict::Uncertain { .. }), "{name}");
        assert!(path.exists());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_is_found_the_verdict_matches_the_disk_and_bytes_of_others_stay(
        there in prop_oneof![Just(Some(BEFORE)), Just(Some(AFTER)), Just(Some("theirs")), Just(None)],
        left in prop_oneof![Just(Some(BEFORE)), Just(Some(AFTER)), Just(Some("what is")), Just(Some("others")), Just(None)],
        left_is_the_old_file in any::<bool>(),
        is_new in any::<bool>(),
    ) {
        let world = World::new();
        let path = world.root.join("file");
        if !is_new {
            std::fs::write(&path, BEFORE).unwrap();
        }
        let intent = world.open(&path).unwrap().prepare(AFTER.into(), "x").unwrap().intent().clone();
        let temporary = world.root.join(&intent.temporary);
        if left_is_the_old_file && !is_new && left.is_some() {
            std::fs::rename(&path, &temporary).unwrap();
        }
        if let Some(bytes) = left {
            std::fs::write(&temporary, bytes).unwrap();
        }
        match there {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => { let _ = std::fs::remove_file(&path); }
        }
        let found = world.replacer.reconcile(&world.files, &intent).verdict;
        let now = hash_of(&path);
        match &found {
            Verdict::NotApplied => prop_assert_eq!(now.as_deref(), intent.before.sha256()),
            Verdict::Applied => prop_assert_eq!(now.as_deref(), intent.after.sha256()),
            Verdict::Uncertain { .. } => {}
        }
        if there == Some("theirs") {
            let is_kept = [&path, &temporary].iter().any(|place| std::fs::read(place).is_ok_and(|b| b == b"theirs"));
            prop_assert!(is_kept, "{:?}", found);
        }
        if left == Some("others") && left_is_the_old_file && !is_new {
            let is_kept = [&path, &temporary].iter().any(|place| std::fs::read(place).is_ok_and(|b| b == b"others"));
            prop_assert!(is_kept, "{:?}", found);
        }
        prop_assert_eq!(world.replacer.reconcile(&world.files, &intent).verdict, found);
    }
}
