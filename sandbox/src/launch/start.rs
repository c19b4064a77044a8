//! The launching side.

use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::confinement::Confinement;
use super::layer::LayerFailure;
use super::status::{self, Failed, Failure, Stage};
use super::{LaunchRequest, Order, raw};

/// Where `sandbox-launch` is.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
}

/// The three standard descriptors of the program.
#[derive(Debug)]
pub struct Streams {
    /// Standard input.
    pub stdin: Stdio,
    /// Standard output.
    pub stdout: Stdio,
    /// Standard error.
    pub stderr: Stdio,
}

/// A program that runs, with every step of its set-up done.
#[derive(Debug)]
pub struct Launched {
    /// The program. Killed when this is dropped.
    pub child: Child,
    /// The layers of the sandbox that are in force for it.
    pub enforced_by: Vec<String>,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// `sandbox-launch` itself cannot be started.
    #[error("the launcher {} cannot be started", path.display())]
    Launcher {
        /// Where it was looked for.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A pipe to it failed.
    #[error("the launcher cannot be talked to")]
    Pipe(#[source] io::Error),
    /// A step failed; the program was not started.
    #[error("launch step {stage} failed: {}", io::Error::from_raw_os_error(*errno))]
    Step {
        /// The step.
        stage: Stage,
        /// The system's error number; 0 where there is none.
        errno: i32,
    },
    /// A layer of the sandbox cannot be had; the program was not started.
    #[error(transparent)]
    Layer(#[from] LayerFailure),
    /// There is no sandbox for this system.
    #[error("this system has no sandbox that Gatehouse can use")]
    Unsupported,
    /// The launcher ended without saying why (it was killed).
    #[error("the launcher ended without a word")]
    Silent,
}

impl Launcher {
    /// The launcher at this path.
    #[must_use]
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// Where it is.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The launcher that was installed beside the running executable.
    ///
    /// # Errors
    /// When the system does not tell where that is.
    pub fn beside_own_executable() -> io::Result<Self> {
        let own = std::env::current_exe()?;
        Ok(Self::at(own.parent().unwrap_or_else(|| Path::new("/")).join("sandbox-launch")))
    }

    /// Starts a program that is set apart but not confined, and returns once it runs.
    ///
    /// On Linux the program dies with the *thread* that calls this: call it on one that lives as long as the program
    /// may (the main thread, a runtime's worker; not a blocking-pool thread).
    ///
    /// # Errors
    /// When any step fails; nothing runs then.
    pub async fn start(&self, request: &LaunchRequest, streams: Streams) -> Result<Launched, LaunchError> {
        let (child, enforced_by) = self.carry_out(request, None, streams, None).await?;
        Ok(Launched { child, enforced_by })
    }

    /// Hands over the order, and reads how far the launcher came. `control` is its end of a socket of its own.
    pub(super) async fn carry_out(
        &self,
        launch: &LaunchRequest,
        confinement: Option<&Confinement>,
        streams: Streams,
        control: Option<OwnedFd>,
    ) -> Result<(Child, Vec<String>), LaunchError> {
        let order =
            Order { launch: launch.clone(), parent: std::process::id(), confinement: confinement.cloned() };
        let text = serde_json::to_vec(&order).map_err(|error| LaunchError::Pipe(error.into()))?;
        let (mut child, request_end, status_end) = self.spawn(streams, control)?;
        // The launcher reads all of the order before it says anything, so these two cannot block each other. A
        // request pipe that breaks means that it died or refused; the status pipe tells which.
        let _ = send(request_end, &text).await;
        let said = receive(status_end).await.map_err(LaunchError::Pipe)?;
        match status::outcome(&said) {
            Ok(enforced_by) => Ok((child, enforced_by)),
            Err(failed) => {
                // It ends by itself; the kill only makes sure that this wait does.
                let _ = child.kill().await;
                Err(match failed {
                    None => LaunchError::Silent,
                    Some(Failed::Step(Failure { stage, errno })) => LaunchError::Step { stage, errno },
                    Some(Failed::Layer(failure)) => LaunchError::Layer(failure),
                })
            }
        }
    }

    fn spawn(
        &self,
        streams: Streams,
        control: Option<OwnedFd>,
    ) -> Result<(Child, OwnedFd, PipeReader), LaunchError> {
        let (request_in, request_out) = io::pipe().map_err(LaunchError::Pipe)?;
        let (status_in, status_out) = io::pipe().map_err(LaunchError::Pipe)?;
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir("/").kill_on_drop(true);
        command.args([request_in.as_raw_fd().to_string(), status_out.as_raw_fd().to_string()]);
        command.args(control.as_ref().map(|fd| fd.as_raw_fd().to_string()));
        command.stdin(streams.stdin).stdout(streams.stdout).stderr(streams.stderr);
        let inherited = [request_in.into(), status_out.into()].into_iter().chain(control).collect();
        raw::inherit(&mut command, inherited);
        let child =
            command.spawn().map_err(|source| LaunchError::Launcher { path: self.program.clone(), source })?;
        // With the command our copies of the child's ends go, so that the status pipe can end.
        drop(command);
        Ok((child, request_out.into(), status_in))
    }
}

async fn send(end: OwnedFd, text: &[u8]) -> io::Result<()> {
    use tokio::io::AsyncWriteExt;
    pipe::Sender::from_owned_fd(end)?.write_all(text).await
}

async fn receive(end: PipeReader) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // Two short lines; the bound only keeps a broken launcher from filling memory.
    pipe::Receiver::from_owned_fd(end.into())?.take(64 * 1024).read_to_end(&mut text).await?;
    Ok(text)
}
