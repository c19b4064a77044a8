//! Tool calls over MCP.

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::http::Connection;
use crate::turns::Call;

/// The tool server.
#[derive(Debug)]
pub struct Tools {
    connection: Connection,
    requests: u64,
}

impl Tools {
    /// Says hello to it.
    pub fn connect(arguments: &Arguments) -> Result<Self, String> {
        let header = format!("authorization: {}", arguments.authorization);
        let mut tools = Self { connection: Connection::new(arguments.tools_port, header), requests: 0 };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "stand-in", "version": "1"}});
        tools.ask("initialize", &hello)?;
        Ok(tools)
    }

    /// Makes a call, and gives the `tool_result` block for the model.
    pub fn call(&mut self, call: &Call) -> Result<Value, String> {
        let name = call.name.trim_start_matches("mcp__gatehouse__");
        let params =
            json!({"name": name, "arguments": call.input, "_meta": {"claudecode/toolUseId": call.id}});
        let result = self.ask("tools/call", &params)?;
        Ok(json!({"type": "tool_result", "tool_use_id": call.id, "is_error": result["isError"] == true,
            "content": result["content"]}))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.requests += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params});
        let mut body = Vec::new();
        self.connection
            .post("/mcp", &message.to_string(), |part| body.extend_from_slice(part))
            .map_err(|error| format!("{method}: {error}"))?;
        let mut answer: Value =
            serde_json::from_slice(&body).map_err(|error| format!("{method}: {error}"))?;
        match answer["error"].take() {
            Value::Null => Ok(answer["result"].take()),
            // What the real one tells the model.
            error => Ok(json!({"isError": true, "content": [{"type": "text", "text": error.to_string()}]})),
        }
    }
}
