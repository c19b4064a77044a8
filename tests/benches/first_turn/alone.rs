//! Claude Code alone, without anything of ours: from its start to its first model request.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatehouse_tests::tunnel::serving::{response, serve};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;

/// Which tools it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    /// Its own.
    BuiltIn,
    /// Those of a server like ours: over HTTP on loopback, which answers at once.
    OfAServer,
}

/// How long it takes.
pub async fn first_request(claude: &Path, tools: Tools) -> Duration {
    let home = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let (asked, mut first) = tokio::sync::mpsc::unbounded_channel();
    serve(listener, move |request| answer(request, asked.clone()));
    let begin = Instant::now();
    let mut child = start(claude, home.path(), &endpoint, tools);
    let came = first.recv().await.expect("a request");
    child.kill().expect("it can be ended");
    child.wait().expect("it can be waited for");
    came.duration_since(begin)
}

fn start(claude: &Path, home: &Path, endpoint: &str, tools: Tools) -> Child {
    let mut command = Command::new(claude);
    command.args(["--bare", "-p", "--output-format", "stream-json", "--verbose", "--model", "chatgpt-main"]);
    if tools == Tools::OfAServer {
        let config = home.join("mcp.json");
        let server = json!({"mcpServers": {"tools": {"type": "http", "url": format!("{endpoint}/mcp")}}});
        std::fs::write(&config, server.to_string()).expect("writable");
        command.arg("--mcp-config").arg(config);
        command.args(["--strict-mcp-config", "--tools", "", "--allowedTools", "mcp__tools__Read"]);
    }
    command
        .args(["--", "hello"])
        .env_clear()
        .env("HOME", home)
        .env("CLAUDE_CONFIG_DIR", home)
        .env("ANTHROPIC_BASE_URL", endpoint)
        .env("ANTHROPIC_API_KEY", "none")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("Claude Code starts")
}

/// What Claude Code hears; its first model request is told, and gets no answer.
async fn answer(request: Request<Incoming>, asked: UnboundedSender<Instant>) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/v1/messages") => {
            let _ = asked.send(Instant::now());
            std::future::pending().await
        }
        (&Method::POST, "/mcp") => {
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            tool_server(&serde_json::from_slice(&body).expect("JSON"))
        }
        _ => response(StatusCode::NOT_FOUND, String::new()),
    }
}

fn tool_server(message: &Value) -> Response<Full<Bytes>> {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "tools", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "Read",
            "description": "Reads a file.",
            "inputSchema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
        }]}),
        _ => return response(StatusCode::ACCEPTED, String::new()),
    };
    let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    let mut answer = response(StatusCode::OK, text);
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    answer
}
