//! Attempts that take more than one call: something is prepared on the host, happens while the program runs, or comes with
//! the launcher.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gatehouse_sandbox::launch::{
    Confinement, Exit, LaunchError, Launcher, Layer, Policy, Remedy, Scratch, Streams,
};
use gatehouse_sandbox::policy::{Os, ProtectedList, ProtectedPaths, SurveyBounds};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::host::{Host, SECRET};
use crate::probe::Control::{Anybody, Nobody, Root};
use crate::probe::{
    Cause, PORTS, PROBE, can_run, claude, command, finish, inside, is_root, outside, refused, request, run,
    start, text,
};

fn streams(stdin: Stdio) -> Streams {
    Streams { stdin, stdout: Stdio::piped(), stderr: Stdio::piped() }
}

/// A launcher that is started by `line` of a shell, as `sandbox-launch "$@"`.
fn launcher_by(host: &Host, line: &str) -> Launcher {
    let path = host.path("launch");
    std::fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
    crate::program::make_program(&path);
    Launcher::at(path)
}

const LAUNCH: &str = env!("CARGO_BIN_EXE_sandbox-launch");

#[tokio::test]
async fn nothing_in_a_hidden_directory_is_executed() {
    let host = Host::new();
    let program = host.text("home/.ssh/program");
    std::fs::copy(PROBE, &program).unwrap();
    refused(&command(&host), &["run", &program, "identity"], &["EACCES"], Anybody).await;
}

#[tokio::test]
async fn what_the_survey_finds_is_hidden() {
    let host = Host::new();
    let files = ["home/dot/keys/key", "ws/.env", "ws/.env.example"];
    files.iter().for_each(|file| std::fs::write(host.path(file), SECRET).unwrap());
    std::os::unix::fs::symlink("../dot/keys", host.path("home/.ssh/keys")).unwrap();
    std::fs::hard_link(host.path("home/.ssh/id_rsa"), host.path("ws/innocent")).unwrap();
    let list = ProtectedList::built_in(Os::Linux).unwrap();
    let survey = ProtectedPaths::new(list, &[host.home()]).survey(&host.path("ws"), SurveyBounds::default());
    assert_eq!(survey.linked_files, 1);
    let mut confined = command(&host);
    confined.hidden = survey.hidden;
    for file in ["home/.ssh/keys/key", "home/dot/keys/key", "ws/innocent", "ws/.env", "home/.ssh/id_rsa"] {
        refused(&confined, &["read", &host.text(file)], &["EACCES"], Anybody).await;
    }
    assert_eq!(inside(&confined, &["read", &host.text("ws/.env.example")]).await, Cause::Ok(SECRET.into()));
}

/// Masks are put where something is. What is made later shows to programs that run already, and to no other.
#[tokio::test]
async fn a_secret_that_comes_into_being_is_hidden_from_the_next_launch_on() {
    let host = Host::new();
    let mut confined = command(&host);
    confined.hidden.push(host.path("home/.gnupg"));
    let secret = host.text("home/.gnupg/key");
    let script = format!("echo ready; read line; {PROBE} read {secret}");
    let request = request(Policy::Command, &["/bin/sh", "-c", &script]);
    let mut early =
        crate::probe::launcher().start_confined(&request, &confined, streams(Stdio::piped())).await.unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(early.child.stdout.as_mut().unwrap());
    stdout.read_line(&mut line).await.unwrap();
    std::fs::create_dir(host.path("home/.gnupg")).unwrap();
    std::fs::write(&secret, SECRET).unwrap();
    early.child.stdin.take().unwrap().write_all(b"\n").await.unwrap();
    line.clear();
    stdout.read_line(&mut line).await.unwrap();
    assert_eq!(line, format!("ok {SECRET}\n"), "known: a mask covers what exists");
    assert_eq!(early.hold.ended().await.unwrap().how, Exit::Code(0));
    refused(&confined, &["read", &secret], &["EACCES"], Anybody).await;
}

#[tokio::test]
async fn a_hidden_place_inside_a_writable_one_stays_where_it_is() {
    let host = Host::new();
    std::fs::create_dir_all(host.path("trees/deep")).unwrap();
    std::fs::write(host.path("trees/deep/secret"), SECRET).unwrap();
    let mut confined = command(&host);
    confined.writable = vec![host.path("trees")];
    confined.hidden.push(host.path("trees/deep/secret"));
    let trees = host.text("trees");
    for (attempt, errors) in [
        (vec!["rename".to_owned(), format!("{trees}/deep/secret"), format!("{trees}/x")], ["EBUSY", "EXDEV"]),
        (vec!["unlink".to_owned(), format!("{trees}/deep/secret")], ["EBUSY", "EXDEV"]),
        (
            vec!["hard-link".to_owned(), format!("{trees}/deep/secret"), format!("{trees}/x")],
            ["EXDEV", "EACCES"],
        ),
        (vec!["write".to_owned(), format!("{trees}/deep/secret")], ["EROFS", "EACCES"]),
    ] {
        refused(&confined, &attempt, &errors, Nobody).await;
    }
    // The directory around it may be moved: the mask goes along.
    let script = format!("mv {trees}/deep {trees}/moved; {PROBE} read {trees}/moved/secret");
    let moved = run(&request(Policy::Command, &["/bin/sh", "-c", &script]), &confined).await;
    assert_eq!(moved.stdout, "errno EACCES\n", "{moved:?}");
    assert_eq!(std::fs::read_to_string(host.path("trees/moved/secret")).unwrap(), SECRET);
}

