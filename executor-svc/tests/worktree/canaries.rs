//! No program that a repository names is ever started.
//!
//! Each is a script that would be started by a plain git; that it would is shown first. Inside the sandbox it could leave no
//! trace that lasts, so what is watched is whether its file is opened.

use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use executor_svc::worktree::{RepositoryFault, WorktreeState};
use gatehouse_sandbox::launch::{
    Confinement, LaunchRequest, Launcher, Limits, Policy, ProcessGroup, Streams,
};
use rustix::fs::inotify;

use crate::world::{World, launcher};

/// Scripts, and who opened them.
struct Canaries<'a> {
    world: &'a World,
    watch: OwnedFd,
}

impl<'a> Canaries<'a> {
    fn of(world: &'a World) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, world.path("canaries"), inotify::WatchFlags::OPEN).unwrap();
        Self { world, watch }
    }

    /// A script. A filter passes on what it reads; everything else ends at once.
    fn script(&self, name: &str) -> String {
        let file = self.world.path("canaries").join(name);
        let ending = if matches!(name, "smudge" | "clean") { "cat" } else { "exit 0" };
        fs::write(&file, format!("#!/bin/sh\n{ending}\n")).unwrap();
        crate::program::make_program(&file);
        self.sung();
        file.to_str().unwrap().to_owned()
    }

    /// Which were opened since this was last asked.
    fn sung(&self) -> BTreeSet<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        let mut names = BTreeSet::new();
        while let Ok(event) = events.next() {
            names.extend(event.file_name().map(|name| name.to_str().unwrap().to_owned()));
        }
        names
    }

    fn silent(&self, when: &str) {
        assert_eq!(self.sung(), BTreeSet::new(), "{when}");
    }

    /// What plain git starts when it is told this.
    fn plain(&self, dir: &Path, words: &[&str]) -> BTreeSet<String> {
        self.sung();
        let _ = self.world.try_git(dir, words);
        self.sung()
    }
}

/// A whole life of a worktree, with changes in it.
async fn live(world: &World, canaries: &Canaries<'_>) {
    let repository = world.inspect().await;
    canaries.silent("inspect");
    let worktree = world.room.create(&world.intent(&repository)).await.unwrap();
    canaries.silent("create");
    worktree.verify().unwrap();
    assert_eq!(world.room.state(&worktree).await.unwrap(), WorktreeState::Clean);
    canaries.silent("state");
    fs::write(worktree.path.join("text"), "changed\n").unwrap();
    fs::write(worktree.path.join("untracked"), "new\n").unwrap();
    let state = world.room.state(&worktree).await.unwrap();
    assert_eq!(state, WorktreeState::Changed { files: 2, moved: false });
    assert!(!world.room.patch(&worktree).await.unwrap().is_empty());
    canaries.silent("patch");
    world.room.remove(&worktree).await.unwrap();
    canaries.silent("remove");
}

