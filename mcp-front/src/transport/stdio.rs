//! One client on standard input and output: one message a line.
//!
//! Lines are read as strictly as HTTP's bodies, and refused in the same words. Requests are carried out side by side.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RoleServer, serve_directly_with_ct};
use rmcp::transport::Transport;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::jsonrpc::{self, INVALID_PARAMS, INVALID_REQUEST, Message, Rejection};
use super::library::Server;
use super::{MAX_MESSAGE_BYTES, Serving};
use crate::contact::Contact;

/// How many lines may wait to be written.
const LINES_AHEAD: usize = 64;
/// How long the last lines may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Serves the first surface of `serving` until `input` ends or `serving.closing` is cancelled. Answers that are due
/// then have a few seconds to be written.
///
/// # Errors
/// When the serving task fails.
pub async fn serve(
    input: impl AsyncBufRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    serving: &Serving,
) -> io::Result<()> {
    let Some(surface) = serving.surfaces.all().first() else { return Ok(()) };
    let server = Server::new(surface, serving);
    let (lines_out, to_write) = mpsc::channel(LINES_AHEAD);
    let writer = tokio::spawn(write_lines(output, to_write));
    let lines = Lines {
        input,
        unread: Vec::new(),
        output: Some(lines_out),
        writer,
        under_way: UnderWay::default(),
        contact: serving.contact.clone(),
        closing: serving.closing.clone(),
    };
    // No handshake is demanded: a client that was restarted, or that never sends one, is served all the same.
    let running = serve_directly_with_ct::<RoleServer, _, _, io::Error, _>(
        server,
        lines,
        None,
        CancellationToken::new(),
    );
    running.waiting().await.map(|_| ()).map_err(io::Error::other)
}

/// The ids of the requests that have no answer yet. An id that comes again meanwhile cannot be told apart.
#[derive(Debug, Clone, Default)]
struct UnderWay(Arc<Mutex<HashSet<String>>>);

impl UnderWay {
    fn begin(&self, id: &Value) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_string())
    }

    fn end(&self, id: &Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.to_string());
    }
}

/// The lines read and those to be written. The library may drop a reading half-way and begin a new one: nothing that
/// was read may be lost by that, and no line may be written in part.
struct Lines<R> {
    input: R,
    /// What of the current line has been read.
    unread: Vec<u8>,
    /// To the writer; gone once the output is closed.
    output: Option<mpsc::Sender<Vec<u8>>>,
    writer: JoinHandle<io::Result<()>>,
    under_way: UnderWay,
    contact: Contact,
    closing: CancellationToken,
}

impl<R: AsyncBufRead + Send + Unpin> Lines<R> {
    /// The next line, without its end; `None` at the end of the input. Safe to interrupt.
    async fn line(&mut self) -> Option<Result<Vec<u8>, Rejection>> {
        loop {
            let buffer = self.input.fill_buf().await.ok().filter(|buffer| !buffer.is_empty());
            let Some(buffer) = buffer else {
                return (!self.unread.is_empty()).then(|| Ok(std::mem::take(&mut self.unread)));
            };
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
            // One byte beyond the limit is kept, as the mark of a line that is too long.
            let room = (MAX_MESSAGE_BYTES + 1).saturating_sub(self.unread.len());
            self.unread.extend_from_slice(part.get(..room).unwrap_or(part));
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                return Some(within_limit(std::mem::take(&mut self.unread)));
            }
        }
    }

    /// What of a line may go on to the library.
    fn admit(&self, line: &[u8]) -> Result<ClientJsonRpcMessage, Rejection> {
        let (id, whole) = match jsonrpc::read(line)? {
            Message::Request { id, method, whole } => {
                self.contact.request(method, &whole);
                (Some(id), whole)
            }
            Message::Notification { whole } => (None, whole),
        };
        if id.is_none() {
            self.forget_cancelled(&whole);
        }
        let message = serde_json::from_value(Value::Object(whole)).map_err(|_| {
            let what = "The message does not have the form that the protocol gives it.";
            Rejection::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, what).about(id.clone())
        })?;
        match id {
            Some(id) if !self.under_way.begin(&id) => {
                let what = "A request with this id has not been answered yet.";
                Err(Rejection::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, what).about(Some(id)))
            }
            _ => Ok(message),
        }
    }

    /// A cancelled request gets no answer, so its id is free again.
    fn forget_cancelled(&self, whole: &Map<String, Value>) {
        if whole.get("method").and_then(Value::as_str) != Some("notifications/cancelled") {
            return;
        }
        if let Some(id) = whole.get("params").and_then(|params| params.get("requestId")) {
            self.under_way.end(id);
        }
    }
}

fn within_limit(line: Vec<u8>) -> Result<Vec<u8>, Rejection> {
    if line.len() <= MAX_MESSAGE_BYTES {
        return Ok(line);
    }
    let what = format!("The message has more than {MAX_MESSAGE_BYTES} bytes.");
    Err(Rejection::http(StatusCode::PAYLOAD_TOO_LARGE, what).about(jsonrpc::peek_id(&line)))
}

async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    while let Some(mut line) = lines.recv().await {
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    Ok(())
}

fn closed() -> io::Error {
    io::Error::from(io::ErrorKind::BrokenPipe)
}

impl<R: AsyncBufRead + Send + Unpin + 'static> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let output = self.output.clone();
        let under_way = self.under_way.clone();
        async move {
            let value = serde_json::to_value(&message)?;
            if let Some(id) = value.get("id") {
                under_way.end(id);
            }
            let line = serde_json::to_vec(&value)?;
            output.ok_or_else(closed)?.send(line).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let closing = self.closing.clone();
        let output = self.output.clone()?;
        loop {
            // The place for a refusal is there before the line is read: from then on nothing is awaited.
            let refusal = output.reserve().await.ok()?;
            let line = tokio::select! {
                line = self.line() => line?,
                () = closing.cancelled() => return None,
            };
            let admitted = match line {
                Ok(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(line) => self.admit(&line),
                Err(rejection) => Err(rejection),
            };
            match admitted {
                Ok(message) => return Some(message),
                Err(rejection) => refusal.send(rejection.to_json().to_string().into_bytes()),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.output = None;
        match tokio::time::timeout(LAST_WORDS, &mut self.writer).await {
            Ok(Ok(written)) => written,
            // Nobody reads any more, or not soon enough.
            Ok(Err(_)) | Err(_) => Err(closed()),
        }
    }
}