#[tokio::test]
async fn programs_that_lend_privilege_lend_none() {
    if !is_root() {
        // Only root can make a program that lends root's privilege; it then runs it as somebody else, here as well.
        return;
    }
    let host = Host::new();
    let program = host.path("ws/program");
    std::fs::copy(PROBE, &program).unwrap();
    crate::program::make_program(&program);
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    for dir in ["", "ws", "home", "home/.ssh", "state"] {
        std::fs::set_permissions(host.path(dir), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let other = "setpriv --reuid 1000 --regid 1000 --clear-groups";
    let line = format!("{other} {} identity", program.display());
    let control = Command::new("/bin/sh").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&control.stdout), "ok 1000 0\n", "{control:?}");
    let launcher = launcher_by(&host, &format!("exec {other} {LAUNCH} \"$@\""));
    let request = request(Policy::Command, &[text(&program).as_str(), "identity"]);
    let confined = launcher.start_confined(&request, &command(&host), streams(Stdio::null())).await.unwrap();
    assert_eq!(finish(confined).await.stdout, "ok 1000 1000\n");
}

#[tokio::test]
async fn control_groups_are_not_changed() {
    let host = Host::new();
    let mut tried = 0;
    for entry in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        let below = entry.path().join("cgroup.procs");
        for file in [entry.path(), below] {
            if file.file_name().is_some_and(|name| name == "cgroup.procs") && file.exists() {
                let attempt = ["open-to-write", &text(&file)];
                let control = if outside(&attempt).is_ok() { Root } else { Nobody };
                refused(&command(&host), &attempt, &["EROFS", "EACCES", "ENOENT"], control).await;
                tried += 1;
            }
        }
    }
    // A machine without any has nothing to change.
    assert!(tried > 0 || !Path::new("/sys/fs/cgroup").join("cgroup.controllers").exists());
}

#[tokio::test]
async fn two_sessions_with_the_same_ports_do_not_meet() {
    let host = Host::new();
    let confined = claude(PROBE.as_ref(), &host);
    let connect = [PROBE, "connect-tcp", &format!("127.0.0.1:{}", PORTS[0])];
    let waiting = start(&request(Policy::Claude, &[PROBE, "wait-forever"]), &confined).await.unwrap();
    let active = start(&request(Policy::Claude, &connect), &confined).await.unwrap();
    let [others, own] = [&waiting.listeners[0], &active.listeners[0]].map(|one| one.try_clone().unwrap());
    let accepted = tokio::task::spawn_blocking(move || own.accept().map(drop));
    assert_eq!(finish(active).await.stdout, "ok \n");
    accepted.await.unwrap().unwrap();
    others.set_nonblocking(true).unwrap();
    assert_eq!(others.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn nothing_is_typed_into_an_inherited_terminal() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let host = Host::new();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap();
    let terminal = std::fs::OpenOptions::new().read(true).write(true).open(path.to_str().unwrap()).unwrap();
    let stdin = || Stdio::from(terminal.try_clone().unwrap());
    let request = request(Policy::Command, &[PROBE, "type-into", "0"]);
    let confined =
        crate::probe::launcher().start_confined(&request, &command(&host), streams(stdin())).await.unwrap();
    assert_eq!(finish(confined).await.stdout, "errno EPERM\n");
    if is_root() {
        // Others may do it in a terminal of their own only, or not at all, as the kernel is set.
        let control = Command::new(PROBE).args(["type-into", "0"]).stdin(stdin()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&control.stdout), "ok 0\n");
    }
}

/// What of System V's kind a test has made; removed in the end.
struct Made {
    semaphores: i32,
    queue: i32,
}

#[allow(unsafe_code, reason = "there is no safe form of these calls")]
impl Made {
    fn new(key: i32) -> Self {
        use nix::libc::{IPC_CREAT, msgget, semget};
        // SAFETY: integers only.
        let (semaphores, queue) =
            unsafe { (semget(key, 1, IPC_CREAT | 0o600), msgget(key, IPC_CREAT | 0o600)) };
        assert!(semaphores >= 0 && queue >= 0);
        Self { semaphores, queue }
    }
}

#[allow(unsafe_code, reason = "there is no safe form of these calls")]
impl Drop for Made {
    fn drop(&mut self) {
        use nix::libc::{IPC_RMID, msgctl, semctl};
        // SAFETY: integers, and a null pointer that IPC_RMID does not use.
        unsafe {
            semctl(self.semaphores, 0, IPC_RMID);
            msgctl(self.queue, IPC_RMID, std::ptr::null_mut());
        }
    }
}