/// Has plain git make a worktree, change a file there and look at it; what it started.
fn plain_life(world: &World, canaries: &Canaries<'_>) -> BTreeSet<String> {
    let (source, path) = (world.source(), world.path("plain"));
    let mut sung = canaries.plain(&source, &["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
    if !path.exists() {
        // A filter that ends in the middle of its greeting makes git give up, if it is quick about it.
        let add =
            ["-c", "filter.hostile.process=", "worktree", "add", "-q", "--detach", path.to_str().unwrap()];
        world.git(&source, &add);
    }
    fs::write(path.join("text"), "changed\n").unwrap();
    for words in [&["status"][..], &["diff"], &["add", "text"], &["reset", "-q", "--hard"]] {
        sung.extend(canaries.plain(&path, words));
    }
    world.git(&source, &["-c", "core.fsmonitor=false", "worktree", "remove", "-f", path.to_str().unwrap()]);
    canaries.sung();
    sung
}

/// After this was done to a source, plain git starts exactly what is named, and we start nothing.
async fn starts(names: &[&str], spoil: impl FnOnce(&World, &Canaries<'_>, &Path)) {
    let world = World::with_source();
    fs::write(world.source().join(".gitattributes"), "text filter=hostile diff=hostile merge=hostile\n")
        .unwrap();
    world.commit(&world.source(), "attributes");
    let canaries = Canaries::of(&world);
    spoil(&world, &canaries, &world.source());
    let sung = plain_life(&world, &canaries);
    assert_eq!(sung, names.iter().map(|name| (*name).to_owned()).collect(), "plain git");
    live(&world, &canaries).await;
}

fn config(world: &World, canaries: &Canaries<'_>, dir: &Path, name: &str, script: &str) {
    world.git(dir, &["config", name, &canaries.script(script)]);
}

#[tokio::test]
async fn a_start_inside_the_sandbox_would_be_seen() {
    let world = World::new();
    let canaries = Canaries::of(&world);
    let script = canaries.script("inside");
    let request = LaunchRequest {
        argv: vec![script.into()],
        cwd: "/".into(),
        env: [].into(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy: Policy::Git,
    };
    let streams = Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() };
    let started = Launcher::at(launcher()).start_confined(&request, &Confinement::default(), streams).await;
    started.unwrap().hold.ended().await.unwrap();
    assert_eq!(canaries.sung(), BTreeSet::from(["inside".to_owned()]));
}

#[tokio::test]
async fn hooks_are_not_started() {
    let names = ["post-checkout", "post-index-change", "reference-transaction"];
    starts(&names, |world, canaries, dir| {
        for name in names {
            let hook = dir.join(".git/hooks").join(name);
            std::os::unix::fs::symlink(canaries.script(name), hook).unwrap();
        }
        world.git(dir, &["config", "core.hooksPath", dir.join(".git/hooks").to_str().unwrap()]);
    })
    .await;
}

#[tokio::test]
async fn monitors_are_not_started() {
    starts(&["fsmonitor"], |world, canaries, dir| {
        config(world, canaries, dir, "core.fsmonitor", "fsmonitor");
    })
    .await;
}

#[tokio::test]
async fn filters_are_not_started_not_even_required_ones() {
    starts(&["clean", "smudge"], |world, canaries, dir| {
        config(world, canaries, dir, "filter.hostile.smudge", "smudge");
        config(world, canaries, dir, "filter.hostile.clean", "clean");
        world.git(dir, &["config", "filter.hostile.required", "true"]);
    })
    .await;
    starts(&["process"], |world, canaries, dir| {
        config(world, canaries, dir, "filter.hostile.process", "process");
    })
    .await;
}

#[tokio::test]
async fn filters_of_the_sources_own_files_are_not_started_either() {
    let world = World::with_source();
    let dir = world.source();
    fs::write(dir.join(".gitattributes"), "text filter=hostile\n").unwrap();
    world.commit(&dir, "attributes");
    let canaries = Canaries::of(&world);
    config(&world, &canaries, &dir, "filter.hostile.clean", "clean");
    // Other time stamps: git has to compare.
    fs::write(dir.join("text"), "one\ntwo\n").unwrap();
    assert_eq!(
        canaries.plain(&dir, &["--no-optional-locks", "status"]),
        BTreeSet::from(["clean".to_owned()])
    );
    live(&world, &canaries).await;
}

#[tokio::test]
async fn what_an_included_file_names_is_not_started() {
    starts(&["fsmonitor", "smudge"], |world, canaries, dir| {
        let (smudge, monitor) = (canaries.script("smudge"), canaries.script("fsmonitor"));
        let file = world.path("included");
        let text = format!("[core]\n\tfsmonitor = {monitor}\n[filter \"hostile\"]\n\tsmudge = {smudge}\n");
        fs::write(&file, text).unwrap();
        world.git(dir, &["config", "include.path", file.to_str().unwrap()]);
    })
    .await;
}

#[tokio::test]
async fn what_a_file_names_that_is_included_for_the_new_worktree_alone_is_not_started() {
    starts(&["clean", "smudge"], |world, canaries, dir| {
        let (smudge, clean) = (canaries.script("smudge"), canaries.script("clean"));
        let file = world.path("included");
        fs::write(&file, format!("[filter \"hostile\"]\n\tsmudge = {smudge}\n\tclean = {clean}\n")).unwrap();
        world.git(dir, &["config", "includeIf.gitdir:**/.git/worktrees/*.path", file.to_str().unwrap()]);
        assert_eq!(world.git(dir, &["config", "--list"]).matches("filter.hostile").count(), 0);
    })
    .await;
}

#[tokio::test]
async fn settings_of_the_worktree_alone_name_nothing_that_is_started() {
    starts(&["fsmonitor", "smudge"], |world, canaries, dir| {
        world.git(dir, &["config", "extensions.worktreeConfig", "true"]);
        for (name, script) in [("core.fsmonitor", "fsmonitor"), ("filter.hostile.smudge", "smudge")] {
            world.git(dir, &["config", "--worktree", name, &canaries.script(script)]);
        }
    })
    .await;
}

#[tokio::test]
async fn drivers_of_differences_are_not_started() {
    for (name, script) in [
        ("diff.external", "external"),
        ("diff.hostile.command", "command"),
        ("diff.hostile.textconv", "textconv"),
    ] {
        starts(&[script], |world, canaries, dir| config(world, canaries, dir, name, script)).await;
    }
}

#[tokio::test]
async fn aliases_and_helpers_that_wait_for_another_command_are_not_started() {
    let world = World::with_source();
    let dir = world.source();
    let canaries = Canaries::of(&world);
    for (name, script) in [
        ("credential.helper", "credential"),
        ("credential.https://example.org.helper", "credential-url"),
        ("core.pager", "pager"),
        ("core.editor", "editor"),
        ("core.sshCommand", "ssh"),
        ("gpg.program", "gpg"),
        ("interactive.diffFilter", "interactive"),
    ] {
        config(&world, &canaries, &dir, name, script);
    }
    for (name, command) in [("odd", "alias"), ("status", "alias-status"), ("worktree", "alias-worktree")] {
        world.git(&dir, &["config", &format!("alias.{name}"), &format!("!{}", canaries.script(command))]);
    }
    for (words, script) in [
        (&["odd"][..], "alias"),
        (&["--paginate", "log"], "pager"),
        (&["commit", "--allow-empty", "--amend"], "editor"),
        (&["ls-remote", "ssh://example.org/x"], "ssh"),
        (&["-c", "commit.gpgSign=true", "commit", "--allow-empty", "-m", "x"], "gpg"),
    ] {
        let sung = canaries.plain(&dir, words);
        // A pager is started on a terminal only.
        assert!(sung.contains(script) || script == "pager", "{words:?}: {sung:?}");
    }
    live(&world, &canaries).await;
}

#[tokio::test]
async fn a_promisor_is_refused_before_it_is_asked() {
    let world = World::with_source();
    let dir = world.source();
    let canaries = Canaries::of(&world);
    let script = canaries.script("remote");
    let blob = world.git(&dir, &["rev-parse", "HEAD:text"]).trim().to_owned();
    for (name, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("protocol.ext.allow", "always"),
        ("remote.origin.url", &format!("ext::{script}")),
    ] {
        world.git(&dir, &["config", name, value]);
    }
    let object = dir.join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    let aside = world.path("aside");
    fs::rename(&object, &aside).unwrap();
    assert_eq!(canaries.plain(&dir, &["cat-file", "-p", &blob]), BTreeSet::from(["remote".to_owned()]));
    let fault = world.refused(&dir).await;
    assert!(matches!(fault, RepositoryFault::PartialClone { .. }), "{fault}");
    canaries.silent("a refusal");
    // Even where it becomes one after the look.
    fs::rename(&aside, &object).unwrap();
    for name in ["extensions.partialClone", "remote.origin.promisor", "remote.origin.partialCloneFilter"] {
        // The last one comes from the fetch above, with some versions of git.
        world.try_git(&dir, &["config", "--unset", name]);
    }
    let repository = world.inspect().await;
    world.git(&dir, &["config", "extensions.partialClone", "origin"]);
    world.git(&dir, &["config", "remote.origin.promisor", "true"]);
    fs::rename(&object, &aside).unwrap();
    canaries.sung();
    world.room.create(&world.intent(&repository)).await.unwrap_err();
    canaries.silent("a creation without the object");
}

#[tokio::test]
async fn a_submodule_has_settings_of_its_own_and_nothing_of_them_is_started() {
    let world = World::with_source();
    let dir = world.source();
    world.fill("module");
    world.git(&dir, &["config", "remote.origin.url", dir.to_str().unwrap()]);
    world.git(&dir, &["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../module", "sub"]);
    world.commit(&dir, "with a submodule");
    // What the repository wants to be asked about its submodule.
    world.git(&dir, &["config", "submodule.sub.ignore", "none"]);
    let canaries = Canaries::of(&world);
    config(&world, &canaries, &dir.join("sub"), "core.fsmonitor", "fsmonitor");
    let sung = canaries.plain(&dir, &["--no-optional-locks", "status"]);
    assert_eq!(sung, BTreeSet::from(["fsmonitor".to_owned()]));
    live(&world, &canaries).await;
}
