//! What happens to a worktree behind Gatehouse's back is noticed.

use std::fs;
use std::path::Path;

use executor_svc::worktree::{BindingFault, LookFault, RemoveFault, Worktree};

use crate::world::World;

fn fault(worktree: &Worktree) -> BindingFault {
    worktree.verify().unwrap_err()
}

#[tokio::test]
async fn a_worktree_that_was_moved_away_is_missing_and_one_in_its_place_is_another() {
    let world = World::with_source();
    let worktree = world.made().await;
    let aside = world.path("aside");
    fs::rename(&worktree.path, &aside).unwrap();
    assert!(matches!(fault(&worktree), BindingFault::Missing(_)));
    // With the same content, `.git` file and all.
    let copied = std::process::Command::new("cp").arg("-a").args([&aside, &worktree.path]).status().unwrap();
    assert!(copied.success());
    assert!(matches!(fault(&worktree), BindingFault::Replaced(_)));
    for refused in [world.room.state(&worktree).await.err(), world.room.patch(&worktree).await.err()] {
        assert!(matches!(refused, Some(LookFault::Binding(BindingFault::Replaced(_)))), "{refused:?}");
    }
    let refused = world.room.remove(&worktree).await.unwrap_err();
    assert!(matches!(refused, RemoveFault::Binding(BindingFault::Replaced(_))), "{refused}");
    assert!(worktree.path.join("text").exists(), "what is in its place stays");
    fs::remove_dir_all(&worktree.path).unwrap();
    std::os::unix::fs::symlink(&aside, &worktree.path).unwrap();
    assert!(matches!(fault(&worktree), BindingFault::Replaced(_)));
    fs::remove_file(&worktree.path).unwrap();
    fs::rename(&aside, &worktree.path).unwrap();
    worktree.verify().unwrap();
}

#[tokio::test]
async fn a_directory_on_the_way_that_became_a_link_is_noticed() {
    let world = World::with_source();
    let worktree = world.made().await;
    fs::rename(world.path("worktrees"), world.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(world.path("elsewhere"), world.path("worktrees")).unwrap();
    assert!(matches!(fault(&worktree), BindingFault::Replaced(_)));
}

#[tokio::test]
async fn a_registration_that_is_gone_or_of_another_is_noticed() {
    let world = World::with_source();
    let worktree = world.made().await;
    let registration = worktree.registration_dir();
    let gitdir = registration.join("gitdir");
    let right = fs::read(&gitdir).unwrap();
    fs::write(&gitdir, "/somewhere/else/.git\n").unwrap();
    assert!(matches!(fault(&worktree), BindingFault::NotRegistered(_)));
    fs::write(&gitdir, right).unwrap();
    let common = registration.join("commondir");
    fs::write(&common, "../../..\n").unwrap();
    assert!(matches!(fault(&worktree), BindingFault::NotRegistered(_)));
    fs::write(&common, "../..\n").unwrap();
    worktree.verify().unwrap();
    let path = worktree.path.to_str().unwrap();
    world.git(&world.source(), &["worktree", "unlock", path]);
    worktree.verify().unwrap();
    fs::rename(&registration, world.path("aside")).unwrap();
    assert!(matches!(fault(&worktree), BindingFault::GitFile(_)));
}

#[tokio::test]
async fn a_git_file_that_leads_elsewhere_or_is_none_is_noticed() {
    let world = World::with_source();
    let worktree = world.made().await;
    let file = worktree.path.join(".git");
    let right = fs::read(&file).unwrap();
    world.fill("other");
    let spoil: [&dyn Fn(&Path); 4] = [
        &|file| fs::write(file, format!("gitdir: {}\n", world.path("other/.git").display())).unwrap(),
        &|file| fs::write(file, "").unwrap(),
        &|file| nix::unistd::mkfifo(file, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        &|file| std::os::unix::fs::symlink(world.source().join(".git"), file).unwrap(),
    ];
    for spoil in spoil {
        fs::remove_file(&file).unwrap();
        spoil(&file);
        assert!(matches!(fault(&worktree), BindingFault::GitFile(_)));
        let refused = world.room.remove(&worktree).await.unwrap_err();
        assert!(matches!(refused, RemoveFault::Binding(BindingFault::GitFile(_))), "{refused}");
    }
    fs::remove_file(&file).unwrap();
    fs::write(&file, right).unwrap();
    worktree.verify().unwrap();
}

#[tokio::test]
async fn a_repository_that_was_replaced_is_noticed() {
    let world = World::with_source();
    let worktree = world.made().await;
    fs::rename(world.source(), world.path("aside")).unwrap();
    assert!(matches!(fault(&worktree), BindingFault::RepositoryReplaced(_)));
    world.git(&world.path(""), &["clone", "-q", "aside", "source"]);
    assert!(matches!(fault(&worktree), BindingFault::RepositoryReplaced(_)));
    fs::remove_dir_all(world.source()).unwrap();
    fs::rename(world.path("aside"), world.source()).unwrap();
    worktree.verify().unwrap();
}

#[tokio::test]
async fn a_worktree_that_was_deleted_by_hand_only_loses_its_registration() {
    let world = World::with_source();
    let worktree = world.made().await;
    fs::remove_dir_all(&worktree.path).unwrap();
    world.room.remove(&worktree).await.unwrap();
    assert!(!world.source().join(".git/worktrees").exists());
    world.room.remove(&worktree).await.unwrap();
}

#[tokio::test]
async fn a_registration_that_another_worktree_has_taken_over_stays() {
    let world = World::with_source();
    let worktree = world.made().await;
    fs::remove_dir_all(&worktree.path).unwrap();
    fs::remove_dir_all(worktree.registration_dir()).unwrap();
    let other = world.path("elsewhere").join(&worktree.registration);
    world.git(&world.source(), &["worktree", "add", "-q", "--detach", other.to_str().unwrap()]);
    assert!(worktree.registration_dir().exists(), "the other one has the same name");
    world.room.remove(&worktree).await.unwrap();
    world.git(&other, &["status"]);
}

#[tokio::test]
async fn a_removal_that_was_interrupted_is_finished() {
    let world = World::with_source();
    let worktree = world.made().await;
    let name = worktree.path.file_name().unwrap().to_str().unwrap();
    let doomed = world.path("worktrees").join(format!(".removing-{name}"));
    fs::rename(&worktree.path, &doomed).unwrap();
    fs::remove_file(doomed.join(".git")).unwrap();
    world.room.remove(&worktree).await.unwrap();
    assert!(!doomed.exists() && !world.source().join(".git/worktrees").exists());
}
