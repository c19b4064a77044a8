//! The control plane: commands wait here until they are polled, and answers until a test wants them.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

use super::serving::{response, serve};
use crate::waiting::PATIENCE;

/// What one poll may bring.
const BATCH: usize = 25;

/// A command for the tunnel's client.
#[derive(Debug, Clone)]
pub struct Command {
    kind: &'static str,
    jsonrpc: Option<Value>,
    headers: Value,
    response_timeout: Option<String>,
}

impl Command {
    /// A JSON-RPC request or notification.
    #[must_use]
    pub fn jsonrpc(message: Value) -> Self {
        Self { kind: "jsonrpc", jsonrpc: Some(message), headers: json!({}), response_timeout: None }
    }

    /// The end of a session that was identified by a header.
    #[must_use]
    pub fn session_termination(session: &str) -> Self {
        let headers = json!({"Mcp-Session-Id": [session]});
        Self { kind: "session_termination", jsonrpc: None, headers, response_timeout: None }
    }

    /// A header that the product passes on, with all its values.
    #[must_use]
    pub fn header(mut self, name: &str, values: &[&str]) -> Self {
        self.headers[name] = json!(values);
        self
    }

    /// How long the whole command may take.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.response_timeout = Some(format!("{}ms", limit.as_millis()));
        self
    }
}

/// What the client posted for a command.
#[derive(Debug, Clone)]
pub struct Posted {
    /// `resp_code`.
    pub code: u64,
    /// `resp_type`.
    pub kind: String,
    /// `resp_json`; null where there is none.
    pub json: Value,
}

/// A command that was sent, and the answer that may come.
#[derive(Debug)]
pub struct Ticket {
    /// The command's `request_id`.
    pub request_id: String,
    answered: oneshot::Receiver<Posted>,
}

impl Ticket {
    /// The final answer.
    ///
    /// # Panics
    /// When none comes within a minute.
    pub async fn answer(self) -> Posted {
        let answer = tokio::time::timeout(PATIENCE, self.answered);
        answer.await.expect("an answer within a minute").expect("the control plane is there")
    }

    /// Whether an answer has been posted.
    #[must_use]
    pub fn is_answered(mut self) -> bool {
        self.answered.try_recv().is_ok()
    }
}

#[derive(Debug)]
struct Open {
    shard: String,
    answer: oneshot::Sender<Posted>,
}

#[derive(Debug, Default)]
struct Desk {
    waiting: VecDeque<Value>,
    open: HashMap<String, Open>,
    sent: u64,
}

#[derive(Debug)]
struct Shared {
    desk: Mutex<Desk>,
    news: Notify,
    tunnel: String,
    key: String,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running stand-in.
#[derive(Debug)]
pub struct Control {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Control {
    /// Starts one for a tunnel; clients show `key`. It lives as long as the runtime.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(tunnel: &str, key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            desk: Mutex::default(),
            news: Notify::new(),
            tunnel: tunnel.to_owned(),
            key: key.to_owned(),
        });
        let asked = Arc::clone(&shared);
        serve(listener, move |request| {
            let asked = Arc::clone(&asked);
            async move { answer(&asked, request).await }
        });
        Self { address, shared }
    }

    /// Puts a command into the queue.
    #[must_use]
    pub fn send(&self, command: Command) -> Ticket {
        let (answer, answered) = oneshot::channel();
        let mut desk = self.shared.desk();
        desk.sent += 1;
        let request_id = format!("req_{}", desk.sent);
        let shard = format!("shard-{}", uuid::Uuid::new_v4().simple());
        let mut wire = json!({
            "request_id": request_id, "shard_token": shard, "command_type": command.kind, "channel": "main",
            "created_at": "2026-01-01T00:00:00Z", "headers": command.headers, "of_tomorrow": true,
        });
        if let Some(message) = command.jsonrpc {
            wire["jsonrpc"] = message;
        }
        if let Some(limit) = command.response_timeout {
            wire["response_timeout"] = json!(limit);
        }
        desk.open.insert(request_id.clone(), Open { shard, answer });
        desk.waiting.push_back(wire);
        drop(desk);
        self.shared.news.notify_one();
        Ticket { request_id, answered }
    }

    /// Sends a JSON-RPC request and waits for its result.
    ///
    /// # Panics
    /// When it is answered with something else.
    pub async fn result(&self, message: Value) -> Value {
        let posted = self.send(Command::jsonrpc(message.clone())).answer().await;
        assert_eq!((posted.code, posted.kind.as_str()), (200, "jsonrpc_response"), "{}", posted.json);
        assert_eq!(posted.json["id"], message["id"], "the id comes back as it was");
        posted.json["result"].clone()
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let shown = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if shown != Some(format!("Bearer {}", shared.key).as_str()) {
        return reply(StatusCode::UNAUTHORIZED, &json!({"error": "key"}));
    }
    let Some(path) = request.uri().path().strip_prefix(&format!("/v1/tunnels/{}", shared.tunnel)) else {
        return reply(StatusCode::NOT_FOUND, &json!({"error": "no such tunnel"}));
    };
    match (request.method(), path) {
        (&Method::GET, "") => reply(StatusCode::OK, &json!({"id": shared.tunnel})),
        (&Method::GET, "/poll") => poll(shared).await,
        (&Method::POST, "/response") => take(shared, request).await,
        _ => reply(StatusCode::NOT_FOUND, &json!({"error": "no such path"})),
    }
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let text = if status == StatusCode::NO_CONTENT { String::new() } else { body.to_string() };
    response(status, text)
}

async fn poll(shared: &Shared) -> Response<Full<Bytes>> {
    let news = tokio::time::timeout(Duration::from_secs(15), async {
        loop {
            let news = shared.news.notified();
            let commands: Vec<Value> = {
                let mut desk = shared.desk();
                let count = desk.waiting.len().min(BATCH);
                desk.waiting.drain(..count).collect()
            };
            if !commands.is_empty() {
                return commands;
            }
            news.await;
        }
    });
    match news.await {
        Ok(commands) => reply(StatusCode::OK, &json!({"commands": commands})),
        Err(_) => reply(StatusCode::NO_CONTENT, &Value::Null),
    }
}

async fn take(shared: &Shared, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let shard = request.headers().get("x-tunnel-shard-token").map(|value| value.as_bytes().to_vec());
    let Ok(body) = request.into_body().collect().await else {
        return reply(StatusCode::BAD_REQUEST, &json!({"error": "the body broke off"}));
    };
    let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let id = body["request_id"].as_str().unwrap_or_default();
    let mut desk = shared.desk();
    // Fulfilled already, or never sent.
    let Some(open) = desk.open.remove(id) else {
        return reply(StatusCode::NOT_FOUND, &json!({"error": "not pending"}));
    };
    if shard.as_deref() != Some(open.shard.as_bytes()) || body["channel"] != "main" {
        desk.open.insert(id.to_owned(), open);
        return reply(StatusCode::BAD_REQUEST, &json!({"error": "shard or channel"}));
    }
    let posted = Posted {
        code: body["resp_code"].as_u64().unwrap_or_default(),
        kind: body["resp_type"].as_str().unwrap_or_default().to_owned(),
        json: body["resp_json"].clone(),
    };
    // The test may not want it any more.
    let _ = open.answer.send(posted);
    reply(StatusCode::OK, &json!({"status": "ok"}))
}
