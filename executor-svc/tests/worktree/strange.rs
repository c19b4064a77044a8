//! Repositories that are not like the usual one.

use std::fs;
use std::path::Path;

use executor_svc::worktree::{Worktree, WorktreeState};

use crate::snapshot::Snapshot;
use crate::world::{World, checkout};

/// A whole life of a worktree of this directory; the source must be left as it was. `others` belong to the source as well.
async fn lives(world: &World, source: &Path, others: &[&Path]) -> Worktree {
    let before = Snapshot::of(world, source, others);
    let repository = world.room.inspect(source).await.unwrap();
    let worktree = world.room.create(&world.intent(&repository)).await.unwrap();
    worktree.verify().unwrap();
    assert_eq!(world.room.state(&worktree).await.unwrap(), WorktreeState::Clean);
    fs::write(worktree.path.join("fresh"), "fresh\n").unwrap();
    let changed = WorktreeState::Changed { files: 1, moved: false };
    assert_eq!(world.room.state(&worktree).await.unwrap(), changed);
    let patch = String::from_utf8(world.room.patch(&worktree).await.unwrap()).unwrap();
    assert!(patch.contains("+fresh"), "{patch}");
    fs::remove_file(worktree.path.join("fresh")).unwrap();
    before.assert_same(&Snapshot::of(world, source, others), "a worktree's life");
    worktree
}

async fn removed(world: &World, worktree: &Worktree) {
    world.room.remove(worktree).await.unwrap();
    assert!(!worktree.path.exists() && !worktree.registration_dir().exists());
}

#[tokio::test]
async fn object_names_may_be_sha256() {
    let world = World::new();
    let dir = world.path("source");
    fs::create_dir(&dir).unwrap();
    world.git(&dir, &["init", "-q", "--object-format=sha256"]);
    world.files(&dir);
    world.commit(&dir, "first");
    let worktree = lives(&world, &dir, &[]).await;
    assert_eq!((worktree.head.len(), &*worktree.object_format), (64, "sha256"));
    removed(&world, &worktree).await;
}

#[tokio::test]
async fn refs_may_be_kept_in_tables() {
    let world = World::new();
    if !world.has_reftables() {
        return;
    }
    let dir = world.path("source");
    fs::create_dir(&dir).unwrap();
    world.git(&dir, &["init", "-q", "--ref-format=reftable"]);
    world.files(&dir);
    world.commit(&dir, "first");
    let worktree = lives(&world, &dir, &[]).await;
    removed(&world, &worktree).await;
}

#[tokio::test]
async fn the_source_may_itself_be_a_linked_worktree_also_of_a_bare_repository() {
    let world = World::with_source();
    world.git(&world.source(), &["worktree", "add", "-q", "-b", "side", "../linked"]);
    world.git(&world.path(""), &["clone", "-q", "--bare", "source", "bare"]);
    world.git(&world.path("bare"), &["worktree", "add", "-q", "-b", "another", "../of-bare"]);
    for (source, common) in [("linked", "source/.git"), ("of-bare", "bare")] {
        let (source, common) = (world.path(source), world.path(common));
        let own = common.join("worktrees").join(source.file_name().unwrap());
        let worktree = lives(&world, &source, &[&common, &own]).await;
        assert_eq!(worktree.common_dir, common);
        removed(&world, &worktree).await;
        assert!(own.exists());
    }
}

#[tokio::test]
async fn names_may_hold_spaces_line_breaks_and_any_script() {
    for name in ["two words", "a\nline", "\u{6587}\u{4ef6} \u{e9}", "-dash", "quote\"'$(x)", "trailing "] {
        let world = World::new();
        let dir = world.fill(name);
        let worktree = lives(&world, &dir, &[]).await;
        assert_eq!(worktree.source, dir);
        removed(&world, &worktree).await;
    }
}

