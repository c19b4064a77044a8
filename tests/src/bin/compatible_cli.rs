//! A program that can stand where Claude Code does, as far as a sub-session needs one: the same arguments, the same lines on
//! standard output, the Messages API and MCP over loopback. It is the tests' own.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

/// Where one of the two ports is, and what it wants to see.
struct Port {
    address: String,
    path: String,
    header: String,
}

impl Port {
    fn post(&self, body: &Value) -> Result<Value, Failure> {
        let mut stream = TcpStream::connect(&self.address)?;
        let body = body.to_string();
        write!(
            stream,
            "POST {} HTTP/1.1\r\nhost: {}\r\n{}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.path,
            self.address,
            self.header,
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no head")? + 4;
        let is_chunked = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase().contains("chunked");
        let body = if is_chunked { unchunked(&answer[end..])? } else { answer[end..].to_vec() };
        Ok(serde_json::from_slice(body.trim_ascii()).unwrap_or_default())
    }
}

fn unchunked(mut rest: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").ok_or("no chunk")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line])?.trim(), 16)?;
        if length == 0 {
            return Ok(body);
        }
        body.extend_from_slice(rest.get(line + 2..line + 2 + length).ok_or("a chunk that is cut")?);
        rest = &rest[line + length + 4..];
    }
}

fn after(arguments: &[String], name: &str) -> Option<String> {
    let at = arguments.iter().position(|argument| argument == name)?;
    arguments.get(at + 1).cloned()
}

fn tools_port(config: &str) -> Result<Port, Failure> {
    let config: Value = serde_json::from_str(&std::fs::read_to_string(config)?)?;
    let server = &config["mcpServers"]["gatehouse"];
    let url = server["url"].as_str().and_then(|url| url.strip_prefix("http://")).ok_or("no url")?;
    let (address, path) = url.split_once('/').ok_or("no path")?;
    let bearer = server["headers"]["Authorization"].as_str().ok_or("no bearer")?;
    Ok(Port {
        address: address.to_owned(),
        path: format!("/{path}"),
        header: format!("authorization: {bearer}"),
    })
}

fn say(line: &Value) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let id = after(&arguments, "--session-id").ok_or("no session")?;
    let model = after(&arguments, "--model").ok_or("no model")?;
    let tools: Vec<_> = arguments.iter().filter(|argument| argument.starts_with("mcp__")).collect();
    say(&json!({
        "type": "system", "subtype": "init", "session_id": id, "tools": tools, "model": model,
        "mcp_servers": [{"name": "gatehouse", "status": "connected"}], "permissionMode": "dontAsk",
        "apiKeySource": "ANTHROPIC_API_KEY", "slash_commands": [], "skills": [], "plugins": [],
    }))?;
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt)?;
    let base = std::env::var("ANTHROPIC_BASE_URL")?;
    let models = Port {
        address: base.strip_prefix("http://").ok_or("no base")?.to_owned(),
        path: "/v1/messages".to_owned(),
        header: format!("x-api-key: {}", std::env::var("ANTHROPIC_API_KEY")?),
    };
    let calls = tools_port(&after(&arguments, "--mcp-config").ok_or("no configuration")?)?;
    let (said, turns) = work(&models, &calls, &model, &prompt)?;
    say(&json!({"type": "result", "is_error": false, "result": said, "num_turns": turns, "session_id": id}))
}

/// Asks and does what is answered, until the answer is a text alone.
fn work(models: &Port, calls: &Port, model: &str, prompt: &str) -> Result<(String, u32), Failure> {
    let mut messages = vec![json!({"role": "user", "content": prompt})];
    for turn in 1.. {
        let answer = models
            .post(&json!({"model": model, "max_tokens": 1000, "stream": false, "messages": messages}))?;
        let content = answer["content"].as_array().cloned().unwrap_or_default();
        let results: Vec<Value> = content
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|call| performed(calls, call))
            .collect::<Result<_, _>>()?;
        if results.is_empty() {
            let texts = content.iter().filter_map(|block| block["text"].as_str());
            return Ok((texts.collect(), turn));
        }
        messages.push(json!({"role": "assistant", "content": content}));
        messages.push(json!({"role": "user", "content": results}));
    }
    Err("more turns than can be counted".into())
}

fn performed(port: &Port, call: &Value) -> Result<Value, Failure> {
    let name =
        call["name"].as_str().and_then(|name| name.strip_prefix("mcp__gatehouse__")).ok_or("no tool")?;
    let answer = port.post(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": call["input"], "_meta": {"claudecode/toolUseId": call["id"]}},
    }))?;
    let result = &answer["result"];
    Ok(json!({
        "type": "tool_result", "tool_use_id": call["id"], "is_error": result["isError"],
        "content": result["content"],
    }))
}
