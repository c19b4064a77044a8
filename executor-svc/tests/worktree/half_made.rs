//! What an interrupted creation leaves behind is known by its nonce, and nothing else is taken away.

use std::fs;
use std::path::Path;

use executor_svc::worktree::{Cleared, CreateFault, RemoveFault, WorktreeIntent};

use crate::snapshot::Snapshot;
use crate::world::World;

async fn intent(world: &World) -> WorktreeIntent {
    let repository = world.inspect().await;
    world.intent(&repository)
}

fn is_gone(world: &World, intent: &WorktreeIntent) {
    assert!(!intent.path().exists() && !world.source().join(".git/worktrees").exists());
}

/// Each state that a creation goes through, from the outside.
#[tokio::test]
async fn whatever_the_instant_a_half_made_worktree_is_cleared_away() {
    let whole = World::with_source();
    let made = whole.made().await;
    let registration = made.registration_dir();
    let files = ["HEAD", "commondir", "gitdir", "locked"]
        .map(|name| (name, fs::read(registration.join(name)).unwrap()));
    let git_file = fs::read(made.path.join(".git")).unwrap();
    let (old_top, lock) = (whole.path("").to_str().unwrap().to_owned(), &files[3].1);

    let world = World::with_source();
    let intent = intent(&world).await;
    let before = Snapshot::of(&world, &world.source(), &[]);
    let there = intent.repository.common_dir.join("worktrees").join(&intent.name);
    let top = world.path("").to_str().unwrap().to_owned();
    let moved = |content: &[u8]| String::from_utf8(content.to_vec()).unwrap().replace(&old_top, &top);
    let steps: [&dyn Fn(); 10] = [
        &|| fs::create_dir_all(intent.path()).unwrap(),
        &|| fs::create_dir_all(there.parent().unwrap()).unwrap(),
        &|| fs::create_dir(&there).unwrap(),
        &|| fs::write(there.join("locked"), "").unwrap(),
        &|| fs::write(there.join("locked"), lock).unwrap(),
        &|| fs::write(there.join("gitdir"), "").unwrap(),
        &|| fs::write(there.join("gitdir"), moved(&files[2].1)).unwrap(),
        &|| fs::write(intent.path().join(".git"), "").unwrap(),
        &|| fs::write(intent.path().join(".git"), moved(&git_file)).unwrap(),
        &|| {
            fs::write(there.join("commondir"), &files[1].1).unwrap();
            fs::write(there.join("HEAD"), &files[0].1).unwrap();
            fs::write(intent.path().join("text"), "half").unwrap();
        },
    ];
    for last in 0..=steps.len() {
        steps[..last].iter().for_each(|step| step());
        let expected = if last == 0 { Cleared::Nothing } else { Cleared::Removed };
        assert_eq!(world.room.clear_away(&intent).await.unwrap(), expected, "after {last} steps");
        is_gone(&world, &intent);
        before.assert_same(&Snapshot::of(&world, &world.source(), &[]), "clearing away");
    }
    // And the way is free for another attempt.
    world.room.create(&intent).await.unwrap().verify().unwrap();
}

#[tokio::test]
async fn an_attempt_that_fails_in_the_middle_leaves_nothing() {
    let world = World::with_source();
    let intent = intent(&world).await;
    let before = Snapshot::of(&world, &world.source(), &[]);
    // An object that HEAD needs is gone, so that the files cannot be written.
    let object = world.git(&world.source(), &["rev-parse", "HEAD:bytes"]);
    let (first, rest) = object.trim().split_at(2);
    let object = world.source().join(".git/objects").join(first).join(rest);
    let aside = world.path("aside");
    fs::rename(&object, &aside).unwrap();
    let fault = world.room.create(&intent).await.unwrap_err();
    assert!(
        matches!(&fault, CreateFault::Git(fault) if fault.to_string().contains("git reset failed")),
        "{fault}"
    );
    is_gone(&world, &intent);
    fs::rename(&aside, &object).unwrap();
    let now = Snapshot::of(&world, &world.source(), &[]);
    assert!(format!("{before:?}").contains("objects") && now != before, "the object was away");
    world.room.create(&intent).await.unwrap().verify().unwrap();
}

#[tokio::test]
async fn an_attempt_that_is_dropped_at_any_instant_can_be_cleared_away() {
    use std::time::Duration;
    let world = World::with_source();
    let intent = intent(&world).await;
    let mut finished = false;
    for millis in [0, 3, 6, 10, 15, 20, 30, 40, 60, 90] {
        let attempt = world.room.create(&intent);
        finished |= tokio::time::timeout(Duration::from_millis(millis), attempt).await.is_ok();
        world.room.clear_away(&intent).await.unwrap();
        is_gone(&world, &intent);
    }
    // Whether one got to its end depends on the machine; that all could be cleared away does not.
    let _ = finished;
    world.room.create(&intent).await.unwrap().verify().unwrap();
}

async fn left_alone(world: &World, intent: &WorktreeIntent, file: &Path) {
    let fault = world.room.clear_away(intent).await.unwrap_err();
    assert!(matches!(fault, RemoveFault::NotOurs { .. }), "{fault}");
    assert!(file.exists());
}

#[tokio::test]
async fn what_does_not_carry_the_nonce_is_left_alone() {
    let world = World::with_source();
    let intent = intent(&world).await;
    // Files of somebody at the place.
    fs::create_dir_all(intent.path()).unwrap();
    fs::write(intent.path().join("file"), "x").unwrap();
    left_alone(&world, &intent, &intent.path().join("file")).await;
    let taken = world.room.create(&intent).await.unwrap_err();
    assert!(matches!(taken, CreateFault::Exists(_)), "{taken}");
    fs::remove_dir_all(intent.path()).unwrap();
    // A worktree of somebody at the place, locked or not.
    let path = intent.path().to_str().unwrap().to_owned();
    world.git(&world.source(), &["worktree", "add", "-q", "--detach", &path]);
    left_alone(&world, &intent, &intent.path().join("text")).await;
    world.git(&world.source(), &["worktree", "lock", "--reason", "mine", &path]);
    left_alone(&world, &intent, &intent.path().join("text")).await;
    world.git(&world.source(), &["worktree", "remove", "-f", "-f", &path]);
    // A link, a file.
    std::os::unix::fs::symlink(world.source(), intent.path()).unwrap();
    left_alone(&world, &intent, &world.source().join("text")).await;
    fs::remove_file(intent.path()).unwrap();
    fs::write(intent.path(), "x").unwrap();
    left_alone(&world, &intent, &intent.path()).await;
}

#[tokio::test]
async fn another_attempts_worktree_is_left_alone() {
    let world = World::with_source();
    let repository = world.inspect().await;
    let (one, other) = ("0123456789ab-one", "0123456789ab-other");
    let first = world.intent_with(&repository, one);
    let worktree = world.room.create(&first).await.unwrap();
    let second = world.intent_with(&repository, other);
    assert_eq!(first.name, second.name, "the name has only the beginning of the nonce");
    left_alone(&world, &second, &worktree.path.join("text")).await;
    worktree.verify().unwrap();
    assert_eq!(world.room.clear_away(&first).await.unwrap(), Cleared::Removed);
    is_gone(&world, &first);
}
