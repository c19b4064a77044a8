//! A model and a tool server, as small as they can be: they accept on the listeners that were handed out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub fn mcp_config(port: u16) -> String {
    let server = json!({ "type": "http", "url": format!("http://127.0.0.1:{port}/mcp") });
    json!({ "mcpServers": { "gatehouse": server } }).to_string()
}

/// Serves the model on the first listener and the tools on the second; gives what the tool is called with.
pub fn serve(listeners: Vec<TcpListener>) -> Arc<Mutex<Vec<String>>> {
    let called = Arc::new(Mutex::new(Vec::new()));
    let [model, tools] = listeners.try_into().unwrap();
    each_connection(model, |method, _, body| match method {
        "POST" => Some(("text/event-stream", answer(&body))),
        _ => None,
    });
    let noted = Arc::clone(&called);
    each_connection(tools, move |method, _, body| match method {
        "POST" => Some(("application/json", tool_server(&body, &noted))),
        _ => None,
    });
    called
}

type Answer = Option<(&'static str, String)>;

fn each_connection(
    listener: TcpListener,
    answer: impl Fn(&str, &str, Value) -> Answer + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || while one_request(&stream, &*answer).is_some() {});
        }
    });
}

fn one_request(stream: &TcpStream, answer: &impl Fn(&str, &str, Value) -> Answer) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    (reader.read_line(&mut first).ok()? > 0).then_some(())?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split_whitespace();
    let (method, path) = (words.next()?, words.next()?);
    let text = match answer(method, path, serde_json::from_slice(&body).unwrap_or(Value::Null)) {
        Some((_, text)) if text.is_empty() => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
        Some((kind, text)) => {
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{text}", text.len())
        }
        None => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
    };
    (&mut &*stream).write_all(text.as_bytes()).ok()
}

/// First a call of the tool, then, when its result is there, the last word.
fn answer(request: &Value) -> String {
    let told = request.to_string().contains("tool_result");
    let (block, delta, reason) = if told {
        (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": "all done"}), "end_turn")
    } else {
        let call = json!({"type": "tool_use", "id": "toolu_1", "name": "mcp__gatehouse__Echo", "input": {}});
        (call, json!({"type": "input_json_delta", "partial_json": "{\"text\":\"hello\"}"}), "tool_use")
    };
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "chatgpt-main", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage});
    [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": usage}),
        json!({"type": "message_stop"}),
    ]
    .iter()
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    .collect()
}

fn tool_server(request: &Value, called: &Mutex<Vec<String>>) -> String {
    let result = match request["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "gatehouse", "version": "1"}}),
        Some("tools/list") => json!({"tools": [{"name": "Echo", "description": "echoes",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]}),
        Some("tools/call") => {
            let text = request["params"]["arguments"]["text"].as_str().unwrap_or("").to_owned();
            called.lock().unwrap().push(text);
            json!({"content": [{"type": "text", "text": "echoed"}]})
        }
        _ => return String::new(),
    };
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()
}
