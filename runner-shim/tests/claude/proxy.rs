//! Stands between Claude Code and the Messages port: records requests, and cuts answers where a test wants it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is done to the answer of one model request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Pass,
    /// The connection is closed before a byte of the answer is passed on.
    BeforeAnswer,
    /// It is closed once `message_start` has been passed on.
    AfterStart,
    /// The same, but the answer is ended properly first, as if that were all of it.
    EndAfterStart,
}

pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// The file with the shim's ports.
    upstream: OnceLock<PathBuf>,
    cuts: Mutex<Vec<Cut>>,
    /// Whether tools are called by their bare names.
    bare_names: AtomicBool,
    /// Heads and bodies of the model requests, as they are passed on.
    requests: Mutex<Vec<Vec<u8>>>,
}

impl Proxy {
    /// The cuts of the first model requests; all later ones pass.
    pub async fn start(cuts: &[Cut]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            upstream: OnceLock::new(),
            cuts: Mutex::new(cuts.to_vec()),
            bare_names: AtomicBool::new(false),
            requests: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                tokio::spawn(async move { shared.serve(client).await });
            }
        });
        Self { port, shared }
    }

    /// Says where the shim's ports will stand.
    pub fn stands_before(&self, ports: &Path) {
        self.shared.upstream.get_or_init(|| ports.to_owned());
    }

    /// From now on answers call tools by their bare names, which are those of Claude Code's own.
    pub fn takes_names_apart(&self) {
        self.shared.bare_names.store(true, Ordering::Relaxed);
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The bodies of the model requests so far.
    pub fn bodies(&self) -> Vec<serde_json::Value> {
        let requests = self.shared.requests.lock().unwrap();
        requests
            .iter()
            .map(|request| serde_json::from_slice(&request[head_length(request).unwrap()..]).unwrap())
            .collect()
    }

    /// A model request as it was sent, to be sent again.
    pub fn request(&self, number: usize) -> Vec<u8> {
        self.shared.requests.lock().unwrap()[number].clone()
    }

    /// The Messages port itself.
    pub fn upstream(&self) -> u16 {
        self.shared.upstream()
    }
}

impl Shared {
    fn upstream(&self) -> u16 {
        let ports = std::fs::read(self.upstream.get().unwrap()).unwrap();
        let [messages, _]: [u16; 2] = serde_json::from_slice(&ports).unwrap();
        messages
    }

    /// One request after the other; the answer's end is the upstream's end of the connection, as we ask for it.
    async fn serve(&self, mut client: TcpStream) {
        while let Some(request) = read_request(&mut client).await {
            let cut = if is_model_request(&request) { self.record(&request) } else { Cut::Pass };
            if !self.pass(&request, &mut client, cut).await {
                return;
            }
        }
    }

    fn record(&self, request: &[u8]) -> Cut {
        self.requests.lock().unwrap().push(for_upstream(request));
        let mut cuts = self.cuts.lock().unwrap();
        if cuts.is_empty() { Cut::Pass } else { cuts.remove(0) }
    }

    /// Whether the client may go on with the connection. It may not: the answer said `close`.
    async fn pass(&self, request: &[u8], client: &mut TcpStream, cut: Cut) -> bool {
        let mut upstream = TcpStream::connect(("127.0.0.1", self.upstream())).await.unwrap();
        upstream.write_all(&for_upstream(request)).await.unwrap();
        let mut passed = Vec::new();
        let mut part = vec![0; 64 * 1024];
        loop {
            let mut gone = [0];
            let read = tokio::select! {
                read = upstream.read(&mut part) => read.unwrap_or(0),
                _ = client.read(&mut gone) => 0,
            };
            if read == 0 || cut == Cut::BeforeAnswer {
                return false;
            }
            if self.bare_names.load(Ordering::Relaxed) {
                take_names_apart(&mut part[..read]);
            }
            if client.write_all(&part[..read]).await.is_err() {
                return false;
            }
            passed.extend_from_slice(&part[..read]);
            if matches!(cut, Cut::AfterStart | Cut::EndAfterStart)
                && find(&passed, b"message_start\"").is_some()
            {
                // The client is to have read it before the end.
                tokio::time::sleep(Duration::from_millis(200)).await;
                if cut == Cut::EndAfterStart {
                    let _ = client.write_all(b"0\r\n\r\n").await;
                }
                return false;
            }
        }
    }
}

/// `"mcp__gatehouse__X"` becomes `"X"` and as many spaces, so that no length changes. A part holds whole events: the shim
/// writes each at once.
fn take_names_apart(part: &mut [u8]) {
    const BEFORE: &[u8] = b"\"name\":\"";
    const PREFIX: &[u8] = b"mcp__gatehouse__";
    let whole = [BEFORE, PREFIX].concat();
    while let Some(at) = find(part, &whole) {
        let name = at + BEFORE.len();
        let end = name + part[name..].iter().position(|&byte| byte == b'"').unwrap() + 1;
        part[name..end].rotate_left(PREFIX.len());
        part[end - PREFIX.len()..end].fill(b' ');
    }
}

/// With the end of the connection as the end of the answer.
fn for_upstream(request: &[u8]) -> Vec<u8> {
    let (head, body) = request.split_at(head_length(request).unwrap());
    let head = String::from_utf8(head.to_vec()).unwrap();
    let head = head.replace("Connection: keep-alive", "Connection: close");
    [head.as_bytes(), body].concat()
}

fn is_model_request(request: &[u8]) -> bool {
    request.starts_with(b"POST /v1/messages?") || request.starts_with(b"POST /v1/messages ")
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn head_length(request: &[u8]) -> Option<usize> {
    find(request, b"\r\n\r\n").map(|at| at + 4)
}

async fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut part = vec![0; 64 * 1024];
    loop {
        if let Some(head) = head_length(&request) {
            let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
            let length =
                text.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            if request.len() >= head + length.unwrap_or(0) {
                return Some(request);
            }
        }
        match client.read(&mut part).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => request.extend_from_slice(&part[..read]),
        }
    }
}

/// Sends a request and reads the answer to its end.
pub async fn send(port: u16, request: &[u8]) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    connection.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}
