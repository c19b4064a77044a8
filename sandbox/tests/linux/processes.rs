//! Other processes, privileges, and what is inherited.

use gatehouse_sandbox::launch::{Exit, Policy};
use nix::libc;

use crate::host::{Host, SECRET};
use crate::probe::Control::{Anybody, Nobody};
use crate::probe::{Cause, PROBE, command, inside, is_root, outside, refused, request, run};

#[tokio::test]
async fn no_process_outside_is_there() {
    let host = Host::new();
    let confined = command(&host);
    let (victim, own) = (host.victim(), std::process::id().to_string());
    for attempt in [["kill", &*victim, "0"], ["kill", &own, "19"], ["pidfd", &victim, ""]] {
        // Stopping ourselves is no control to run.
        let control = if attempt[2] == "19" { Nobody } else { Anybody };
        refused(&confined, &attempt, &["ESRCH"], control).await;
    }
    refused(&confined, &["kill", "-1", "0"], &["ESRCH", "EPERM"], Nobody).await;
    for attempt in [["trace", &*victim], ["trace", "1"]] {
        let control = if attempt[1] == "1" { Nobody } else { Anybody };
        refused(&confined, &attempt, &["EPERM"], control).await;
    }
    let environment = format!("/proc/{victim}/environ");
    assert!(matches!(outside(&["read", &environment]), Cause::Ok(text) if text.contains(SECRET)));
    refused(&confined, &["read", &environment], &["ENOENT"], Anybody).await;
    refused(&confined, &["stat", &format!("/proc/{victim}/mem")], &["ENOENT"], Anybody).await;
}

#[tokio::test]
async fn the_first_process_inside_is_neither_signalled_nor_read() {
    let host = Host::new();
    let confined = command(&host);
    // Landlock's scope where the kernel has it; else the kernel ignores what the first process does not wait for.
    let cause = inside(&confined, &["kill", "1", "9"]).await;
    assert!(cause == Cause::Errno("EPERM".into()) || cause.is_ok(), "{cause:?}");
    for file in ["environ", "mem", "maps", "cwd/etc/passwd"] {
        refused(&confined, &["read", &format!("/proc/1/{file}")], &["EACCES"], Nobody).await;
    }
    match inside(&confined, &["read", "/proc/1/cmdline"]).await {
        Cause::Ok(text) => assert!(!text.contains(&std::process::id().to_string()), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn there_is_no_privilege_and_no_way_to_one() {
    let host = Host::new();
    let Cause::Ok(status) = inside(&command(&host), &["read", "/proc/self/status"]).await else { panic!() };
    let field =
        |name: &str| status.split_whitespace().skip_while(|word| *word != name).nth(1).unwrap().to_owned();
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()));
    if is_root() {
        // A set-user-id file of root's, run by root, gives nothing either; and one of an ordinary user's cannot be made.
        let request = request(
            Policy::Command,
            &["/bin/sh", "-c", "cp /bin/cat /tmp/c; chmod 4755 /tmp/c; /tmp/c /proc/self/status"],
        );
        let run = run(&request, &command(&host)).await;
        assert!(run.stdout.contains("CapEff:\t0000000000000000"), "{run:?}");
    }
}

#[tokio::test]
async fn nothing_is_inherited_but_what_was_given() {
    let host = Host::new();
    let Cause::Ok(environment) = inside(&command(&host), &["environment"]).await else { panic!() };
    assert_eq!(environment, "HOME=/tmp/home PATH=/usr/bin:/bin");
    // No terminal: the session is new.
    refused(&command(&host), &["read", "/dev/tty"], &["ENXIO"], Nobody).await;
}

#[tokio::test]
async fn arguments_arrive_byte_for_byte() {
    use std::os::unix::ffi::OsStringExt;
    let host = Host::new();
    let mut request =
        request(Policy::Command, &[PROBE, "arguments", "a b", "'\"$(x)`y`", "new\nline", "", "--", "*"]);
    request.argv.push(std::ffi::OsString::from_vec(vec![0xff, 0xfe]));
    let run = run(&request, &command(&host)).await;
    assert_eq!(run.stdout, "ok 612062/272224287829607960/6e65770a6c696e65//2d2d/2a/fffe\n");
}

#[tokio::test]
async fn shared_memory_of_the_host_is_not_there() {
    let host = Host::new();
    let key = i32::try_from(std::process::id()).unwrap() + 0x4700_0000;
    let segment = Segment::make(key);
    assert!(outside(&["shared-memory", &key.to_string()]).is_ok());
    refused(&command(&host), &["shared-memory", &key.to_string()], &["ENOENT"], Anybody).await;
    drop(segment);
    let file = tempfile::Builder::new().prefix("gatehouse-probe").tempfile_in("/dev/shm").unwrap();
    refused(&command(&host), &["stat", file.path().to_str().unwrap()], &["ENOENT"], Anybody).await;
}

/// A System V segment, removed in the end.
struct Segment(i64);

#[allow(unsafe_code, reason = "there is no safe form of these calls")]
impl Segment {
    fn make(key: i32) -> Self {
        // SAFETY: integers only.
        let id = unsafe { libc::syscall(libc::SYS_shmget, key, 4096, libc::IPC_CREAT | 0o600) };
        assert!(id >= 0);
        Self(id)
    }
}

#[allow(unsafe_code, reason = "there is no safe form of these calls")]
impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: integers, and a null pointer that IPC_RMID does not use.
        unsafe { libc::syscall(libc::SYS_shmctl, self.0, libc::IPC_RMID, 0) };
    }
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_for_an_ordinary_user() {
    if is_root() {
        // The kernel exempts root from the limit; the ordinary user's run of this suite proves it.
        return;
    }
    let host = Host::new();
    let mut request = request(Policy::Command, &[PROBE, "bomb", "1000"]);
    request.limits.processes = Some(40);
    let run = run(&request, &command(&host)).await;
    assert_eq!(run.ended.how, Exit::Code(0));
    let count: u32 = run.stdout.trim().strip_prefix("ok ").unwrap().parse().unwrap();
    assert!((20..40).contains(&count), "{count}");
}

#[tokio::test]
async fn a_program_in_the_scratch_runs_and_is_as_confined() {
    let host = Host::new();
    let secret = host.text("home/.ssh/id_rsa");
    for (attempt, error) in [
        (format!("read {secret}"), "EACCES"),
        (format!("connect-tcp 127.0.0.1:{}", host.tcp), "EPERM"),
        (format!("kill {} 0", host.victim()), "ESRCH"),
    ] {
        let script = format!("cp {PROBE} /tmp/p && exec /tmp/p {attempt}");
        let run = run(&request(Policy::Command, &["/bin/sh", "-c", &script]), &command(&host)).await;
        assert_eq!(run.stdout, format!("errno {error}\n"), "{run:?}");
    }
}
