//! What tunnel-client does with a front over HTTP: a connection per exchange, headers put together, answers judged.

use bytes::Bytes;
use gatehouse::chatgpt::http::{Endpoint, ExchangeError, MCP_PATH, Reply, send};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::control::Posted;
use crate::record::{Record, Way};

/// The largest error body that is passed on as it is.
const KEPT_ERROR: usize = 100 * 1024;

/// The way to the front.
#[derive(Debug, Clone)]
pub(super) struct Front {
    /// Where; without a key, which is among the headers.
    pub endpoint: Endpoint,
    /// Of the configured URL.
    pub host: String,
    /// The profile's `extra_headers`.
    pub extra: HeaderMap,
    /// What comes back from the front is put on record.
    pub record: Record,
}

impl Front {
    /// One exchange; `forwarded` headers come last, and win.
    pub(super) async fn exchange(
        &self,
        method: Method,
        path: &str,
        forwarded: &HeaderMap,
        body: Bytes,
    ) -> Result<Reply, ExchangeError> {
        let mut request = Request::new(Full::new(body));
        let is_post = method == Method::POST;
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path");
        let headers = request.headers_mut();
        headers.insert(http::header::HOST, self.host.parse().expect("a host"));
        if !forwarded.contains_key(http::header::ACCEPT) {
            headers.insert(
                http::header::ACCEPT,
                HeaderValue::from_static("application/json, text/event-stream"),
            );
        }
        if is_post {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for from in [&self.extra, forwarded] {
            for name in from.keys() {
                headers.remove(name);
                for value in from.get_all(name) {
                    headers.append(name, value.clone());
                }
            }
        }
        let reply = send(&self.endpoint, request).await?;
        self.record.add(Way::Mcp, String::from_utf8_lossy(&reply.body));
        Ok(reply)
    }

    /// A message for the MCP path, and what is posted for it.
    pub(super) async fn message(&self, message: &Value, forwarded: &HeaderMap) -> Posted {
        let body = Bytes::from(message.to_string());
        let answered = self.exchange(Method::POST, MCP_PATH, forwarded, body).await;
        judge(message, answered)
    }

    /// The end of a session that a header names.
    pub(super) async fn terminate(&self, forwarded: &HeaderMap) -> Posted {
        let answered = self.exchange(Method::DELETE, MCP_PATH, forwarded, Bytes::new()).await;
        let code = answered.map_or(502, |reply| reply.status.as_u16().into());
        Posted { code, kind: "session_termination_response".to_owned(), json: Value::Null }
    }
}

/// The command's multi-valued headers.
pub(super) fn header_map(headers: &Value) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, values) in headers.as_object().into_iter().flatten() {
        for value in values.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header's name");
            map.append(name, HeaderValue::from_str(value).expect("a header's value"));
        }
    }
    map
}

fn judge(message: &Value, answered: Result<Reply, ExchangeError>) -> Posted {
    let final_answer =
        |code: u16, json| Posted { code: code.into(), kind: "jsonrpc_response".to_owned(), json };
    let failed = |source: &str, status: Option<StatusCode>| {
        let mut failure =
            json!({"version": 1, "source": source, "upstream_response_received": status.is_some()});
        if let Some(status) = status {
            failure["upstream_status"] = json!(status.as_u16());
        }
        let error = json!({"code": -32603, "message": "Bad Gateway", "data": {"tunnel_failure": failure}});
        final_answer(502, json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
    };
    let reply = match answered {
        Ok(reply) => reply,
        Err(ExchangeError::Connect { .. }) => return failed("connect", None),
        Err(ExchangeError::Broken { .. }) => return failed("transport_closed", None),
    };
    if message.get("id").is_none() && reply.status.is_success() {
        return Posted {
            code: reply.status.as_u16().into(),
            kind: "notify_ack".to_owned(),
            json: Value::Null,
        };
    }
    let json: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let is_answer = json["jsonrpc"] == "2.0" && json.get("id") == message.get("id");
    if reply.status.is_success() {
        return if is_answer { final_answer(200, json) } else { failed("protocol", Some(reply.status)) };
    }
    let is_error = is_answer && json["error"].is_object() && json.get("result").is_none();
    match is_error && reply.body.len() <= KEPT_ERROR {
        true => final_answer(reply.status.as_u16(), json),
        false => failed("target_http", Some(reply.status)),
    }
}
