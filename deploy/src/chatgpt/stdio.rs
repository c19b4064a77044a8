//! JSON-RPC over the standard input and output of a child, one message per line.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

use super::Tap;

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// A running `mcp-front stdio` and the calls that wait for its answers.
#[derive(Debug)]
pub struct Pipe {
    child: Child,
    input: tokio::sync::Mutex<Option<ChildStdin>>,
    waiting: Waiting,
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Value>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    /// Starts the child; its standard error goes where `command` says. It ends when the pipe is dropped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, tap: Option<Tap>) -> io::Result<Self> {
        use std::process::Stdio;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let missing = || io::Error::other("the child's pipe is missing");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let waiting = Waiting::default();
        tokio::spawn(dispatch(output, Arc::clone(&waiting), tap));
        Ok(Self { child, input: tokio::sync::Mutex::new(Some(input)), waiting })
    }

    /// The child's process id while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a request and waits for the answer with the same id.
    ///
    /// # Errors
    /// When the child is gone, or goes before it answers.
    pub async fn ask(&self, id: u64, message: &Value) -> io::Result<Value> {
        let (answer, answered) = oneshot::channel();
        lock(&self.waiting).insert(id, answer);
        self.tell(message).await?;
        answered
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the front ended without an answer"))
    }

    /// Sends a message that has no answer.
    ///
    /// # Errors
    /// When the child is gone.
    pub async fn tell(&self, message: &Value) -> io::Result<()> {
        self.write_line(&message.to_string()).await
    }

    /// Writes one raw line.
    ///
    /// # Errors
    /// When the child is gone.
    pub async fn write_line(&self, line: &str) -> io::Result<()> {
        let mut input = self.input.lock().await;
        let Some(input) = input.as_mut() else {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the pipe is closed"));
        };
        input.write_all(format!("{line}\n").as_bytes()).await?;
        input.flush().await
    }

    /// Closes the child's standard input and waits for its end.
    ///
    /// # Errors
    /// When the child cannot be waited for.
    pub async fn close(&mut self) -> io::Result<std::process::ExitStatus> {
        drop(self.input.lock().await.take());
        self.child.wait().await
    }
}

/// Hands each answer to the call that waits for it; all that still wait learn of the end by their dropped sender.
async fn dispatch(output: ChildStdout, waiting: Waiting, tap: Option<Tap>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(tap) = &tap {
            tap.see(line.as_bytes());
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let asked = message.get("id").and_then(Value::as_u64).and_then(|id| lock(&waiting).remove(&id));
        if let Some(asked) = asked {
            // A caller that went away does not want its answer any more.
            let _ = asked.send(message);
        }
    }
    lock(&waiting).clear();
}
