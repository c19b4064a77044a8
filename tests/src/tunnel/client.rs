//! tunnel-client: its looks at start-up, and the loop that polls, works and posts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gatehouse::chatgpt::http::{Endpoint, MCP_PATH, send};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::control::Posted;
use super::http::{Front, header_map};
use super::profile;
use super::stdio::Pipes;
use crate::record::Record;
use crate::waiting::until;

/// How long the first handshake may take.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// What the handshake at start-up came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// A revision was agreed on.
    Agreed(String),
    /// 401; counts as ready.
    RequiresAuth,
    /// No answer in two seconds; counts as ready.
    TimedOut,
    /// Anything else.
    Failed(String),
    /// Over stdio nothing is asked.
    NotMade,
}

/// What the search for a log-in came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogIn {
    /// There is none: every path that was asked is 404, and nobody named another.
    None,
    /// It cannot be told: not ready.
    Unclear(String),
}

/// What `/readyz` of tunnel-client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// The handshake.
    pub probe: Probe,
    /// The log-in.
    pub log_in: LogIn,
}

impl Readiness {
    /// Whether a connector may be made.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !matches!(self.probe, Probe::Failed(_)) && self.log_in == LogIn::None
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its answer was posted.
    Posted,
    /// Its deadline passed: the connection was closed and nothing was posted.
    Dropped,
}

#[derive(Debug)]
enum Binding {
    Http(Front),
    Stdio(Box<tokio::sync::Mutex<Pipes>>),
}

#[derive(Debug)]
struct Shared {
    binding: Binding,
    control: Endpoint,
    tunnel: String,
    key: String,
    slots: Arc<Semaphore>,
    ends: Mutex<HashMap<String, End>>,
}

/// The running client; it ends when this is dropped.
#[derive(Debug)]
pub struct TunnelClient {
    /// What it found at start-up.
    pub readiness: Readiness,
    shared: Arc<Shared>,
    polling: JoinHandle<()>,
}

impl Drop for TunnelClient {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

impl TunnelClient {
    /// Starts one with a profile, for a control plane at that address.
    ///
    /// # Panics
    /// When the profile is not one that tunnel-client could use.
    pub async fn start(text: &str, control: SocketAddr, record: &Record) -> Self {
        let shared = Arc::new(Shared::of(text, control, record));
        let readiness = shared.readiness().await;
        let polling = tokio::spawn(poll_for_ever(Arc::clone(&shared)));
        Self { readiness, shared, polling }
    }

    /// What it would find at its start, without starting: the control plane's status for a look at the tunnel, and the readiness.
    ///
    /// # Panics
    /// When the profile is not one that tunnel-client could use.
    pub async fn look(text: &str, control: SocketAddr) -> (Option<StatusCode>, Readiness) {
        let shared = Shared::of(text, control, &Record::default());
        let path = format!("/v1/tunnels/{}", shared.tunnel);
        let seen = shared.ask_control(Method::GET, &path, None, Bytes::new()).await;
        (seen.ok().map(|reply| reply.status), shared.readiness().await)
    }

    /// Comes back when it polls no more: the control plane is gone, or refuses it.
    pub async fn ended(&mut self) {
        // What it says on its way out is on standard error already.
        let _ = (&mut self.polling).await;
    }

