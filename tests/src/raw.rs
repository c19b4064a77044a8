//! Requests that no decent client would send.

use bytes::Bytes;
use gatehouse::chatgpt::http::{Endpoint, Reply, send};
use http_body_util::Full;
use serde_json::Value;

/// An answer to a raw request, its body parsed where it is JSON.
#[derive(Debug)]
pub struct RawAnswer {
    /// HTTP status.
    pub status: u16,
    /// The body as JSON; `Null` where it is none.
    pub json: Value,
    /// The body as it came.
    pub text: String,
}

/// POSTs these bytes to the MCP path with the usual headers.
///
/// # Panics
/// When there is no HTTP answer.
pub async fn post(endpoint: &Endpoint, body: impl Into<Bytes>) -> RawAnswer {
    let request = endpoint.post().body(Full::new(body.into())).expect("a request of fixed parts");
    answer(&send(endpoint, request).await.expect("the front answers"))
}

/// Sends any request.
///
/// # Panics
/// When there is no HTTP answer.
pub async fn exchange(endpoint: &Endpoint, request: http::Request<Full<Bytes>>) -> RawAnswer {
    answer(&send(endpoint, request).await.expect("the front answers"))
}

fn answer(reply: &Reply) -> RawAnswer {
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    RawAnswer {
        status: reply.status.as_u16(),
        json: serde_json::from_str(&text).unwrap_or(Value::Null),
        text,
    }
}
