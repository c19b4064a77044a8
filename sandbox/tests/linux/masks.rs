//! The masks: each hides what nothing else would.

use std::path::Path;
use std::process::Stdio;

use gatehouse_sandbox::launch::{Confinement, Launcher, Policy, Streams};

use crate::host::Host;
use crate::probe::Control::Anybody;
use crate::probe::{Cause, PROBE, command, finish, inside, is_root, outside, refused, request};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    path: String,
    #[serde(rename = "reason")]
    _reason: String,
    kept: Option<String>,
}

/// What is always hidden.
fn covered() -> Vec<Line> {
    #[derive(serde::Deserialize)]
    struct File {
        covered: Vec<Line>,
    }
    toml::from_str::<File>(include_str!("../../policy/covered-linux.toml")).unwrap().covered
}

#[tokio::test]
async fn each_hidden_path_is_hidden_by_its_own_mask_and_by_nothing_else() {
    let host = Host::new();
    std::fs::write(host.path("state/ledger"), "x").unwrap();
    let files = ["home/.ssh/id_rsa", "home/.aws/credentials", "state/ledger"];
    let all = command(&host);
    for (at, file) in files.iter().enumerate() {
        refused(&all, &["read", &host.text(file)], &["EACCES"], Anybody).await;
        let mut less = all.clone();
        less.hidden.remove(at);
        assert!(inside(&less, &["read", &host.text(file)]).await.is_ok(), "{file}");
    }
}

#[tokio::test]
async fn what_is_always_covered_is_covered_where_it_exists() {
    let host = Host::new();
    let confined = command(&host);
    let mut seen = 0;
    for Line { path, .. } in covered() {
        let attempt = if Path::new(&path).is_dir() { "list" } else { "read" };
        let expected = match outside(&["stat", &path]) {
            Cause::Ok(_) => "EACCES",
            _ => "ENOENT",
        };
        assert_eq!(inside(&confined, &[attempt, &*path]).await, Cause::Errno(expected.into()), "{path}");
        seen += usize::from(expected == "EACCES");
    }
    assert!(seen > 0, "nothing of the list exists here, which proves nothing");
}

/// A launcher that starts in a mount namespace of its own, prepared by these commands of a shell.
fn launcher(host: &Host, prepare: &str) -> Launcher {
    let launch = env!("CARGO_BIN_EXE_sandbox-launch");
    let script = host.path("prepare");
    std::fs::write(&script, format!("set -e\n{prepare}\nexec {launch} \"$@\"\n")).unwrap();
    let path = host.path("launch");
    let line = format!("exec unshare -Urm --propagation private sh {} \"$@\"", script.display());
    std::fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
    crate::program::make_program(&path);
    Launcher::at(path)
}

async fn tried(launcher: &Launcher, confined: &Confinement, attempt: &[&str]) -> String {
    let streams = Streams { stdin: Stdio::null(), stdout: Stdio::piped(), stderr: Stdio::piped() };
    let request = request(Policy::Command, &[&[PROBE], attempt].concat());
    let run = finish(launcher.start_confined(&request, confined, streams).await.unwrap()).await;
    run.stdout.trim().to_owned()
}

/// A machine on which all of them exist. Beside each is one that is not on the list.
#[tokio::test]
async fn each_control_socket_is_hidden_by_its_own_line() {
    let host = Host::new();
    let lines: Vec<String> =
        covered().into_iter().map(|line| line.path).filter(|path| path.starts_with("/run/")).collect();
    assert!(lines.len() > 10);
    let mut prepare = "mount -t tmpfs none /run".to_owned();
    for path in &lines {
        prepare
            .push_str(&format!("\nmkdir -p {path} {path}-other; echo x > {path}/x; echo x > {path}-other/x"));
    }
    let launcher = launcher(&host, &prepare);
    let confined = command(&host);
    for path in &lines {
        assert_eq!(
            tried(&launcher, &confined, &["read", &format!("{path}/x")]).await,
            "errno EACCES",
            "{path}"
        );
        assert_eq!(
            tried(&launcher, &confined, &["read", &format!("{path}-other/x")]).await,
            "ok x",
            "{path}"
        );
    }
}

/// The kernel's own files under a second name, which no line covers, can be read there: so it is the line that hides them.
#[tokio::test]
async fn each_file_of_the_kernel_is_hidden_by_its_own_line_or_says_what_else_refuses_it() {
    if !is_root() {
        // Most of them are root's; root's run proves it.
        return;
    }
    let host = Host::new();
    let exists = |line: &Line| !line.path.starts_with("/run/") && Path::new(&line.path).exists();
    let lines: Vec<Line> = covered().into_iter().filter(exists).collect();
    let mut prepare = "true".to_owned();
    for (at, line) in lines.iter().enumerate() {
        let second = host.path(&format!("second-{at}"));
        if Path::new(&line.path).is_dir() {
            std::fs::create_dir(&second).unwrap();
        } else {
            std::fs::write(&second, "").unwrap();
        }
        prepare.push_str(&format!("\nmount --bind {} {}", line.path, second.display()));
    }
    let launcher = launcher(&host, &prepare);
    let confined = command(&host);
    for (at, line) in lines.iter().enumerate() {
        let attempt = if Path::new(&line.path).is_dir() { "list" } else { "read" };
        assert_eq!(
            tried(&launcher, &confined, &[attempt, &*line.path]).await,
            "errno EACCES",
            "{}",
            line.path
        );
        let second = tried(&launcher, &confined, &[attempt, &host.text(&format!("second-{at}"))]).await;
        assert!(second.starts_with("ok") != line.kept.is_some(), "{}: {second}", line.path);
    }
}
