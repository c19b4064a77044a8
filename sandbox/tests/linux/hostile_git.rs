//! What a repository can have git start: hooks, filters, text converters, credential helpers.

use std::process::Stdio;

use gatehouse_sandbox::launch::{Policy, Streams};
use tokio::io::AsyncWriteExt;

use crate::git::{git, git_outside, repository};
use crate::host::{Host, SECRET};
use crate::probe::{PROBE, command, finish, request};

/// Tries a secret, a socket and a process, and says how it went; passes on what a filter has to pass on.
fn program(host: &Host) -> String {
    let path = host.text("ws/evil");
    let text = format!(
        "#!/bin/sh\n{{ echo ran $1; {PROBE} read {}; {PROBE} connect-unix {}; {PROBE} kill {} 0; echo done $1; }} >&2\n\
         case $1 in textconv) cat $2;; hook) ;; *) cat;; esac\n",
        host.text("home/.ssh/id_rsa"),
        host.text("sockets/stream"),
        host.victim()
    );
    std::fs::write(&path, text).unwrap();
    crate::program::make_program(&path);
    path
}

/// Everything that it tried was refused, each for its own reason.
fn tried_in_vain(stderr: &str, what: &str) {
    let start = stderr.find(&format!("ran {what}")).unwrap_or_else(|| panic!("{what} did not run: {stderr}"));
    let rest = &stderr[start..];
    let said = &rest[..rest.find(&format!("done {what}")).unwrap()];
    let answers: Vec<&str> = said.lines().skip(1).collect();
    assert_eq!(answers, ["errno EACCES", "errno EPERM", "errno ESRCH"], "{what}");
    assert!(!stderr.contains(SECRET));
}

#[tokio::test]
async fn whatever_a_repository_starts_is_as_confined_as_git() {
    let host = repository();
    let program = program(&host);
    for (name, value) in [
        ("filter.evil.clean", format!("{program} clean")),
        ("filter.evil.smudge", format!("{program} smudge")),
        ("diff.evil.textconv", format!("{program} textconv")),
        ("credential.helper", format!("!{program} helper")),
    ] {
        git_outside(&host, &["config", name, &value]);
    }
    let hook = host.path("ws/.git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\nexec {program} hook\n")).unwrap();
    crate::program::make_program(&hook);
    std::fs::write(host.path("ws/.gitattributes"), "file filter=evil diff=evil\n").unwrap();
    std::fs::write(host.path("ws/file"), "changed").unwrap();

    // With a scratch: git hands a text converter its file in a temporary one.
    let read_only = command(&host);
    let diff = git(&host, &read_only, &["diff"]).await;
    tried_in_vain(&diff.stderr, "clean");
    tried_in_vain(&diff.stderr, "textconv");

    std::fs::create_dir(host.path("trees")).unwrap();
    let mut writing = read_only.clone();
    writing.writable = vec![host.path("ws/.git"), host.path("trees")];
    let tree = host.text("trees/one");
    std::fs::create_dir_all(host.path("ws/.git/info")).unwrap();
    std::fs::write(host.path("ws/.git/info/attributes"), "file filter=evil\n").unwrap();
    let add = git(&host, &writing, &["worktree", "add", "--detach", &tree, "HEAD"]).await;
    tried_in_vain(&add.stderr, "smudge");
    tried_in_vain(&add.stderr, "hook");

    let argv = ["/usr/bin/git", "-C", &host.text("ws"), "credential", "fill"];
    let mut request = request(Policy::Git, &argv);
    request.env.insert("GIT_TERMINAL_PROMPT".into(), "0".into());
    let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::piped() };
    let mut asking = crate::probe::launcher().start_confined(&request, &read_only, streams).await.unwrap();
    asking.child.stdin.take().unwrap().write_all(b"protocol=https\nhost=name.example\n\n").await.unwrap();
    tried_in_vain(&finish(asking).await.stderr, "helper");
    assert_eq!(host.reached(), 0);
}
