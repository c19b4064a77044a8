//! A model that has its mind made up: one tool call after the other, then an end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Serves it; gives what came of the calls, as Claude Code tells it.
pub fn serve(listener: TcpListener, calls: Vec<(&'static str, Value)>) -> Arc<Mutex<Vec<String>>> {
    let results = Arc::new(Mutex::new(Vec::new()));
    let (calls, told) = (Arc::new(calls), Arc::clone(&results));
    listener.set_nonblocking(false).unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (calls, told) = (Arc::clone(&calls), Arc::clone(&told));
            std::thread::spawn(move || while one_request(&stream, &calls, &told).is_some() {});
        }
    });
    results
}

fn one_request(stream: &TcpStream, calls: &[(&'static str, Value)], told: &Mutex<Vec<String>>) -> Option<()> {
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
    let text = if first.starts_with("POST /v1/messages") && !first.contains("count_tokens") {
        let results = results(&serde_json::from_slice(&body).ok()?);
        let answer = answer(calls.get(results.len()), results.len());
        *told.lock().unwrap() = results;
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        )
    } else {
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned()
    };
    (&mut &*stream).write_all(text.as_bytes()).ok()
}

/// The results in a request's history, as they stand there.
fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages.filter_map(|message| message["content"].as_array()).flatten();
    blocks.filter(|block| block["type"] == "tool_result").map(Value::to_string).collect()
}

fn answer(call: Option<&(&'static str, Value)>, number: usize) -> String {
    let (block, delta, reason) = match call {
        Some((name, input)) => (
            json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            "tool_use",
        ),
        None => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": "done"}), "end_turn")
        }
    };
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "chatgpt-main",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage});
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
