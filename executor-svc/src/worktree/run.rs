//! One git from its start to its end, whatever becomes of whoever asked.
//!
//! A git is a task of its own. Where its asker goes away it is killed, and the task ends when nothing of it is left, which can
//! be waited for ([`Runs::orphans_gone`]): until then it may write.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gatehouse_sandbox::launch::{Confined, Confinement, Exit, LaunchError, LaunchRequest, Launcher, Streams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How much of standard error is kept, in bytes, from its end.
const SAID: usize = 2048;
/// How many pieces of an answer wait for the asker; git waits with the next one.
const PIECES: usize = 4;

/// How a git ended.
#[derive(Debug)]
pub(super) struct Said {
    pub how: Exit,
    /// The end of what it wrote to standard error.
    pub stderr: String,
    /// Its time was up.
    pub timed_out: bool,
}

type Ran = Result<Said, LaunchError>;

/// Those whose askers have gone away before the end.
#[derive(Debug, Default)]
pub(super) struct Runs {
    orphans: Mutex<Vec<JoinHandle<Ran>>>,
}

/// What is run.
pub(super) struct Start {
    pub launcher: Launcher,
    pub request: LaunchRequest,
    pub confinement: Confinement,
    pub streams: Streams,
    pub stdin: Option<Vec<u8>>,
}

/// A git and its asker. Dropped before the end, it leaves an orphan.
pub(super) struct Run<'a> {
    runs: &'a Runs,
    task: Option<JoinHandle<Ran>>,
    answer: mpsc::Receiver<Vec<u8>>,
}

impl Runs {
    pub(super) fn start(&self, start: Start) -> Run<'_> {
        let (pieces, answer) = mpsc::channel(PIECES);
        Run { runs: self, task: Some(tokio::spawn(run(start, pieces))), answer }
    }

    /// Waits until nothing is left of any git whose asker has gone.
    pub(super) async fn orphans_gone(&self) {
        loop {
            let Some(orphan) = self.orphans().pop() else { return };
            // However it ended.
            let _ = orphan.await;
        }
    }

    fn orphans(&self) -> MutexGuard<'_, Vec<JoinHandle<Ran>>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run<'_> {
    /// The next piece of the answer; `None` when git has ended.
    pub(super) async fn piece(&mut self) -> Option<Vec<u8>> {
        self.answer.recv().await
    }

    /// Waits for its end. What of the answer was not taken is not waited for: git is killed.
    pub(super) async fn ended(mut self) -> Ran {
        self.answer.close();
        let ran = match &mut self.task {
            Some(task) => task.await.map_err(io::Error::other),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        // Only now: who goes away while he waits leaves an orphan as well.
        self.task = None;
        ran.unwrap_or_else(|error| Err(LaunchError::Pipe(error)))
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            let mut orphans = self.runs.orphans();
            orphans.retain(|orphan| !orphan.is_finished());
            orphans.push(task);
        }
    }
}

/// Reads all that comes until everything has ended, or nobody is there any more.
async fn run(start: Start, pieces: mpsc::Sender<Vec<u8>>) -> Ran {
    let Start { launcher, request, confinement, streams, stdin } = start;
    let Confined { mut child, mut hold, .. } =
        launcher.start_confined(&request, &confinement, streams).await?;
    let (input, output, error) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let (Some(mut pipe), Some(bytes)) = (input, stdin) {
            // Git need not read all of it; whether it was content is told by its end.
            let _ = pipe.write_all(&bytes).await;
        }
    };
    let read = async {
        let Some(mut pipe) = output else { return };
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            if pieces.send(buffer[..read].to_vec()).await.is_err() {
                return;
            }
        }
    };
    let said = async { tokio::join!(feed, read, last_words(error)).2 };
    let stderr = tokio::select! {
        stderr = said => stderr,
        () = pieces.closed() => String::new(),
    };
    // Git may have closed its streams and work on.
    let by_itself = tokio::select! {
        ended = hold.ended() => Some(ended),
        () = pieces.closed() => None,
    };
    let ended = if let Some(ended) = by_itself {
        ended
    } else {
        // Fails when everything has ended already.
        let _ = hold.kill().await;
        hold.ended().await
    };
    // The keeper has said its last word; this only clears it away.
    let _ = child.kill().await;
    let how = ended.as_ref().map_or(Exit::TornDown, |ended| ended.how);
    Ok(Said { how, stderr, timed_out: ended.is_ok_and(|ended| ended.timed_out) })
}

/// The end of what was written to standard error.
async fn last_words(pipe: Option<tokio::process::ChildStderr>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 4096]);
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..read]);
        let over = kept.len().saturating_sub(SAID);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}
