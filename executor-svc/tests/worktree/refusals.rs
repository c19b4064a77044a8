//! What no worktree is made of, each with its cause, its code and what to do.

use std::fs;
use std::path::Path;

use executor_svc::worktree::{ChangeKind, CreateFault, RepositoryFault};
use gatehouse_proto::codes::ErrorCode;

use crate::snapshot::Snapshot;
use crate::world::World;

/// What is refused in a source after this was done to it.
async fn after(world: &World, spoil: impl FnOnce(&World, &Path)) -> RepositoryFault {
    spoil(world, &world.source());
    let before = Snapshot::of(world, &world.source(), &[]);
    let fault = world.refused(&world.source()).await;
    before.assert_same(&Snapshot::of(world, &world.source(), &[]), "a refusal");
    assert!(!fault.what_to_do().is_empty());
    fault
}

fn kinds(fault: &RepositoryFault) -> Vec<(ChangeKind, &str)> {
    match fault {
        RepositoryFault::Changed { first, total, .. } => {
            assert_eq!(*total, first.len());
            first.iter().map(|change| (change.kind, &*change.path)).collect()
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn changes_of_every_kind_are_refused_and_named() {
    let world = World::with_source();
    let fault = after(&world, |world, dir| {
        fs::write(dir.join("text"), "changed").unwrap();
        fs::write(dir.join("staged\n\"name\""), "x").unwrap();
        world.git(dir, &["add", "staged\n\"name\""]);
        fs::write(dir.join("program"), "staged").unwrap();
        world.git(dir, &["add", "program"]);
        fs::write(dir.join("program"), "and changed").unwrap();
        fs::remove_file(dir.join("link")).unwrap();
        fs::create_dir(dir.join("untracked")).unwrap();
        fs::write(dir.join("untracked/file"), "x").unwrap();
    })
    .await;
    let mut found = kinds(&fault);
    found.sort_by_key(|(_, path)| (*path).to_owned());
    let expected = [
        (ChangeKind::Unstaged, "link"),
        (ChangeKind::StagedAndUnstaged, "program"),
        (ChangeKind::Staged, "staged\n\"name\""),
        (ChangeKind::Unstaged, "text"),
        (ChangeKind::Untracked, "untracked/"),
    ];
    assert_eq!(found, expected);
    assert_eq!(fault.code(), ErrorCode::RepositoryNotClean);
    let text = fault.to_string();
    assert!(text.contains("5 uncommitted changes") && text.contains("untracked/ (untracked)"), "{text}");
    assert!(!text.contains('\n'), "a name cannot break the line: {text}");
}

#[tokio::test]
async fn untracked_files_count_whatever_the_settings_say() {
    let world = World::with_source();
    let fault = after(&world, |world, dir| {
        world.git(dir, &["config", "status.showUntrackedFiles", "no"]);
        fs::write(dir.join("new"), "x").unwrap();
    })
    .await;
    assert_eq!(kinds(&fault), [(ChangeKind::Untracked, "new")]);
}

#[tokio::test]
async fn a_repository_in_the_middle_of_something_is_refused() {
    // Two branches that conflict in `text`.
    let prepare = |world: &World, dir: &Path| {
        world.git(dir, &["checkout", "-q", "-b", "other"]);
        fs::write(dir.join("text"), "other\n").unwrap();
        world.commit(dir, "other");
        world.git(dir, &["checkout", "-q", "main"]);
        fs::write(dir.join("text"), "main\n").unwrap();
        world.commit(dir, "main");
    };
    let settle = |world: &World, dir: &Path| {
        world.git(dir, &["checkout", "-q", "--ours", "text"]);
        world.git(dir, &["reset", "-q", "--", "text"]);
        world.git(dir, &["checkout", "-q", "HEAD", "--", "text"]);
    };
    for (words, expected) in [
        (&["merge", "other"][..], "a merge"),
        (&["rebase", "other"], "a rebase"),
        (&["rebase", "--apply", "other"], "a rebase"),
        (&["cherry-pick", "other"], "a cherry-pick"),
        (&["revert", "other"], "a revert"),
        (&["bisect", "start"], "a bisection"),
    ] {
        for format in ["files", "reftable"] {
            let world = World::new();
            if format == "reftable" && !world.has_reftables() {
                continue;
            }
            let dir = world.path("source");
            fs::create_dir(&dir).unwrap();
            let format_word = format!("--ref-format={format}");
            let init = ["init", "-q", "-b", "main", &format_word];
            world.git(&dir, if format == "files" { &init[..4] } else { &init });
            world.files(&dir);
            world.commit(&dir, "first");
            prepare(&world, &dir);
            world.room.inspect(&dir).await.unwrap();
            let failed = !world.try_git(&dir, words).status.success();
            assert_eq!(failed, words[0] != "bisect", "{words:?}");
            if failed && words[0] != "rebase" {
                // Not refused for what is changed, but for what is under way.
                settle(&world, &dir);
            }
            match world.refused(&dir).await {
                RepositoryFault::InProgress { operation, .. } => assert_eq!(operation, expected, "{words:?}"),
                other => panic!("{words:?}, {format}: {other}"),
            }
        }
    }
}

#[tokio::test]
async fn only_the_top_level_of_a_checkout_with_a_commit_will_do() {
    let world = World::with_source();
    let below = world.source().join("deep");
    match world.refused(&below).await {
        RepositoryFault::NotTopLevel { top, .. } => assert_eq!(top, world.source()),
        other => panic!("{other}"),
    }
    let inside = world.refused(&world.source().join(".git/refs")).await;
    assert!(matches!(inside, RepositoryFault::Bare(_)), "{inside}");
    let none = world.refused(&world.path("home")).await;
    assert!(matches!(none, RepositoryFault::NotARepository(_)), "{none}");
    world.git(&world.path(""), &["init", "-q", "--bare", "bare"]);
    let bare = world.refused(&world.path("bare")).await;
    assert!(matches!(bare, RepositoryFault::Bare(_)), "{bare}");
    world.git(&world.path(""), &["init", "-q", "empty"]);
    let empty = world.refused(&world.path("empty")).await;
    assert!(matches!(empty, RepositoryFault::NoCommit(_)), "{empty}");
    assert_eq!(empty.code(), ErrorCode::RepositoryNotClean);
    for fault in [inside, none, bare] {
        assert_eq!(fault.code(), ErrorCode::WorkingDirectoryInvalid);
        assert!(!fault.what_to_do().is_empty());
    }
}

#[tokio::test]
async fn a_repository_with_its_files_elsewhere_is_refused() {
    let world = World::with_source();
    let elsewhere = world.path("home").to_str().unwrap().to_owned();
    let fault = after(&world, |world, dir| {
        // Status, which the snapshot asks for, would look elsewhere too; so this is the same place by another name.
        let here = format!("{elsewhere}/../source");
        world.git(dir, &["config", "core.worktree", &here]);
    })
    .await;
    assert!(matches!(fault, RepositoryFault::FilesElsewhere(_)), "{fault}");
}

#[tokio::test]
async fn a_setting_that_an_included_file_makes_counts_as_the_repositorys() {
    let world = World::with_source();
    let file = world.path("included");
    fs::write(&file, "[remote \"origin\"]\n\tpromisor = true\n").unwrap();
    let fault = after(&world, |world, dir| {
        world.git(dir, &["config", "include.path", file.to_str().unwrap()]);
    })
    .await;
    match fault {
        RepositoryFault::PartialClone { setting, .. } => assert_eq!(setting, "remote.origin.promisor"),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_partial_clone_is_refused() {
    let world = World::with_source();
    world.git(&world.source(), &["config", "uploadpack.allowFilter", "true"]);
    let from = format!("file://{}", world.source().display());
    world.git(&world.path(""), &["clone", "-q", "--filter=blob:none", &from, "partial"]);
    let fault = world.refused(&world.path("partial")).await;
    assert!(matches!(fault, RepositoryFault::PartialClone { .. }), "{fault}");
    assert_eq!(fault.code(), ErrorCode::WorkingDirectoryInvalid);
}

#[tokio::test]
async fn a_repository_of_another_user_is_refused() {
    if nix::unistd::geteuid().is_root() {
        let world = World::with_source();
        std::os::unix::fs::chown(world.source().join(".git"), Some(1000), Some(1000)).unwrap();
        let fault = world.refused(&world.source()).await;
        assert!(matches!(fault, RepositoryFault::OtherOwner(_)), "{fault}");
    }
    // The root directory belongs to root: for an ordinary user that is another, and for root no repository.
    let world = World::new();
    let fault = world.refused(Path::new("/usr")).await;
    let expected =
        if nix::unistd::geteuid().is_root() { "is not in a Git repository" } else { "another user" };
    assert!(fault.to_string().contains(expected), "{fault}");
}

#[tokio::test]
async fn worktrees_do_not_go_into_the_repository_itself() {
    let world = World::with_source();
    let repository = world.inspect().await;
    std::os::unix::fs::symlink(world.source(), world.path("alias")).unwrap();
    let before = Snapshot::of(&world, &world.source(), &[]);
    for folder in [world.source().join("trees"), world.path("alias/a/b"), world.source().join(".git/trees")] {
        let mut intent = world.intent(&repository);
        intent.folder = folder;
        let fault = world.room.create(&intent).await.unwrap_err();
        assert!(matches!(fault, CreateFault::FolderInside { .. }), "{fault}");
    }
    before.assert_same(&Snapshot::of(&world, &world.source(), &[]), "a refused creation");
}

#[tokio::test]
async fn a_repository_that_was_replaced_since_it_was_looked_at_is_refused() {
    let world = World::with_source();
    let repository = world.inspect().await;
    fs::rename(world.source(), world.path("aside")).unwrap();
    world.fill("source");
    let fault = world.room.create(&world.intent(&repository)).await.unwrap_err();
    assert!(matches!(fault, CreateFault::SourceChanged(_)), "{fault}");
}
