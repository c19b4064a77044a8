//! A DeepSeek on loopback: the Messages API as far as a subagent's broker uses it, with every way in which it can go wrong.

mod answer;
mod tls;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub use answer::{Answer, Message, call, text, thought};
pub use tls::Authority;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Method and path.
    pub line: String,
    /// Its headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Value,
}

/// The server. It ends with this value.
#[derive(Debug)]
pub struct FakeDeepseek {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    script: Mutex<VecDeque<Answer>>,
    count: watch::Sender<usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeDeepseek {
    /// Starts one over plain HTTP.
    pub async fn start() -> Self {
        Self::over(None).await
    }

    /// Starts one over TLS, with a certificate of this authority.
    pub async fn over_tls(authority: &Authority) -> Self {
        Self::over(Some(authority.acceptor())).await
    }

    async fn over(tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let served = shared.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accept(stream, tls.clone(), served.clone()));
            }
        });
        Self { address, shared, serving }
    }

    /// The port that it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// What the next requests are answered with, each once, in this order. Without anything left it answers 500.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        locked(&self.shared.script).extend(answers);
    }

    /// What was asked so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        locked(&self.shared.seen).clone()
    }

    /// Waits until it was asked so often.
    ///
    /// # Panics
    /// When that does not happen within a minute.
    pub async fn was_asked(&self, times: usize) {
        let mut count = self.shared.count.subscribe();
        let asked = tokio::time::timeout(crate::waiting::PATIENCE, count.wait_for(|count| *count >= times));
        asked.await.expect("it is asked within a minute").expect("the server lives");
    }
}

impl Drop for FakeDeepseek {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(stream: TcpStream, tls: Option<tokio_rustls::TlsAcceptor>, shared: Arc<Shared>) {
    match tls {
        None => serve(stream, &shared).await,
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream, &shared).await;
            }
        }
    }
}

/// One request for each connection.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, shared: &Shared) {
    let Some(seen) = read(&mut stream).await else { return };
    let answer =
        locked(&shared.script).pop_front().unwrap_or_else(|| Answer::status(500, "api_error", "no script"));
    let streamed = seen.body["stream"] == true;
    locked(&shared.seen).push(seen);
    shared.count.send_modify(|count| *count += 1);
    answer.write(&mut stream, streamed).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|header| header.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    let missing = length.saturating_sub(body.len());
    let mut rest = vec![0; missing];
    stream.read_exact(&mut rest).await.ok()?;
    body.extend(rest);
    Some(Seen { line, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}
