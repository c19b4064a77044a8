//! A worktree from its making to its end, and what it leaves of the source: everything.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use executor_svc::worktree::{Worktree, WorktreeState};

use crate::snapshot::Snapshot;
use crate::world::{NONCE, World, checkout};

fn changed(files: usize) -> WorktreeState {
    WorktreeState::Changed { files, moved: false }
}

/// Changes of every kind.
fn change(dir: &Path) {
    fs::write(dir.join("text"), "one\nchanged\r\nthree").unwrap();
    fs::write(dir.join("bytes"), [0, 159, 146, 150, 10]).unwrap();
    fs::remove_file(dir.join("deep/er/two words\nand a line \u{e9}")).unwrap();
    fs::remove_file(dir.join("link")).unwrap();
    std::os::unix::fs::symlink("bytes", dir.join("link")).unwrap();
    fs::set_permissions(dir.join("program"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(dir.join("new dir")).unwrap();
    fs::write(dir.join("new dir/bin\u{e9}\n"), [0, 255, 0]).unwrap();
    fs::write(dir.join("empty"), "").unwrap();
    fs::write(dir.join("ignored"), "stays out").unwrap();
    std::os::unix::fs::symlink("/nowhere", dir.join("dangling")).unwrap();
}

#[tokio::test]
async fn the_source_stays_byte_for_byte_the_same_through_a_worktrees_whole_life() {
    let world = World::with_source();
    let source = world.source();
    let before = Snapshot::of(&world, &source, &[]);
    let same = |when: &str| before.assert_same(&Snapshot::of(&world, &source, &[]), when);

    let repository = world.inspect().await;
    same("inspect");
    let worktree = world.room.create(&world.intent(&repository)).await.unwrap();
    same("create");
    worktree.verify().unwrap();
    same("verify");
    assert_eq!(world.room.state(&worktree).await.unwrap(), WorktreeState::Clean);
    same("state");
    change(&worktree.path);
    assert_eq!(world.room.state(&worktree).await.unwrap(), changed(8));
    assert!(!world.room.patch(&worktree).await.unwrap().is_empty());
    same("patch");
    world.room.remove(&worktree).await.unwrap();
    same("remove");
    assert!(!source.join(".git/worktrees").exists() && !worktree.path.exists());
    assert_eq!(fs::read_dir(world.path("worktrees")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_worktree_holds_what_head_holds_is_locked_and_detached() {
    let world = World::with_source();
    let worktree = world.made().await;
    let head = world.git(&world.source(), &["rev-parse", "HEAD"]);
    assert_eq!(worktree.head, head.trim());
    let mut expected = checkout(&world.source());
    expected.retain(|(path, _)| path != Path::new("ignored"));
    assert_eq!(checkout(&worktree.path), expected);
    assert!(fs::metadata(worktree.path.join("program")).unwrap().permissions().mode() & 0o100 != 0);
    let list = world.git(&world.source(), &["worktree", "list", "--porcelain"]);
    let ours = list.split("\n\n").find(|part| part.contains(worktree.path.to_str().unwrap())).unwrap();
    assert!(ours.contains("\ndetached") && ours.contains("\nlocked belongs to a Gatehouse"), "{ours}");
    assert!(ours.contains(NONCE), "{ours}");
    let refused = world.try_git(&world.source(), &["worktree", "remove", worktree.path.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("locked"), "{refused:?}");
    world.git(&world.source(), &["worktree", "prune", "--expire=now"]);
    worktree.verify().unwrap();
    let mode = fs::metadata(&worktree.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else looks in");
}

#[tokio::test]
async fn a_patch_brings_every_change_to_another_checkout() {
    let world = World::with_source();
    let worktree = world.made().await;
    assert_eq!(world.room.patch(&worktree).await.unwrap(), b"");
    change(&worktree.path);
    let patch = world.room.patch(&worktree).await.unwrap();
    assert_eq!(world.room.patch(&worktree).await.unwrap(), patch, "asking changes nothing");
    let other = world.path("other");
    world.git(&world.path(""), &["clone", "-q", "source", "other"]);
    fs::write(world.path("patch"), &patch).unwrap();
    world.git(&other, &["apply", world.path("patch").to_str().unwrap()]);
    let mut expected = checkout(&worktree.path);
    expected.retain(|(path, _)| path != Path::new("ignored"));
    assert_eq!(checkout(&other), expected);
    assert_eq!(fs::metadata(other.join("program")).unwrap().permissions().mode() & 0o100, 0);
    assert_eq!(fs::read_dir(world.path("state/worktree-scratch")).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn a_patch_does_not_depend_on_settings_and_copes_with_files_that_became_directories() {
    let world = World::with_source();
    for (name, value) in [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.context", "0"),
        ("color.ui", "always"),
        ("diff.renames", "copies"),
        ("diff.relative", "true"),
        ("diff.orderFile", "/nonexistent"),
        ("status.showUntrackedFiles", "no"),
        ("core.quotePath", "false"),
    ] {
        world.git(&world.source(), &["config", name, value]);
    }
    let worktree = world.made().await;
    fs::remove_file(worktree.path.join("text")).unwrap();
    fs::create_dir(worktree.path.join("text")).unwrap();
    fs::write(worktree.path.join("text/inside"), "x\n").unwrap();
    assert_eq!(world.room.state(&worktree).await.unwrap(), changed(2));
    fs::write(world.path("patch"), world.room.patch(&worktree).await.unwrap()).unwrap();
    world.git(&world.path(""), &["clone", "-q", "source", "other"]);
    world.git(&world.path("other"), &["apply", world.path("patch").to_str().unwrap()]);
    assert_eq!(checkout(&world.path("other")), checkout(&worktree.path));
}

#[tokio::test]
async fn commits_made_in_a_worktree_are_seen_and_are_part_of_its_patch() {
    let world = World::with_source();
    let worktree = world.made().await;
    fs::write(worktree.path.join("text"), "committed\n").unwrap();
    world.commit(&worktree.path, "by somebody");
    let state = world.room.state(&worktree).await.unwrap();
    assert_eq!(state, WorktreeState::Changed { files: 0, moved: true });
    let patch = String::from_utf8(world.room.patch(&worktree).await.unwrap()).unwrap();
    assert!(patch.contains("+committed"), "{patch}");
}

#[tokio::test]
async fn several_worktrees_of_one_repository_do_not_touch_each_other() {
    let world = World::with_source();
    world.git(&world.source(), &["worktree", "add", "-q", "-b", "theirs", "../theirs"]);
    let repository = world.inspect().await;
    let nonces = ["a".repeat(16), "b".repeat(16), "c".repeat(16)];
    let intents = nonces.each_ref().map(|nonce| world.intent_with(&repository, nonce));
    let made = tokio::join!(
        world.room.create(&intents[0]),
        world.room.create(&intents[1]),
        world.room.create(&intents[2])
    );
    let all: [Worktree; 3] = [made.0.unwrap(), made.1.unwrap(), made.2.unwrap()];
    world.room.remove(&all[1]).await.unwrap();
    all[0].verify().unwrap();
    all[2].verify().unwrap();
    let list = world.git(&world.source(), &["worktree", "list"]);
    assert_eq!(list.lines().count(), 4, "{list}");
    for worktree in [&all[0], &all[2]] {
        world.room.remove(worktree).await.unwrap();
    }
    assert!(world.source().join(".git/worktrees/theirs").exists());
    world.git(&world.path("theirs"), &["status"]);
}

#[tokio::test]
async fn a_worktree_is_kept_as_a_row_and_known_again() {
    let world = World::with_source();
    let repository = world.inspect().await;
    let intent = world.intent(&repository);
    let text = serde_json::to_string(&intent).unwrap();
    let worktree = world.room.create(&serde_json::from_str(&text).unwrap()).await.unwrap();
    assert_eq!(worktree.path, intent.path());
    let text = serde_json::to_string(&worktree).unwrap();
    let known: Worktree = serde_json::from_str(&text).unwrap();
    assert_eq!(known, worktree);
    known.verify().unwrap();
}

#[tokio::test]
async fn directories_that_cannot_be_written_are_removed_as_well() {
    let world = World::with_source();
    let worktree = world.made().await;
    let locked = worktree.path.join("locked/more");
    fs::create_dir_all(&locked).unwrap();
    fs::write(locked.join("file"), "x").unwrap();
    std::os::unix::fs::symlink(world.source(), locked.join("out")).unwrap();
    for dir in [&locked, locked.parent().unwrap()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o500)).unwrap();
    }
    world.room.remove(&worktree).await.unwrap();
    assert!(!worktree.path.exists() && world.source().join("text").exists());
}