    /// Waits until this command is over.
    pub async fn end_of(&self, request_id: &str) -> End {
        until("the command is over", async || {
            let ends = self.shared.ends.lock().unwrap_or_else(PoisonError::into_inner);
            ends.get(request_id).copied()
        })
        .await
    }
}

fn word(value: &Value) -> String {
    value.as_str().expect("a string of the profile").to_owned()
}

/// `env:NAME`, `file:PATH`, or the text itself.
fn reference(text: &str) -> String {
    match text.split_once(':') {
        Some(("file", path)) => std::fs::read_to_string(path).expect("the file is there").trim().to_owned(),
        Some(("env", name)) => std::env::var(name).expect("the variable is set"),
        _ => text.to_owned(),
    }
}

fn binding(mcp: &Value, record: &Record) -> Binding {
    if let Some(command) = mcp["commands"][0]["command"].as_str() {
        return Binding::Stdio(Box::new(tokio::sync::Mutex::new(Pipes::start(command, record.clone()))));
    }
    let server = &mcp["server_urls"][0];
    assert_eq!(server["channel"], "main", "the channel that there must be");
    let url: http::Uri = word(&server["url"]).parse().expect("a URL");
    assert_eq!(url.path(), MCP_PATH);
    let host = url.authority().expect("a host").to_string();
    let endpoint = match server["unix_socket"].as_str() {
        Some(socket) => Endpoint::Unix { socket: socket.into() },
        None => Endpoint::Tcp { address: host.parse().expect("an address of loopback"), key: None },
    };
    let mut extra = HeaderMap::new();
    for (name, value) in mcp["extra_headers"].as_object().into_iter().flatten() {
        let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a header's name");
        extra.insert(name, reference(&word(value)).parse().expect("a header's value"));
    }
    Binding::Http(Front { endpoint, host, extra, record: record.clone() })
}

/// The handshake of the older protocol, as the client's own library makes it: the notification after it, and a look
/// for a stream, which a server may refuse with 405.
async fn probe(front: &Front) -> Probe {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "tunnel-client", "version": "0.0.14"}}});
    let none = HeaderMap::new();
    let Ok(answer) = tokio::time::timeout(PROBE_PATIENCE, front.message(&hello, &none)).await else {
        return Probe::TimedOut;
    };
    let agreed = answer.json["result"]["protocolVersion"].as_str().map(str::to_owned);
    let version = match (answer.code, agreed) {
        (200, Some(version)) => version,
        (401, _) => return Probe::RequiresAuth,
        _ => return Probe::Failed(answer.json.to_string()),
    };
    let version_header = header_map(&json!({"MCP-Protocol-Version": [version]}));
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let acknowledged = front.message(&ready, &version_header).await;
    let streams = front.exchange(Method::GET, MCP_PATH, &version_header, Bytes::new()).await;
    match (acknowledged.kind.as_str(), streams.map(|reply| reply.status)) {
        ("notify_ack", Ok(StatusCode::METHOD_NOT_ALLOWED)) => Probe::Agreed(version),
        other => Probe::Failed(format!("{other:?}")),
    }
}

/// An empty POST and a GET, in case a challenge names a log-in; then the two paths where one would be described.
async fn look_for_log_in(front: &Front) -> LogIn {
    let none = HeaderMap::new();
    for method in [Method::POST, Method::GET] {
        if let Ok(reply) = front.exchange(method, MCP_PATH, &none, Bytes::new()).await
            && reply.headers.contains_key(http::header::WWW_AUTHENTICATE)
        {
            return LogIn::Unclear("a challenge".to_owned());
        }
    }
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        match front.exchange(Method::GET, path, &none, Bytes::new()).await {
            Ok(reply) if reply.status == StatusCode::NOT_FOUND => {}
            other => return LogIn::Unclear(format!("{path}: {:?}", other.map(|reply| reply.status))),
        }
    }
    LogIn::None
}

async fn poll_for_ever(shared: Arc<Shared>) {
    loop {
        let path = format!("/v1/tunnels/{}/poll?limit=25&timeout_ms=15000", shared.tunnel);
        let reply = match shared.ask_control(Method::GET, &path, None, Bytes::new()).await {
            Ok(reply) if reply.status == StatusCode::OK => reply,
            Ok(reply) if reply.status == StatusCode::NO_CONTENT => continue,
            other => panic!("the control plane refused a poll: {other:?}"),
        };
        let received = Instant::now();
        let polled: Value = serde_json::from_slice(&reply.body).expect("an envelope");
        for command in polled["commands"].as_array().into_iter().flatten() {
            if matches!(shared.binding, Binding::Stdio(_)) {
                // One lifecycle at a time, in the order in which they came.
                shared.work(command, received).await;
                continue;
            }
            let slot = Arc::clone(&shared.slots).acquire_owned().await.expect("it is never closed");
            let (shared, command) = (Arc::clone(&shared), command.clone());
            tokio::spawn(async move {
                shared.work(&command, received).await;
                drop(slot);
            });
        }
    }
}