#[tokio::test]
async fn semaphores_and_queues_of_the_host_are_not_there() {
    let host = Host::new();
    let key = i32::try_from(std::process::id()).unwrap() + 0x4800_0000;
    let made = Made::new(key);
    for attempt in ["semaphores", "message-queue"] {
        refused(&command(&host), &[attempt, &key.to_string()], &["ENOENT"], Anybody).await;
    }
    drop(made);
}

#[tokio::test]
async fn the_scratch_of_another_session_is_out_of_reach() {
    let host = Host::new();
    let [own, other] = ["state/scratch/own", "state/scratch/other"].map(|name| host.path(name));
    for dir in [&own, &other] {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join("file"), SECRET).unwrap();
    }
    let mut confined = command(&host);
    confined.scratch = Scratch::Directory { path: own.clone(), bytes: 1 << 20 };
    assert_eq!(inside(&confined, &["read", "/tmp/file"]).await, Cause::Ok(SECRET.into()));
    let (file, new) = (text(&other.join("file")), text(&other.join("new")));
    for attempt in [["read", &*file], ["write", &*file], ["create", &*new]] {
        refused(&confined, &attempt, &["EACCES"], Anybody).await;
    }
    // What is named inside of the scratch itself is hidden there as well.
    std::fs::write(own.join("named"), SECRET).unwrap();
    confined.hidden.push(own.join("named"));
    refused(&confined, &["read", "/tmp/named"], &["EACCES"], Nobody).await;
    // Also where the state were not hidden: nothing leads out of the scratch.
    confined.hidden.clear();
    refused(&confined, &["write", &file], &["EROFS"], Anybody).await;
    refused(&confined, &["read", "/tmp/../tmp/../other/file"], &["ENOENT"], Nobody).await;
}

#[tokio::test]
async fn a_scratch_that_is_replaced_while_it_is_used_leads_nowhere() {
    let host = Host::new();
    let (scratch, aside) = (host.path("scratch"), host.path("aside"));
    std::fs::create_dir(&scratch).unwrap();
    let mut confined = command(&host);
    confined.scratch = Scratch::Directory { path: scratch.clone(), bytes: 1 << 20 };
    let script = "echo ready; read line; echo mine > /tmp/after; rm -rf /tmp/home; mv /tmp /var/tmp/x";
    let request = request(Policy::Command, &["/bin/sh", "-c", script]);
    let mut confined =
        crate::probe::launcher().start_confined(&request, &confined, streams(Stdio::piped())).await.unwrap();
    let mut line = String::new();
    BufReader::new(confined.child.stdout.as_mut().unwrap()).read_line(&mut line).await.unwrap();
    std::fs::rename(&scratch, &aside).unwrap();
    std::os::unix::fs::symlink(host.home(), &scratch).unwrap();
    confined.child.stdin.take().unwrap().write_all(b"\n").await.unwrap();
    let run = finish(confined).await;
    assert!(matches!(run.ended.how, Exit::Code(code) if code != 0), "nobody moves a mount: {run:?}");
    assert_eq!(std::fs::read_to_string(aside.join("after")).unwrap(), "mine\n");
    assert!(!host.path("home/after").exists() && host.path("home/file").exists());
}

/// Nothing runs where this launcher cannot have a layer; gives the layer and what can be done.
async fn missing(launcher: &Launcher, host: &Host) -> (Layer, Option<Remedy>) {
    let marker = host.text("state/marker");
    let confined = Confinement { writable: vec![host.path("state")], ..Confinement::default() };
    let touch = request(Policy::Command, &["/usr/bin/touch", &marker]);
    let failed = launcher.start_confined(&touch, &confined, streams(Stdio::null())).await;
    assert!(!Path::new(&marker).exists());
    match failed {
        Err(LaunchError::Layer(failure)) => (failure.layer, failure.remedy),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_host_without_user_namespaces_runs_nothing() {
    let host = Host::new();
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces";
    let line = format!("exec unshare -Ur sh -c '{forbid} && exec {LAUNCH} \"$@\"' sh \"$@\"");
    let missing = missing(&launcher_by(&host, &line), &host).await;
    assert_eq!(missing, (Layer::Userns, Some(Remedy::MaxUserNamespaces)));
}

#[tokio::test]
async fn a_kernel_without_landlock_runs_nothing() {
    let host = Host::new();
    let line = format!("exec {PROBE} without-landlock {LAUNCH} \"$@\"");
    let missing = missing(&launcher_by(&host, &line), &host).await;
    assert_eq!(missing, (Layer::Landlock, Some(Remedy::LandlockMissing)));
}

#[tokio::test]
async fn bubblewrap_does_not_work_inside() {
    let program = PathBuf::from("/usr/bin/bwrap");
    if !can_run("bwrap", &program) {
        return;
    }
    let host = Host::new();
    let words = ["/usr/bin/bwrap", "--ro-bind", "/", "/", "/bin/true"];
    let run = run(&request(Policy::Command, &words), &command(&host)).await;
    assert_eq!(run.ended.how, Exit::Code(1), "{run:?}");
    assert!(run.stderr.contains("namespace"), "{run:?}");
    assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success());
}
