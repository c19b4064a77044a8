//! Without git, with an old one, without the sandbox: refused, with the cause.

use std::fs;
use std::path::{Path, PathBuf};

use executor_svc::worktree::{GitFault, RepositoryFault, WorktreeSettings, Worktrees};
use gatehouse_proto::codes::ErrorCode;

use crate::world::{World, launcher, policy};

async fn fault(world: &World, launcher: Option<PathBuf>, path: &Path) -> GitFault {
    let settings = WorktreeSettings {
        launcher,
        path: vec![path.to_owned()],
        excludes: None,
        scratch: world.path("state/worktree-scratch"),
    };
    let room = Worktrees::new(settings, policy(&world.path("")));
    let fault = room.inspect(&world.source()).await.unwrap_err();
    assert_eq!(fault.code(), ErrorCode::ProfileForbids);
    assert!(!fault.what_to_do().is_empty());
    match fault {
        RepositoryFault::Git(fault) => fault,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn there_may_be_no_git_or_one_that_is_too_old() {
    let world = World::with_source();
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("git"), "#!/bin/sh\necho git version 2.33.8\n").unwrap();
    let none = fault(&world, Some(launcher()), &bin).await;
    assert!(matches!(&none, GitFault::NoGit { looked_in } if *looked_in == [bin.clone()]), "{none}");
    crate::program::make_program(bin.join("git"));
    let old = fault(&world, Some(launcher()), &bin).await;
    assert_eq!(old.to_string(), "git is of version 2.33.8, and 2.34 is the oldest that can be used");
}

#[tokio::test]
async fn there_may_be_no_sandbox() {
    let world = World::with_source();
    let usual = Path::new("/usr/bin");
    let none = fault(&world, None, usual).await;
    assert!(matches!(&none, GitFault::Sandbox(why) if why.contains("not installed")), "{none}");
    let broken = fault(&world, Some("/nonexistent/sandbox-launch".into()), usual).await;
    assert!(matches!(&broken, GitFault::Sandbox(why) if why.contains("cannot be started")), "{broken}");
}

#[tokio::test]
async fn the_users_own_list_of_what_to_ignore_is_heeded() {
    let world = World::with_source();
    fs::write(world.source().join("notes.swp"), "x").unwrap();
    let untracked = world.refused(&world.source()).await;
    assert!(untracked.to_string().contains("notes.swp (untracked)"), "{untracked}");
    let list = world.path("home/ignore");
    fs::write(&list, "*.swp\n").unwrap();
    let settings = WorktreeSettings {
        launcher: Some(launcher()),
        path: vec!["/usr/bin".into()],
        excludes: Some(list),
        scratch: world.path("state/worktree-scratch"),
    };
    Worktrees::new(settings, policy(&world.path(""))).inspect(&world.source()).await.unwrap();
}
