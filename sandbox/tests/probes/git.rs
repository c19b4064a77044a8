//! Git, for our own questions: reads everything, writes two places.

use gatehouse_sandbox::launch::{Confinement, Exit, Policy, Scratch};

use crate::host::Host;
use crate::probe::{Run, command, request, run};

const GIT: &str = "/usr/bin/git";

pub fn git_outside(host: &Host, words: &[&str]) {
    let done = std::process::Command::new(GIT)
        .args(["-C", &host.text("ws"), "-c", "user.name=t", "-c", "user.email=t@example"])
        .args(words)
        .env("HOME", host.home())
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
}

pub fn repository() -> Host {
    let host = Host::new();
    for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "first"]] {
        git_outside(&host, words);
    }
    host
}

pub async fn git(host: &Host, confinement: &Confinement, words: &[&str]) -> Run {
    let repository = host.text("ws");
    let argv = [&[GIT, "-C", &repository][..], words].concat();
    let mut request = request(Policy::Git, &argv);
    request.env.extend(
        [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ]
        .map(|(name, value)| (name.to_owned(), value.into())),
    );
    run(&request, confinement).await
}

fn says_that_it_cannot_write(run: &Run) -> bool {
    let refusal = if cfg!(target_os = "linux") { "Read-only file system" } else { "Operation not permitted" };
    run.stderr.contains(refusal)
}

#[tokio::test]
async fn a_repository_is_read_and_not_written() {
    let host = repository();
    let confined = Confinement { scratch: Scratch::None, ..command(&host) };
    for words in [&["status", "--porcelain"][..], &["log", "--oneline"], &["diff"], &["blame", "file"]] {
        let run = git(&host, &confined, words).await;
        assert_eq!(run.ended.how, Exit::Code(0), "{words:?}: {run:?}");
    }
    let refused = git(&host, &confined, &["branch", "other"]).await;
    assert!(says_that_it_cannot_write(&refused), "{refused:?}");
    git_outside(&host, &["branch", "other"]);
}

#[tokio::test]
async fn a_worktree_is_made_in_the_two_places_that_may_be_written() {
    let host = repository();
    std::fs::create_dir(host.path("trees")).unwrap();
    let tree = host.text("trees/one");
    let before = std::fs::read(host.path("ws/file")).unwrap();
    let mut confined = Confinement { scratch: Scratch::None, ..command(&host) };
    confined.writable = vec![host.path("ws/.git"), host.path("trees")];
    let words = ["worktree", "add", "--detach", &tree, "HEAD"];
    let run = git(&host, &confined, &words).await;
    assert_eq!(run.ended.how, Exit::Code(0), "{run:?}");
    assert_eq!(std::fs::read(host.path("trees/one/file")).unwrap(), before);
    confined.writable = vec![host.path("ws/.git")];
    let elsewhere = host.text("home/two");
    let refused = git(&host, &confined, &["worktree", "add", "--detach", &elsewhere, "HEAD"]).await;
    assert!(says_that_it_cannot_write(&refused), "{refused:?}");
}

#[tokio::test]
async fn a_hostile_repository_gets_no_further_than_git() {
    let host = repository();
    let (secret, out) = (host.text("home/.ssh/id_rsa"), host.text("ws/stolen"));
    let program = host.path("ws/evil");
    std::fs::write(&program, format!("#!/bin/sh\ncat {secret} > {out}; cat {secret} >&2; echo ran >&2\n"))
        .unwrap();
    crate::program::make_program(&program);
    git_outside(&host, &["config", "core.fsmonitor", program.to_str().unwrap()]);
    let run = git(&host, &command(&host), &["status"]).await;
    assert!(run.stderr.contains("ran"), "the attempt was made: {run:?}");
    let refusal = if cfg!(target_os = "linux") { "Permission denied" } else { "Operation not permitted" };
    assert!(run.stderr.contains(refusal), "{run:?}");
    assert!(says_that_it_cannot_write(&run), "{run:?}");
    assert!(!run.stderr.contains(crate::host::SECRET) && !host.path("ws/stolen").exists());
    let fetch = git(&host, &command(&host), &["ls-remote", "https://127.0.0.1/x.git"]).await;
    assert_ne!(fetch.ended.how, Exit::Code(0));
}

#[tokio::test]
async fn a_worktree_is_registered_by_a_git_that_can_write_nothing_else_of_the_repository() {
    let host = repository();
    let (list, tree) = (host.path("ws/.git/worktrees"), host.path("trees/one"));
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::create_dir(&list).unwrap();
    let mut confined = Confinement { scratch: Scratch::None, ..command(&host) };
    confined.writable = vec![list, tree];
    let one = host.text("trees/one");
    let run = git(&host, &confined, &["worktree", "add", "--no-checkout", "--detach", &one, "HEAD"]).await;
    assert_eq!(run.ended.how, Exit::Code(0), "{run:?}");
    assert!(host.path("trees/one/.git").is_file() && host.path("ws/.git/worktrees/one/HEAD").is_file());
    // A ref, a setting, the index, an object, a file: each would be written outside.
    let attempts = [
        &["branch", "other"][..],
        &["config", "gatehouse.x", "y"],
        &["update-index", "--force-remove", "file"],
        &["hash-object", "-w", "/etc/hostname"],
        &["worktree", "add", "--detach", &host.text("trees/two")],
    ];
    for words in attempts {
        let refused = git(&host, &confined, words).await;
        assert_ne!(refused.ended.how, Exit::Code(0), "{words:?}");
        let cause = ["Read-only file system", "read-only"];
        assert!(cause.iter().any(|cause| refused.stderr.contains(cause)), "{words:?}: {refused:?}");
        git_outside(&host, words);
    }
}

#[tokio::test]
async fn a_git_that_may_write_the_repository_ends_with_everything_that_it_started() {
    let host = repository();
    let hook = host.path("ws/.git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\n(setsid sleep 7311 &)\necho ran >&2\n").unwrap();
    crate::program::make_program(&hook);
    std::fs::create_dir(host.path("trees")).unwrap();
    let mut confined = command(&host);
    confined.writable = vec![host.path("ws/.git"), host.path("trees")];
    let tree = host.text("trees/one");
    let run = git(&host, &confined, &["worktree", "add", "--detach", &tree, "HEAD"]).await;
    assert!(run.ended.how == Exit::Code(0) && run.stderr.contains("ran"), "{run:?}");
    let sleeps = |entry: std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x007311\0")
    };
    assert!(!std::fs::read_dir("/proc").unwrap().map(Result::unwrap).any(sleeps));
}
