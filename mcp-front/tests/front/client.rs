//! A client that can also say what no decent client says.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use crate::process::{HttpFront, KEY};

pub const ACCEPT: &str = "application/json, text/event-stream";
pub const MODERN: &str = "2026-07-28";

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .next()
    }
}

/// An HTTP request, as text.
#[derive(Debug, Clone)]
pub struct Ask {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Ask {
    pub fn get(path: &str) -> Self {
        Self {
            method: "GET".into(),
            path: path.into(),
            headers: vec![("Host".into(), "127.0.0.1".into()), ("X-Gatehouse-Key".into(), KEY.into())],
            body: Vec::new(),
        }
    }

    pub fn post(body: impl Into<Vec<u8>>) -> Self {
        let mut ask = Self::get("/mcp").with("Accept", ACCEPT).with("Content-Type", "application/json");
        ask.method = "POST".into();
        ask.body = body.into();
        ask
    }

    pub fn message(message: &Value) -> Self {
        Self::post(message.to_string())
    }

    pub fn to(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }

    pub fn method(mut self, method: &str) -> Self {
        self.method = method.into();
        self
    }

    /// Sets a header, in place of one of the same name.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a header, beside one of the same name.
    pub fn and(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(found, _)| !found.eq_ignore_ascii_case(name));
        self
    }

    pub fn text(&self) -> Vec<u8> {
        let mut text =
            format!("{} {} HTTP/1.1\r\nConnection: close\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            text.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        text.extend_from_slice(format!("Content-Length: {}\r\n\r\n", self.body.len()).as_bytes());
        text.extend_from_slice(&self.body);
        text
    }

    pub fn send(&self, front: &HttpFront) -> Reply {
        exchange(TcpStream::connect(front.authority()).unwrap(), &self.text())
    }

    pub fn send_to_socket(&self, front: &HttpFront) -> Reply {
        exchange(UnixStream::connect(front.socket()).unwrap(), &self.text())
    }
}

pub fn exchange(mut stream: impl Read + Write, text: &[u8]) -> Reply {
    stream.write_all(text).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP reply: {reply:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

pub fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "t-1", "method": method, "params": params})
}

/// A request in the form of the latest revision.
pub fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    request(method, params)
}

pub fn tool(name: &str, arguments: Value) -> Value {
    request("tools/call", json!({"name": name, "arguments": arguments}))
}

pub fn initialize(version: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    request("initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}))
}

/// The refusal in a tool error's text.
pub fn refusal(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    assert!(result.get("structuredContent").is_none(), "{result}");
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
    let refusal: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    let fields: Vec<_> = refusal.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["code", "message", "retryable", "what_to_do", "details"]);
    refusal
}
