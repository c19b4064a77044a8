//! Starting a planned command, once, and watching it until every process of it is gone.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gatehouse_sandbox::launch::{Confined, Ended, Exit, Hold, Streams, Usage};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::{CommandFault, Commands, HiddenCount, Kept, KeptOutput, Plan};
use crate::cancel::Cancel;

/// How much a command may write over all. More is no output but a runaway, and ends it.
const MOST_OUTPUT: u64 = 64 * 1024 * 1024;

/// How long the pipes may stay open after everything that could hold them is gone.
const PIPES_CLOSE: Duration = Duration::from_secs(2);

/// What can be seen of a running command.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// How many bytes it has written so far.
    #[must_use]
    pub fn output_bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) -> u64 {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64
    }
}

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedBy {
    /// Itself.
    Itself,
    /// Its time limit.
    TimeLimit,
    /// It wrote more than may be.
    OutputLimit,
    /// Its scratch was full.
    ScratchFull,
    /// The session stops.
    Cancel,
}

/// A command that has ended; nothing of it runs any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How its first process ended.
    pub exit: Exit,
    /// What ended it.
    pub stopped_by: StoppedBy,
    /// How long it took, from its start until everything was gone.
    pub took: Duration,
    /// What it used up.
    pub usage: Usage,
    /// What it wrote.
    pub stdout: KeptOutput,
    /// What it wrote to standard error.
    pub stderr: KeptOutput,
    /// The layers that confined it.
    pub enforced_by: Vec<String>,
    /// What of the session's root was hidden from it.
    pub hidden: HiddenCount,
}

impl Commands {
    /// Runs a planned command. On Linux it dies with the thread this is called on, so that has to be one that lives as
    /// long as the executor.
    ///
    /// # Errors
    /// When nothing was started.
    pub async fn run(
        &self,
        plan: Plan,
        cancel: &Cancel,
        progress: &Progress,
    ) -> Result<Finished, CommandFault> {
        let launcher = self.launcher.as_ref().map_err(|why| CommandFault::Sandbox(why.clone()))?;
        if cancel.is_cancelled() {
            return Err(CommandFault::Cancelled);
        }
        let Plan { request, confinement, stdin, hidden } = plan;
        let input = if stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let streams = Streams { stdin: input, stdout: Stdio::piped(), stderr: Stdio::piped() };
        let confined = launcher.start_confined(&request, &confinement, streams).await.map_err(|error| {
            tracing::warn!(%error, "a command was not started");
            let program = request.argv.first().map(|name| name.to_string_lossy().into_owned());
            CommandFault::of_launch(&error, &program.unwrap_or_default())
        })?;
        Ok(watch(confined, stdin, hidden, cancel, progress).await)
    }
}

async fn watch(
    confined: Confined,
    stdin: Option<String>,
    hidden: HiddenCount,
    cancel: &Cancel,
    progress: &Progress,
) -> Finished {
    let begun = Instant::now();
    let Confined { mut child, enforced_by, mut hold, .. } = confined;
    let too_much = Arc::new(Notify::new());
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), stdin) {
        // A command need not read what it is given.
        tokio::spawn(async move { drop(pipe.write_all(text.as_bytes()).await) });
    }
    let stdout = Pump::start(child.stdout.take(), progress, &too_much);
    let stderr = Pump::start(child.stderr.take(), progress, &too_much);
    let (ended, stopped_by) = end(&mut hold, cancel, &too_much).await;
    let took = begun.elapsed();
    let (stdout, stderr) = tokio::join!(stdout.finish(), stderr.finish());
    // The keeper has said its last word; what is left of it is cleared away in the background.
    drop(child);
    Finished { exit: ended.how, stopped_by, took, usage: ended.usage, stdout, stderr, enforced_by, hidden }
}

/// Waits for the end, and brings it about where that is asked for.
async fn end(hold: &mut Hold, cancel: &Cancel, too_much: &Notify) -> (Ended, StoppedBy) {
    let stopped_by = tokio::select! {
        ended = hold.ended() => {
            let ended = ended.unwrap_or(TORN_DOWN);
            let by = match ended {
                Ended { timed_out: true, .. } => StoppedBy::TimeLimit,
                Ended { scratch_full: true, .. } => StoppedBy::ScratchFull,
                _ => StoppedBy::Itself,
            };
            return (ended, by);
        }
        () = cancel.cancelled() => StoppedBy::Cancel,
        () = too_much.notified() => StoppedBy::OutputLimit,
    };
    // If it has ended meanwhile there is nobody to kill, and the next line tells how.
    let _ = hold.kill().await;
    (hold.ended().await.unwrap_or(TORN_DOWN), stopped_by)
}

/// What is known when nobody is left to tell.
const TORN_DOWN: Ended = Ended {
    how: Exit::TornDown,
    timed_out: false,
    scratch_full: false,
    usage: Usage { peak_memory_bytes: 0, user_us: 0, system_us: 0 },
};

/// Keeps reading a pipe, so that the command never waits for a reader.
struct Pump {
    kept: Arc<std::sync::Mutex<Kept>>,
    task: tokio::task::JoinHandle<()>,
}

impl Pump {
    fn start(
        pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
        progress: &Progress,
        too_much: &Arc<Notify>,
    ) -> Self {
        let kept = Arc::new(std::sync::Mutex::new(Kept::default()));
        let (into, progress, too_much) = (kept.clone(), progress.clone(), too_much.clone());
        let task = tokio::spawn(async move {
            let Some(mut pipe) = pipe else { return };
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(read) = pipe.read(&mut buffer).await {
                if read == 0 {
                    return;
                }
                into.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(&buffer[..read]);
                if progress.add(read) > MOST_OUTPUT {
                    too_much.notify_one();
                }
            }
        });
        Self { kept, task }
    }

    async fn finish(mut self) -> KeptOutput {
        if tokio::time::timeout(PIPES_CLOSE, &mut self.task).await.is_err() {
            self.task.abort();
        }
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)).finish()
    }
}
