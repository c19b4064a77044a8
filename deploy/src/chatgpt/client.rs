//! JSON-RPC requests and the answers to them, whatever carries them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use serde_json::{Value, json};

use super::answer::{State, ToolError, tool_answer};
use super::http::{Endpoint, ExchangeError, send};
use super::stdio::Pipe;

/// The protocol revision that the scripted ChatGPT speaks.
pub const PROTOCOL: &str = "2025-11-25";

/// Longer than any wait the contract allows; a call that takes longer is a fault.
const PATIENCE: Duration = Duration::from_secs(90);

/// Sees every byte that comes back from the front.
#[derive(Clone)]
pub struct Tap(Arc<See>);

type See = dyn Fn(&[u8]) + Send + Sync;

impl Tap {
    /// A tap that calls `see` with each answer's body.
    pub fn new(see: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(see))
    }

    pub(super) fn see(&self, bytes: &[u8]) {
        (self.0)(bytes);
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tap")
    }
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("JSON-RPC error {code}: {message}")]
pub struct RpcError {
    /// The number, for example -32601.
    pub code: i64,
    /// What the server says about it.
    pub message: String,
    /// More, if the server says more.
    pub data: Option<Value>,
}

/// Why a call has no session state to show.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The HTTP exchange failed.
    #[error(transparent)]
    Http(#[from] ExchangeError),
    /// The child's pipe failed.
    #[error("the pipe to the front failed: {0}")]
    Pipe(#[from] io::Error),
    /// The server answered with a JSON-RPC error.
    #[error(transparent)]
    Rpc(#[from] Box<RpcError>),
    /// The tool answered with an error of its own.
    #[error(transparent)]
    Tool(#[from] Box<ToolError>),
    /// The answer is not what the protocol says it is.
    #[error("the answer is not of the agreed form: {0}")]
    Shape(String),
    /// No answer in time.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    TimedOut,
}

impl ClientError {
    /// The stable code of the tool error, if it is one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Tool(error) => Some(&error.code),
            Self::Http(_) | Self::Pipe(_) | Self::Rpc(_) | Self::Shape(_) | Self::TimedOut => None,
        }
    }
}

#[derive(Debug)]
enum Wire {
    Http(Endpoint),
    Stdio(Box<Pipe>),
}

/// An MCP client of one front.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    ids: AtomicU64,
    tap: Option<Tap>,
}

impl Client {
    /// A client over HTTP; nothing is sent yet.
    #[must_use]
    pub fn http(endpoint: Endpoint, tap: Option<Tap>) -> Self {
        Self { wire: Wire::Http(endpoint), ids: AtomicU64::new(1), tap }
    }

    /// A client of a child that was started with the same tap.
    #[must_use]
    pub fn stdio(pipe: Pipe) -> Self {
        Self { wire: Wire::Stdio(Box::new(pipe)), ids: AtomicU64::new(1), tap: None }
    }

    /// The pipe, when this is a client over stdio.
    pub fn pipe(&mut self) -> Option<&mut Pipe> {
        match &mut self.wire {
            Wire::Stdio(pipe) => Some(pipe),
            Wire::Http(_) => None,
        }
    }

    /// The handshake of the protocol; returns the server's answer.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub async fn initialize(&self) -> Result<Value, ClientError> {
        let hello = json!({
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "scripted-chatgpt", "version": env!("CARGO_PKG_VERSION")},
        });
        let answer = self.request("initialize", hello).await?;
        self.notify("notifications/initialized").await?;
        Ok(answer)
    }

    /// Sends a request and gives back its result.
    ///
    /// # Errors
    /// When there is no answer, or it is an error, or not of the agreed form.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = tokio::time::timeout(PATIENCE, self.carry(id, &message));
        let answer = answer.await.map_err(|_| ClientError::TimedOut)??;
        rpc_result(id, answer)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When it does not get through.
    pub async fn notify(&self, method: &str) -> Result<(), ClientError> {
        let message = json!({"jsonrpc": "2.0", "method": method});
        match &self.wire {
            Wire::Http(endpoint) => self.post(endpoint, &message).await.map(drop),
            Wire::Stdio(pipe) => Ok(pipe.tell(&message).await?),
        }
    }

    /// Calls a tool and gives back the session state that it answers with.
    ///
    /// # Errors
    /// As [`request`](Self::request), and [`ClientError::Tool`] when the tool refuses.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<State, ClientError> {
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await?;
        tool_answer(result)
    }

    async fn carry(&self, id: u64, message: &Value) -> Result<Value, ClientError> {
        match &self.wire {
            Wire::Http(endpoint) => {
                let body = self.post(endpoint, message).await?;
                serde_json::from_slice(&body).map_err(|error| {
                    ClientError::Shape(format!("{error} in {:?}", String::from_utf8_lossy(&body)))
                })
            }
            Wire::Stdio(pipe) => Ok(pipe.ask(id, message).await?),
        }
    }

    async fn post(&self, endpoint: &Endpoint, message: &Value) -> Result<Bytes, ClientError> {
        let request = endpoint
            .post()
            .header("MCP-Protocol-Version", PROTOCOL)
            .body(Full::from(message.to_string()))
            .map_err(|error| ClientError::Shape(error.to_string()))?;
        let reply = send(endpoint, request).await?;
        if let Some(tap) = &self.tap {
            tap.see(&reply.body);
        }
        Ok(reply.body)
    }
}

fn rpc_result(id: u64, answer: Value) -> Result<Value, ClientError> {
    let Value::Object(mut answer) = answer else {
        return Err(ClientError::Shape("not a JSON object".to_owned()));
    };
    if let Some(error) = answer.remove("error") {
        let error = RpcError {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error.get("data").cloned(),
        };
        return Err(Box::new(error).into());
    }
    if answer.get("id").and_then(Value::as_u64) != Some(id) {
        return Err(ClientError::Shape(format!("an answer to another request than {id}")));
    }
    answer.remove("result").ok_or_else(|| ClientError::Shape("neither result nor error".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_object_becomes_a_typed_error_and_a_foreign_id_is_refused() {
        let error = rpc_result(1, json!({"id": 1, "error": {"code": -32601, "message": "no"}})).unwrap_err();
        assert!(matches!(&error, ClientError::Rpc(error) if error.code == -32601), "{error}");
        assert!(matches!(rpc_result(1, json!({"id": 2, "result": {}})), Err(ClientError::Shape(_))));
        assert_eq!(rpc_result(1, json!({"id": 1, "result": {"a": 1}})).unwrap(), json!({"a": 1}));
    }
}
