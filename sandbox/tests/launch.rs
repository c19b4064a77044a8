//! `sandbox-launch` as a process: what the started program finds, and how each failed step is told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::ffi::OsString;
use std::io;
use std::process::Stdio;

use gatehouse_sandbox::launch::{
    LaunchError, LaunchRequest, Launcher, Limits, Policy, ProcessGroup, Stage, Streams,
};
#[cfg(target_os = "linux")]
use gatehouse_sandbox::process::{ProcessHandle, identity_of};
use tokio::io::AsyncReadExt;

#[path = "probes/program.rs"]
mod program;

use program::make_program;

fn launcher() -> Launcher {
    Launcher::at(env!("CARGO_BIN_EXE_sandbox-launch"))
}

fn shell(script: &str) -> LaunchRequest {
    LaunchRequest {
        argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
        cwd: "/".into(),
        env: [("ONLY".into(), "this".into())].into(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy: Policy::Command,
    }
}

fn streams(stdout: Stdio) -> Streams {
    Streams { stdin: Stdio::null(), stdout, stderr: Stdio::inherit() }
}

async fn output(request: &LaunchRequest) -> (String, Option<i32>) {
    output_by(&launcher(), request).await
}

async fn output_by(launcher: &Launcher, request: &LaunchRequest) -> (String, Option<i32>) {
    let mut launched = launcher.start(request, streams(Stdio::piped())).await.unwrap();
    assert_eq!(launched.enforced_by, Vec::<String>::new());
    let mut text = String::new();
    launched.child.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
    (text, launched.child.wait().await.unwrap().code())
}

async fn failure(launcher: &Launcher, request: &LaunchRequest) -> (Stage, io::ErrorKind) {
    match launcher.start(request, streams(Stdio::null())).await {
        Err(LaunchError::Step { stage, errno }) => (stage, io::Error::from_raw_os_error(errno).kind()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_program_finds_what_the_request_says_and_nothing_else() {
    let top = tempfile::tempdir().unwrap();
    let cwd = top.path().canonicalize().unwrap();
    let mut request =
        shell("/usr/bin/env; pwd; umask; ulimit -c; ulimit -n; ls /proc/self/fd | tr '\\n' ' '");
    request.cwd = cwd.clone().into();
    request.limits.open_files = Some(77);
    let (text, code) = output(&request).await;
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with("_=") && !line.starts_with("PWD=")).collect();
    // `ls` holds the directory that it lists as 3.
    let expected = ["ONLY=this", cwd.to_str().unwrap(), "0077", "0", "77", "0 1 2 3 "];
    let env_and_rest: Vec<&str> =
        lines.into_iter().filter(|line| !line.starts_with("OLDPWD") && !line.starts_with("SHLVL")).collect();
    assert_eq!(env_and_rest, expected);
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn the_program_leads_a_session_and_has_no_signal_of_ours_blocked_or_ignored() {
    // A launcher that was itself started with signals ignored, as under nohup.
    let top = tempfile::tempdir().unwrap();
    let wrapper = top.path().join("wrapper");
    let script =
        format!("#!/bin/sh\ntrap '' HUP TERM USR1\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_sandbox-launch"));
    std::fs::write(&wrapper, script).unwrap();
    make_program(&wrapper);

    let request = shell("cat /proc/$$/stat; grep -E 'Sig(Blk|Ign)' /proc/self/status");
    let (text, _) = output_by(&Launcher::at(&wrapper), &request).await;
    let stat: Vec<&str> = text.lines().next().unwrap().split(' ').collect();
    assert_eq!((stat[0], stat[0]), (stat[4], stat[5]), "group and session are its own pid");
    // The first 31: above them are the C library's own, which its posix_spawn leaves ignored.
    let ordinary = |mask: &str| u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff;
    let masks: Vec<u64> =
        text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).map(ordinary).collect();
    assert_eq!(masks, [0; 2]);
}

#[tokio::test]
async fn an_exit_code_of_the_program_is_never_a_failed_launch() {
    for code in [0, 1, 125, 126, 127] {
        assert_eq!(output(&shell(&format!("exit {code}"))).await.1, Some(code));
    }
}

#[tokio::test]
async fn each_failed_step_is_named_with_its_cause() {
    let with = |change: fn(&mut LaunchRequest)| {
        let mut request = shell("echo must not run");
        change(&mut request);
        request
    };
    let cases = [
        (with(|r| r.argv[0] = "/nonexistent/gatehouse/program".into()), Stage::Exec, io::ErrorKind::NotFound),
        (with(|r| r.argv[0] = "/etc/passwd".into()), Stage::Exec, io::ErrorKind::PermissionDenied),
        (with(|r| r.argv[0] = "sh".into()), Stage::Request, io::ErrorKind::InvalidInput),
        (with(|r| r.argv.clear()), Stage::Request, io::ErrorKind::InvalidInput),
        (with(|r| r.argv.push("a\0b".into())), Stage::Request, io::ErrorKind::InvalidInput),
        (with(|r| r.cwd = "relative".into()), Stage::Request, io::ErrorKind::InvalidInput),
        (with(|r| drop(r.env.insert("A=B".into(), "x".into()))), Stage::Request, io::ErrorKind::InvalidInput),
        (with(|r| r.policy = Policy::SelfConfinement), Stage::Request, io::ErrorKind::InvalidInput),
        (with(|r| r.cwd = "/nonexistent/gatehouse".into()), Stage::Directory, io::ErrorKind::NotFound),
        (with(|r| r.limits.open_files = Some(u64::MAX)), Stage::Limits, io::ErrorKind::PermissionDenied),
    ];
    for (request, stage, kind) in cases {
        assert_eq!(failure(&launcher(), &request).await, (stage, kind), "{request:?}");
    }
}

#[tokio::test]
async fn a_missing_launcher_and_one_that_dies_are_told_apart_from_the_program() {
    let missing = Launcher::at("/nonexistent/gatehouse/sandbox-launch")
        .start(&shell(":"), streams(Stdio::null()))
        .await;
    assert!(matches!(missing, Err(LaunchError::Launcher { .. })), "{missing:?}");
    let silent = Launcher::at("/bin/true").start(&shell(":"), streams(Stdio::null())).await;
    assert!(matches!(silent, Err(LaunchError::Silent)), "{silent:?}");
}

#[tokio::test]
async fn a_launcher_whose_parent_is_another_by_now_starts_nothing() {
    let top = tempfile::tempdir().unwrap();
    let script = top.path().join("orphaned");
    let text = format!("#!/bin/sh\n{} \"$1\" \"$2\"\nexit $?\n", env!("CARGO_BIN_EXE_sandbox-launch"));
    std::fs::write(&script, text).unwrap();
    make_program(&script);
    let (stage, _) = failure(&Launcher::at(&script), &shell(":")).await;
    assert_eq!(stage, Stage::ParentDeath);
}

#[tokio::test]
async fn a_request_larger_than_a_pipe_holds_arrives_whole() {
    let mut request = shell("printf %s \"$V000$V001$V002$V003$V004$V005\" | wc -c");
    for n in 0..6 {
        request.env.insert(format!("V{n:03}"), "x".repeat(100_000).into());
    }
    assert_eq!(output(&request).await.0.trim(), "600000");
}

#[cfg(target_os = "linux")]
#[test]
fn the_program_dies_with_the_thread_that_launched_it() {
    let (said, heard) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let launched =
            runtime.block_on(launcher().start(&shell("exec sleep 1000"), streams(Stdio::null()))).unwrap();
        said.send(identity_of(launched.child.id().unwrap()).unwrap()).unwrap();
        // Nothing kills it but the kernel, when this thread ends.
        std::mem::forget(launched);
        std::mem::forget(runtime);
    });
    let identity = heard.recv().unwrap();
    let handle = ProcessHandle::adopt(&identity);
    thread.join().unwrap();
    if let Ok(handle) = handle {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(handle.wait_gone());
    }
    assert!(ProcessHandle::adopt(&identity).is_err());
}
