//! The life and the end of a program, and of all that it leaves behind.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use gatehouse_sandbox::launch::ProcessGroup;
use gatehouse_sandbox::launch::{Confined, Exit, Launcher, Policy, Streams, TimeLimit};
use gatehouse_sandbox::process::Signal;
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::host::Host;
use crate::probe::{PROBE, command, finish, request, run, start};

/// Processes of this machine that hold `mark` as an argument.
#[cfg(not(target_os = "linux"))]
pub fn alive(mark: &str) -> usize {
    let listed = std::process::Command::new("/bin/ps").args(["-axww", "-o", "command="]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines().filter(|line| line.split(' ').any(|word| word == mark)).count()
}

/// Processes of this machine that hold `mark` as an argument.
#[cfg(target_os = "linux")]
pub fn alive(mark: &str) -> usize {
    let holds = |pid: &str| {
        let Ok(text) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
        text.split(|&byte| byte == 0).any(|word| word == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(|pid| holds(pid)).count()
}

pub fn mark(host: &Host) -> String {
    host.text("").rsplit('/').nth(1).unwrap().to_owned()
}

/// Starts it and waits until it has said its first line.
async fn running(words: &[&str], host: &Host) -> Confined {
    let argv = [&[PROBE][..], words].concat();
    let mut confined = start(&request(Policy::Command, &argv), &command(host)).await.unwrap();
    let stdout = confined.child.stdout.as_mut().unwrap();
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await.unwrap();
    assert!(!line.is_empty());
    confined
}

/// Waits for it to become true; a state of the whole machine cannot be waited for in another way.
pub async fn eventually(mut what: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !what() {
        assert!(Instant::now() < deadline, "not in ten seconds");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_end_of_the_program_is_told_exactly_and_the_keeper_ends_alike() {
    let host = Host::new();
    for code in [0, 1, 7, 125, 126, 127, 255] {
        let confined =
            start(&request(Policy::Command, &[PROBE, "exit", &code.to_string()]), &command(&host)).await;
        let mut confined = confined.unwrap();
        assert_eq!(confined.hold.ended().await.unwrap().how, Exit::Code(code));
        assert_eq!(confined.child.wait().await.unwrap().code(), Some(code));
    }
    // The last two are numbers that only Linux has.
    let last = if cfg!(target_os = "linux") { 9 } else { 7 };
    for signal in [1, 2, 6, 9, 11, 15, 31, 34, 64].into_iter().take(last) {
        let confined =
            start(&request(Policy::Command, &[PROBE, "die-by", &signal.to_string()]), &command(&host)).await;
        let mut confined = confined.unwrap();
        assert_eq!(confined.hold.ended().await.unwrap().how, Exit::Signal(signal));
        assert_eq!(confined.child.wait().await.unwrap().signal(), Some(signal));
    }
}

#[tokio::test]
async fn what_was_used_up_is_told() {
    let host = Host::new();
    let script = "head -c 40000000 /dev/zero | tail -c 30000000 | wc -c";
    let ended = run(&request(Policy::Command, &["/bin/sh", "-c", script]), &command(&host)).await.ended;
    assert!(ended.usage.peak_memory_bytes > 25_000_000, "{ended:?}");
    assert!(ended.usage.user_us + ended.usage.system_us > 0, "{ended:?}");
}

#[tokio::test]
async fn children_that_detached_themselves_end_with_the_program() {
    let host = Host::new();
    let mark = mark(&host);
    // A Mac has no such command; there the strays try it themselves.
    let setsid = if cfg!(target_os = "linux") { "setsid" } else { "" };
    let script = format!(
        "{PROBE} strays 30 {mark}; for i in $(seq 30); do {setsid} {PROBE} ignore-term {mark} & done; true"
    );
    let run = run(&request(Policy::Command, &["/bin/sh", "-c", &script]), &command(&host)).await;
    assert_eq!(run.ended.how, Exit::Code(0), "{run:?}");
    // Not eventually: the end is told only when they are gone.
    assert_eq!(alive(&mark), 0);
}

#[tokio::test]
async fn a_child_that_holds_the_output_open_does_not_hold_up_the_end() {
    let host = Host::new();
    let started = Instant::now();
    let run = run(&request(Policy::Command, &[PROBE, "hold-stdout"]), &command(&host)).await;
    assert_eq!(run.ended.how, Exit::Code(0));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn time_runs_out_first_with_a_request_then_with_the_end() {
    let host = Host::new();
    let mut confined = command(&host);
    confined.time = Some(TimeLimit { run_ms: 200, grace_ms: 60_000 });
    let waits = run(&request(Policy::Command, &[PROBE, "wait-forever"]), &confined).await.ended;
    assert_eq!((waits.how, waits.timed_out), (Exit::Signal(15), true));
    confined.time = Some(TimeLimit { run_ms: 100, grace_ms: 100 });
    let mark = mark(&host);
    for words in [["ignore-term", &mark], ["strays-and-wait", "20"]] {
        let argv = [&[PROBE][..], &words].concat();
        let deaf = run(&request(Policy::Command, &argv), &confined).await.ended;
        assert!(deaf.timed_out);
        assert!(matches!(deaf.how, Exit::TornDown | Exit::Signal(15)), "{deaf:?}");
    }
    assert_eq!(alive(&mark), 0);
    confined.time = Some(TimeLimit::seconds(100));
    let quick = run(&request(Policy::Command, &["/bin/true"]), &confined).await.ended;
    assert_eq!((quick.how, quick.timed_out), (Exit::Code(0), false));
}

#[tokio::test]
async fn a_stopped_program_ends_as_well() {
    let host = Host::new();
    let mut confined = command(&host);
    confined.time = Some(TimeLimit { run_ms: 100, grace_ms: 100 });
    let script = "kill -STOP $$; echo no";
    let ended = run(&request(Policy::Command, &["/bin/sh", "-c", script]), &confined).await.ended;
    assert_eq!((ended.how, ended.timed_out), (Exit::TornDown, true));
}

#[tokio::test]
async fn signals_reach_the_program_by_the_hold_and_by_the_keeper() {
    let host = Host::new();
    let mut by_hold = running(&["say-and-wait", "here"], &host).await;
    by_hold.hold.signal(Signal::SIGUSR1).unwrap();
    assert_eq!(by_hold.hold.ended().await.unwrap().how, Exit::Signal(Signal::SIGUSR1 as i32));
    let mut by_keeper = running(&["say-and-wait", "here"], &host).await;
    let keeper = Pid::from_raw(by_keeper.child.id().unwrap().try_into().unwrap());
    nix::sys::signal::kill(keeper, Signal::SIGTERM).unwrap();
    assert_eq!(by_keeper.hold.ended().await.unwrap().how, Exit::Signal(Signal::SIGTERM as i32));
    assert_eq!(by_keeper.child.wait().await.unwrap().signal(), Some(15));
}

#[tokio::test]
async fn letting_go_in_any_way_leaves_nothing_alive() {
    let host = Host::new();
    let mark = mark(&host);
    let ways: [fn(&mut Confined); 3] = [
        |confined| nix::sys::signal::kill(keeper_of(confined), Signal::SIGKILL).unwrap(),
        kill_the_first_process,
        |_| {},
    ];
    for way in ways {
        let mut confined = running(&["say-and-wait", &mark], &host).await;
        assert!(alive(&mark) >= 1);
        way(&mut confined);
        drop(confined);
        eventually(|| alive(&mark) == 0).await;
    }
    let mut confined = running(&["say-and-wait", &mark], &host).await;
    confined.hold.kill().await.unwrap();
    assert_eq!(confined.hold.ended().await.unwrap().how, Exit::TornDown);
    assert_eq!(alive(&mark), 0);
}

#[cfg(target_os = "linux")]
fn kill_the_first_process(confined: &mut Confined) {
    use rustix::process::{Signal, pidfd_send_signal};
    pidfd_send_signal(confined.hold.init(), Signal::KILL).unwrap();
}

/// There is none.
#[cfg(not(target_os = "linux"))]
const fn kill_the_first_process(_: &mut Confined) {}

fn keeper_of(confined: &Confined) -> Pid {
    Pid::from_raw(confined.child.id().unwrap().try_into().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn the_death_of_the_launching_thread_ends_everything() {
    let host = Host::new();
    let mark = mark(&host);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let confined = runtime.block_on(running(&["say-and-wait", &mark], &host));
            assert!(alive(&mark) >= 1);
            // Nothing lets go; only the thread ends.
            std::mem::forget(confined);
            std::mem::forget(runtime);
        });
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(eventually(|| alive(&mark) == 0));
}

#[tokio::test]
async fn the_death_of_the_launching_process_leaves_nothing_alive() {
    let host = Host::new();
    let mark = mark(&host);
    let launching = tokio::process::Command::new(PROBE)
        .args(["launch-and-wait", &mark])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut launching = launching.unwrap();
    let mut line = String::new();
    BufReader::new(launching.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    assert_eq!(line.trim(), mark);
    // The launching process itself and the program.
    eventually(|| alive(&mark) == 2).await;
    launching.kill().await.unwrap();
    eventually(|| alive(&mark) == 0).await;
}

#[tokio::test]
async fn output_without_end_ends_with_its_reader_or_with_the_time() {
    let host = Host::new();
    // Not a line in it; the reader goes away after a mebibyte.
    let mut flood = start(&request(Policy::Command, &[PROBE, "flood"]), &command(&host)).await.unwrap();
    let mut stdout = flood.child.stdout.take().unwrap();
    tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut vec![0; 1 << 20]).await.unwrap();
    drop(stdout);
    assert_eq!(flood.hold.ended().await.unwrap().how, Exit::Code(1));
    // Somebody reads all of it, which does not stop the clock.
    let mut confined = command(&host);
    confined.time = Some(TimeLimit { run_ms: 300, grace_ms: 100 });
    let mut flood = start(&request(Policy::Command, &["/usr/bin/yes"]), &confined).await.unwrap();
    let mut stdout = flood.child.stdout.take().unwrap();
    let read = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await.unwrap();
    let ended = flood.hold.ended().await.unwrap();
    assert!(ended.timed_out && read > 1 << 20, "{read} {ended:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_program_leads_a_session_or_shares_the_launchers() {
    let host = Host::new();
    for (group, leads) in [(ProcessGroup::OwnSession, true), (ProcessGroup::Inherited, false)] {
        let mut request = request(Policy::Command, &["/bin/sh", "-c", "cat /proc/$$/stat"]);
        request.group = group;
        let run = run(&request, &command(&host)).await;
        let stat: Vec<&str> = run.stdout.split(' ').collect();
        assert_eq!(stat[0] == stat[5], leads, "{run:?}");
    }
}

#[tokio::test]
async fn the_standard_streams_end_with_the_program_and_not_with_the_keeper() {
    let host = Host::new();
    let script = "echo out; exec 1>&- 2>&-; exec sleep 1000";
    let confined =
        start(&request(Policy::Command, &["/bin/sh", "-c", script]), &command(&host)).await.unwrap();
    let Confined { mut child, hold, .. } = confined;
    let mut text = String::new();
    let mut stdout = child.stdout.take().unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut stdout, &mut text).await.unwrap();
    assert_eq!(text, "out\n");
    drop(hold);
    assert_eq!(child.wait().await.unwrap().signal(), Some(9));
}

#[tokio::test]
async fn signals_that_the_launching_side_ignores_change_nothing() {
    let host = Host::new();
    let path = host.path("launch");
    let launch = env!("CARGO_BIN_EXE_sandbox-launch");
    std::fs::write(&path, format!("#!/bin/sh\ntrap '' CHLD HUP TERM USR1\nexec {launch} \"$@\"\n")).unwrap();
    crate::program::make_program(&path);
    for (words, how) in [(["die-by", "15"], Exit::Signal(15)), (["exit", "3"], Exit::Code(3))] {
        let streams = Streams { stdin: Stdio::null(), stdout: Stdio::piped(), stderr: Stdio::piped() };
        let request = request(Policy::Command, &[&[PROBE][..], &words].concat());
        let confined = Launcher::at(&path).start_confined(&request, &command(&host), streams).await.unwrap();
        assert_eq!(finish(confined).await.ended.how, how);
    }
}

#[tokio::test]
async fn a_hundred_launches_at_a_time_do_not_get_in_each_others_way() {
    let host = Host::new();
    let request = request(Policy::Command, &["/bin/sh", "-c", "echo $$"]);
    let confined = command(&host);
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(start(&request, &confined).await.unwrap());
    }
    for one in all {
        let run = finish(one).await;
        assert_eq!(run.ended.how, Exit::Code(0));
        // In a process namespace of its own the program always is the second.
        assert!(run.stdout == "2\n" || cfg!(not(target_os = "linux")), "{run:?}");
    }
}
