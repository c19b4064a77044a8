//! One supervised process: how it is started, and how long to wait before it is started again.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// The pause before the first restart; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A process that ran this long is healthy: the next pause is the first one again.
const HEALTHY: Duration = Duration::from_secs(60);

/// What to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// How it is called in messages.
    pub name: &'static str,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Environment variables on top of ours.
    pub environment: Vec<(OsString, OsString)>,
}

/// Where the log lines of a process go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logs {
    /// To our own standard error.
    Shown,
    /// To the end of a file.
    File(PathBuf),
}

impl Logs {
    fn stdio(&self) -> io::Result<Stdio> {
        match self {
            Self::Shown => Ok(Stdio::inherit()),
            Self::File(path) => Ok(std::fs::File::options().create(true).append(true).open(path)?.into()),
        }
    }
}

/// A program and its process, if one is running.
#[derive(Debug)]
pub(super) struct Supervised {
    pub(super) program: Program,
    logs: Logs,
    process: Option<Child>,
    started: Instant,
    pause: Duration,
}

impl Supervised {
    pub(super) fn new(program: Program, logs: Logs) -> Self {
        Self { program, logs, process: None, started: Instant::now(), pause: FIRST_PAUSE }
    }

    /// Starts the process, in a group of its own: Ctrl-C at the terminal is for the supervisor alone, which then ends
    /// the others in order.
    pub(super) fn start(&mut self) -> io::Result<()> {
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.arguments).envs(self.program.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.logs.stdio()?);
        self.process = Some(command.process_group(0).kill_on_drop(true).spawn()?);
        self.started = Instant::now();
        Ok(())
    }

    /// Returns when the process has ended; never, while none is running.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        match &mut self.process {
            Some(process) => {
                let status = process.wait().await;
                self.process = None;
                status
            }
            None => std::future::pending().await,
        }
    }

    /// How long to wait before the next start; longer each time, unless it ran well for a while.
    pub(super) fn next_pause(&mut self) -> Duration {
        if self.started.elapsed() >= HEALTHY {
            self.pause = FIRST_PAUSE;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }

    /// The process id while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Child::id)
    }

    /// Waits for the process to end by itself for `patience`, then asks with SIGTERM, then kills.
    pub(super) async fn end(&mut self, patience: Duration) {
        if tokio::time::timeout(patience, self.ended_if_running()).await.is_ok() {
            return;
        }
        if let Some(pid) = self.id().and_then(|id| i32::try_from(id).ok()) {
            // The child is not reaped yet, so the number is still its own.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if tokio::time::timeout(Duration::from_secs(5), self.ended_if_running()).await.is_ok() {
            return;
        }
        if let Some(mut process) = self.process.take() {
            let _ = process.kill().await;
        }
    }

    async fn ended_if_running(&mut self) {
        if self.process.is_some() {
            let _ = self.ended().await;
        }
    }
}

/// How a process ended, in words.
pub(super) fn in_words(status: io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => match Signal::try_from(signal) {
                Ok(signal) => signal.as_str().to_owned(),
                Err(_) => format!("signal {signal}"),
            },
            (None, None) => "unknown reason".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Supervised {
        let arguments = vec!["-c".into(), script.into()];
        Supervised::new(
            Program { name: "sh", path: "/bin/sh".into(), arguments, environment: Vec::new() },
            Logs::Shown,
        )
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut child = shell("true");
        let pauses: Vec<_> = (0..10).map(|_| child.next_pause()).collect();
        assert_eq!(pauses[0], FIRST_PAUSE);
        assert_eq!(pauses[1], FIRST_PAUSE * 2);
        assert_eq!(pauses[9], LONGEST_PAUSE);
    }

    #[tokio::test]
    async fn the_end_is_told_in_words() {
        let mut child = shell("exit 3");
        child.start().unwrap();
        assert_eq!(in_words(child.ended().await), "exit code 3");
        let mut child = shell("kill -9 $$");
        child.start().unwrap();
        assert_eq!(in_words(child.ended().await), "SIGKILL");
    }

    #[tokio::test]
    async fn a_process_that_does_not_go_by_itself_is_asked() {
        let mut child = shell("exec sleep 600");
        child.start().unwrap();
        let before = Instant::now();
        child.end(Duration::from_millis(10)).await;
        assert!(child.id().is_none() && before.elapsed() < Duration::from_secs(5));
    }
}
