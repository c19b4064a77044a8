//! Making an attempt inside and outside, and what is said about it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gatehouse_sandbox::launch::{
    Confined, Confinement, Ended, Exit, LaunchError, LaunchRequest, Launcher, Limits, Network, Policy,
    ProcessGroup, SCRATCH, Scratch, Streams,
};
use tokio::io::AsyncReadExt;

use crate::host::Host;

pub const PROBE: &str = env!("CARGO_BIN_EXE_sandbox-probe");

pub fn launcher() -> Launcher {
    Launcher::at(env!("CARGO_BIN_EXE_sandbox-launch"))
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It succeeded, with this.
    Ok(String),
    /// The system refused it, with this error.
    Errno(String),
    /// The probe was killed, by this signal.
    Signal(i32),
    /// Something else.
    Other(String),
}

impl Cause {
    fn of(said: &str, how: Exit) -> Self {
        let line = said.lines().last().unwrap_or("");
        match (line.split_once(' '), how) {
            (_, Exit::Signal(signal)) => Self::Signal(signal),
            (Some(("ok", got)), _) => Self::Ok(got.to_owned()),
            (Some(("errno", name)), _) => Self::Errno(name.to_owned()),
            _ => Self::Other(format!("{said} {how:?}")),
        }
    }

    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }
}

/// Words of a command line.
pub fn words<T: AsRef<str>>(list: &[T]) -> Vec<String> {
    list.iter().map(|word| word.as_ref().to_owned()).collect()
}

pub fn request<T: AsRef<str>>(policy: Policy, argv: &[T]) -> LaunchRequest {
    LaunchRequest {
        argv: argv.iter().map(|word| OsString::from(word.as_ref())).collect(),
        cwd: "/".into(),
        env: [("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), "/tmp/home".into())].into(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy,
    }
}

/// What a command gets: the host's secrets hidden, a scratch in memory, and our programs in view also where the build
/// folder lies below `/tmp`, which the scratch covers.
pub fn command(host: &Host) -> Confinement {
    Confinement {
        hidden: host.hidden(),
        readable: vec![PROBE.into(), env!("CARGO_BIN_EXE_sandbox-launch").into()],
        scratch: scratch(host),
        ..Confinement::default()
    }
}

/// Memory, where it can be had for a program alone.
#[cfg(target_os = "linux")]
fn scratch(_: &Host) -> Scratch {
    Scratch::Memory { bytes: 32 << 20 }
}

#[cfg(not(target_os = "linux"))]
fn scratch(host: &Host) -> Scratch {
    std::fs::create_dir_all(host.path("scratch")).unwrap();
    Scratch::Directory { path: host.path("scratch"), bytes: 32 << 20 }
}

/// Where a program finds its scratch.
pub fn scratch_inside(host: &Host) -> String {
    if cfg!(target_os = "linux") { SCRATCH.to_owned() } else { host.text("scratch") }
}

/// The two ports of Claude Code.
pub const PORTS: [u16; 2] = [4001, 4002];

/// What Claude Code gets, for another program in its place.
pub fn claude(program: &Path, host: &Host) -> Confinement {
    Confinement {
        programs: program_files(program),
        readable: vec![host.path("ws")],
        writable: vec![host.path("state")],
        network: Network::Listeners { ports: PORTS.to_vec() },
        ..Confinement::default()
    }
}

/// Everything that is loaded with a program.
#[cfg(target_os = "linux")]
pub fn program_files(program: &Path) -> Vec<PathBuf> {
    gatehouse_sandbox::launch::program_files(program).unwrap()
}

/// The rest of it is the system's.
#[cfg(not(target_os = "linux"))]
pub fn program_files(program: &Path) -> Vec<PathBuf> {
    vec![program.to_owned()]
}

/// A run from start to end.
#[derive(Debug)]
pub struct Run {
    pub stdout: String,
    pub stderr: String,
    pub ended: Ended,
    pub enforced_by: Vec<String>,
}

pub async fn start(request: &LaunchRequest, confinement: &Confinement) -> Result<Confined, LaunchError> {
    let streams = Streams { stdin: Stdio::null(), stdout: Stdio::piped(), stderr: Stdio::piped() };
    launcher().start_confined(request, confinement, streams).await
}

pub async fn finish(mut confined: Confined) -> Run {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut out, mut err) = (confined.child.stdout.take().unwrap(), confined.child.stderr.take().unwrap());
    let (_, _) = tokio::join!(out.read_to_end(&mut stdout), err.read_to_end(&mut stderr));
    let ended = confined.hold.ended().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run { stdout: text(&stdout), stderr: text(&stderr), ended, enforced_by: confined.enforced_by }
}

pub async fn run(request: &LaunchRequest, confinement: &Confinement) -> Run {
    finish(start(request, confinement).await.unwrap()).await
}

/// An attempt inside, under this policy.
pub async fn inside_of<T: AsRef<str>>(policy: Policy, confinement: &Confinement, attempt: &[T]) -> Cause {
    let argv = [vec![PROBE.to_owned()], words(attempt)].concat();
    let run = run(&request(policy, &argv), confinement).await;
    Cause::of(&run.stdout, run.ended.how)
}

/// An attempt inside, as a command.
pub async fn inside<T: AsRef<str>>(confinement: &Confinement, attempt: &[T]) -> Cause {
    inside_of(Policy::Command, confinement, attempt).await
}

/// The same attempt outside.
pub fn outside<T: AsRef<str>>(attempt: &[T]) -> Cause {
    let output =
        Command::new(PROBE).args(attempt.iter().map(AsRef::as_ref)).stdin(Stdio::null()).output().unwrap();
    let how = match std::os::unix::process::ExitStatusExt::signal(&output.status) {
        Some(signal) => Exit::Signal(signal),
        None => Exit::Code(output.status.code().unwrap_or(-1)),
    };
    Cause::of(&String::from_utf8_lossy(&output.stdout), how)
}

/// Whose control run proves that the attempt can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Anybody's.
    Anybody,
    /// Root's; an ordinary user may not do it outside either.
    #[cfg(target_os = "linux")]
    Root,
    /// Nobody's: the reason stands beside the probe.
    Nobody,
}

/// One attempt: refused inside with one of these errors, successful outside.
pub async fn refused<T: AsRef<str>>(
    confinement: &Confinement,
    attempt: &[T],
    errors: &[&str],
    control: Control,
) {
    let attempt = words(attempt);
    let cause = inside(confinement, &attempt).await;
    let Cause::Errno(name) = &cause else { panic!("{attempt:?}: {cause:?}, expected one of {errors:?}") };
    assert!(errors.contains(&name.as_str()), "{attempt:?}: {cause:?}, expected one of {errors:?}");
    let proves = match control {
        Control::Anybody => true,
        #[cfg(target_os = "linux")]
        Control::Root => is_root(),
        Control::Nobody => false,
    };
    if proves {
        let control = outside(&attempt);
        assert!(control.is_ok(), "control of {attempt:?}: {control:?}");
    }
}

#[cfg(target_os = "linux")]
pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Whether a test can run here. A machine that lacks the program passes over it and says so; where `CI_REQUIRE` names the
/// program, that is a failure.
pub fn can_run(name: &str, program: &Path) -> bool {
    let there = program.exists();
    let required = std::env::var("CI_REQUIRE").is_ok_and(|list| list.split(',').any(|one| one == name));
    assert!(there || !required, "{name} is required and not at {}", program.display());
    if !there {
        println!("NOT RUN: no {name} at {}", program.display());
    }
    there
}
