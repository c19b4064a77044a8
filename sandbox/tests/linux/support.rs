//! What the probes share.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use gatehouse_sandbox::launch::{
    Confined, Confinement, Ended, Exit, LaunchError, LaunchRequest, Launcher, Limits, Policy, ProcessGroup, Scratch,
    Streams,
};
use tokio::io::AsyncReadExt;

pub fn launcher() -> Launcher {
    Launcher::at(env!("CARGO_BIN_EXE_sandbox-launch"))
}

pub fn request(policy: Policy, argv: &[&str]) -> LaunchRequest {
    LaunchRequest {
        argv: argv.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: [("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), "/tmp/home".into())].into(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy,
    }
}

pub fn memory() -> Confinement {
    Confinement { scratch: Scratch::Memory { bytes: 64 << 20 }, ..Confinement::default() }
}

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

pub async fn run(request: &LaunchRequest, confinement: &Confinement) -> Run {
    let mut confined = start(request, confinement).await.unwrap();
    let mut stdout = String::new();
    let mut stderr = String::new();
    let (mut out, mut err) = (confined.child.stdout.take().unwrap(), confined.child.stderr.take().unwrap());
    let (_, _) = tokio::join!(out.read_to_string(&mut stdout), err.read_to_string(&mut stderr));
    let ended = confined.hold.ended().await.unwrap();
    Run { stdout, stderr, ended, enforced_by: confined.enforced_by }
}