#[tokio::test]
async fn source_and_worktrees_may_lie_below_the_directory_that_the_sandbox_covers() {
    let world = World::in_dir("/tmp");
    let dir = world.fill("source");
    let worktree = lives(&world, &dir, &[]).await;
    removed(&world, &worktree).await;
    world.git(&dir, &["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = world.path("linked");
    let worktree = lives(&world, &linked, &[&dir.join(".git")]).await;
    removed(&world, &worktree).await;
}

#[tokio::test]
async fn head_may_be_detached_and_a_branch_may_have_the_worktrees_name() {
    let world = World::with_source();
    world.git(&world.source(), &["checkout", "-q", "--detach"]);
    let repository = world.inspect().await;
    world.git(&world.source(), &["branch", &world.intent(&repository).name]);
    world.git(&world.source(), &["tag", &repository.head, "HEAD"]);
    let worktree = lives(&world, &world.source(), &[]).await;
    let head = world.git(&worktree.path, &["rev-parse", "--symbolic-full-name", "HEAD"]);
    assert_eq!(head.trim(), "HEAD", "no branch is checked out");
}

#[tokio::test]
async fn submodules_are_told_and_stay_empty() {
    let world = World::with_source();
    world.fill("module");
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../module", "sub"];
    world.git(&world.source(), &["config", "remote.origin.url", world.source().to_str().unwrap()]);
    world.git(&world.source(), &add);
    world.commit(&world.source(), "with a submodule");
    world.git(&world.source(), &["config", "submodule.recurse", "true"]);
    let repository = world.inspect().await;
    assert_eq!(repository.notes.submodules, 1);
    let worktree = lives(&world, &world.source(), &[]).await;
    assert_eq!(fs::read_dir(worktree.path.join("sub")).unwrap().count(), 0);
    removed(&world, &worktree).await;
    // A submodule's own files are its own business; which commit it is at is the repository's.
    fs::write(world.source().join("sub/text"), "changed").unwrap();
    world.inspect().await;
    world.commit(&world.source().join("sub"), "another commit");
    let fault = world.refused(&world.source()).await;
    assert!(fault.to_string().contains("sub (changed)"), "{fault}");
}

#[tokio::test]
async fn a_submodules_own_checkout_is_refused_for_its_files_are_elsewhere() {
    let world = World::with_source();
    world.fill("module");
    world.git(&world.source(), &["config", "remote.origin.url", world.source().to_str().unwrap()]);
    world.git(
        &world.source(),
        &["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../module", "sub"],
    );
    let fault = world.refused(&world.source().join("sub")).await;
    assert!(fault.to_string().contains("core.worktree"), "{fault}");
}

#[tokio::test]
async fn files_of_lfs_are_told_and_stay_pointers() {
    let world = World::with_source();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n";
    let dir = world.source();
    fs::write(dir.join(".gitattributes"), "*.big filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    fs::write(dir.join("a.big"), pointer).unwrap();
    world.commit(&dir, "a pointer");
    // What `git lfs install --local` does, with filters that anybody has.
    for (name, value) in
        [("clean", "cat >/dev/null; printf '%s' x"), ("smudge", "printf content"), ("required", "true")]
    {
        world.git(&dir, &["config", &format!("filter.lfs.{name}"), value]);
    }
    let repository = world.inspect().await;
    assert_eq!((repository.notes.lfs_files, repository.notes.filters.len()), (1, 0));
    let worktree = lives(&world, &dir, &[]).await;
    assert_eq!(fs::read_to_string(worktree.path.join("a.big")).unwrap(), pointer);
    // A file that is not a pointer in the source, and whose time stamp has changed: git cannot tell without the filter.
    fs::write(dir.join("a.big"), "content").unwrap();
    let fault = world.refused(&dir).await;
    assert!(fault.what_to_do().contains("LFS"), "{}", fault.what_to_do());
}

#[tokio::test]
async fn line_endings_come_out_as_the_repository_asks() {
    let world = World::with_source();
    let dir = world.source();
    fs::write(dir.join(".gitattributes"), "text eol=crlf\n").unwrap();
    world.git(&dir, &["config", "core.autocrlf", "false"]);
    world.commit(&dir, "attributes");
    fs::remove_file(dir.join("text")).unwrap();
    world.git(&dir, &["checkout", "--", "text"]);
    let worktree = lives(&world, &dir, &[]).await;
    assert_eq!(fs::read(worktree.path.join("text")).unwrap(), b"one\r\ntwo\r\n");
}

#[tokio::test]
async fn a_sparse_checkout_is_told_and_gives_a_sparse_worktree() {
    let world = World::with_source();
    let dir = world.source();
    world.git(&dir, &["sparse-checkout", "set", "deep"]);
    fs::remove_file(dir.join("ignored")).unwrap();
    let repository = world.inspect().await;
    assert!(repository.notes.sparse);
    let worktree = lives(&world, &dir, &[&dir.join(".git")]).await;
    assert_eq!(checkout(&worktree.path), checkout(&dir));
    removed(&world, &worktree).await;
    world.git(&dir, &["sparse-checkout", "disable"]);
    assert!(!world.inspect().await.notes.sparse);
}

#[tokio::test]
async fn settings_that_would_hide_changes_in_the_worktree_do_not() {
    let world = World::with_source();
    let dir = world.source();
    for (name, value) in
        [("core.ignoreStat", "true"), ("core.untrackedCache", "true"), ("core.splitIndex", "true")]
    {
        world.git(&dir, &["config", name, value]);
    }
    let worktree = lives(&world, &dir, &[]).await;
    fs::write(worktree.path.join("text"), "changed\n").unwrap();
    let state = world.room.state(&worktree).await.unwrap();
    assert_eq!(state, WorktreeState::Changed { files: 1, moved: false });
}

#[tokio::test]
async fn a_file_that_is_protected_by_its_name_does_not_make_a_repository_unclean() {
    let world = World::with_source();
    fs::write(world.source().join(".env"), "SECRET=1\n").unwrap();
    world.commit(&world.source(), "a secret that is in the repository anyway");
    let worktree = lives(&world, &world.source(), &[]).await;
    assert_eq!(fs::read(worktree.path.join(".env")).unwrap(), b"SECRET=1\n");
}

#[tokio::test]
async fn a_shared_list_of_worktrees_stays_open_to_those_who_share_the_repository() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::with_source();
    let git_dir = world.source().join(".git");
    fs::set_permissions(&git_dir, fs::Permissions::from_mode(0o2775)).unwrap();
    let worktree = world.made().await;
    let mode = fs::metadata(git_dir.join("worktrees")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o2775);
    removed(&world, &worktree).await;
}

#[tokio::test]
async fn many_files_are_no_trouble() {
    // `WORKTREE_FILES` is for larger runs by hand.
    let many = std::env::var("WORKTREE_FILES").map_or(20_000, |many| many.parse().unwrap());
    let world = World::new();
    let dir = world.path("source");
    fs::create_dir(&dir).unwrap();
    world.git(&dir, &["init", "-q", "-b", "main"]);
    for folder in 0..many / 200 {
        let folder = dir.join(format!("folder-{folder:05}"));
        fs::create_dir(&folder).unwrap();
        (0..200).for_each(|file| fs::write(folder.join(format!("a-file-of-many-{file}")), "x").unwrap());
    }
    world.commit(&dir, "many");
    let repository = world.room.inspect(&dir).await.unwrap();
    let worktree = world.room.create(&world.intent(&repository)).await.unwrap();
    assert_eq!(world.room.state(&worktree).await.unwrap(), WorktreeState::Clean);
    for entry in fs::read_dir(worktree.path.join("folder-00000")).unwrap() {
        fs::rename(entry.as_ref().unwrap().path(), worktree.path.join(entry.unwrap().file_name())).unwrap();
    }
    let state = world.room.state(&worktree).await.unwrap();
    assert_eq!(state, WorktreeState::Changed { files: 400, moved: false });
    let patch = world.room.patch(&worktree).await.unwrap();
    assert_eq!(patch.windows(11).filter(|window| *window == b"diff --git ").count(), 400);
    fs::write(dir.join("folder-00000/new"), "").unwrap();
    assert!(world.refused(&dir).await.to_string().contains("1 uncommitted change:"));
    removed(&world, &worktree).await;
}

#[tokio::test]
async fn every_git_of_this_machine_will_do() {
    for git in crate::world::gits() {
        let world = World::with_git(&git);
        let dir = world.fill("source");
        let worktree = lives(&world, &dir, &[]).await;
        removed(&world, &worktree).await;
    }
}