impl Shared {
    fn of(text: &str, control: SocketAddr, record: &Record) -> Self {
        let profile = profile::read(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let concurrent = profile["mcp"]["max_concurrent_requests"].as_u64().unwrap_or(10);
        Self {
            binding: binding(&profile["mcp"], record),
            control: Endpoint::Tcp { address: control, key: None },
            tunnel: word(&profile["control_plane"]["tunnel_id"]),
            key: reference(&word(&profile["control_plane"]["api_key"])),
            slots: Arc::new(Semaphore::new(usize::try_from(concurrent).expect("a small number"))),
            ends: Mutex::default(),
        }
    }

    async fn readiness(&self) -> Readiness {
        match &self.binding {
            Binding::Http(front) => {
                Readiness { probe: probe(front).await, log_in: look_for_log_in(front).await }
            }
            Binding::Stdio(_) => Readiness { probe: Probe::NotMade, log_in: LogIn::None },
        }
    }

    async fn ask_control(
        &self,
        method: Method,
        path: &str,
        shard: Option<&str>,
        body: Bytes,
    ) -> Result<gatehouse::chatgpt::http::Reply, gatehouse::chatgpt::http::ExchangeError> {
        let mut request = Request::builder().method(method).uri(path).header("host", "control");
        request = request.header("authorization", format!("Bearer {}", self.key));
        request = request.header("x-tunnel-client-name", "stand-in").header("x-tunnel-client-version", "0");
        if let Some(shard) = shard {
            request = request.header("x-tunnel-shard-token", shard);
        }
        send(&self.control, request.body(Full::new(body)).expect("a request")).await
    }

    /// One command from its receipt to its answer. After the deadline there is none, and the connection is closed.
    async fn work(&self, command: &Value, received: Instant) {
        let limit = command["response_timeout"].as_str().and_then(|text| text.strip_suffix("ms"));
        let deadline = limit.and_then(|ms| ms.parse().ok()).map(|ms| received + Duration::from_millis(ms));
        let in_time = async {
            let Some(posted) = self.dispatch(command, deadline).await else { return false };
            self.post(command, posted).await;
            true
        };
        let posted = match (&self.binding, deadline) {
            (Binding::Http(_), Some(deadline)) => timeout_at(deadline, in_time).await.unwrap_or(false),
            (Binding::Stdio(_), _) | (_, None) => in_time.await,
        };
        let end = if posted { End::Posted } else { End::Dropped };
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.insert(word(&command["request_id"]), end);
    }

    async fn dispatch(&self, command: &Value, deadline: Option<Instant>) -> Option<Posted> {
        let forwarded = header_map(&command["headers"]);
        match (&self.binding, command["command_type"].as_str()) {
            (Binding::Http(front), Some("jsonrpc")) => {
                Some(front.message(&command["jsonrpc"], &forwarded).await)
            }
            (Binding::Http(front), Some("session_termination")) => Some(front.terminate(&forwarded).await),
            (Binding::Stdio(pipes), Some("jsonrpc")) => {
                pipes.lock().await.lifecycle(&command["jsonrpc"], deadline).await
            }
            (Binding::Stdio(_), Some("session_termination")) => Some(Pipes::terminate()),
            (_, other) => panic!("a command of an unknown kind: {other:?}"),
        }
    }

    async fn post(&self, command: &Value, posted: Posted) {
        let mut body = json!({
            "request_id": command["request_id"], "channel": command["channel"], "resp_code": posted.code,
            "resp_type": posted.kind, "resp_headers": {"Content-Type": ["application/json"]},
        });
        if !posted.json.is_null() {
            body["resp_json"] = posted.json;
        }
        let path = format!("/v1/tunnels/{}/response", self.tunnel);
        let shard = word(&command["shard_token"]);
        let body = Bytes::from(body.to_string());
        let taken = self.ask_control(Method::POST, &path, Some(&shard), body).await;
        let status = taken.expect("the control plane answers").status;
        assert_eq!(status, StatusCode::OK, "the answer to {command} was taken");
    }
}
