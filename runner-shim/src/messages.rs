//! The Messages API as far as Claude Code uses it: model turns, an estimate of tokens, and a hello.
//!
//! A request is known by its turn key ([`turn_key`]), never by its bytes or its connection: Claude Code repeats requests
//! after a dropped stream, after its own watchdog, and in another form (`stream: false`), and each copy must meet the
//! same turn and the same reply. Claude Code's own words are not forwarded, but for the short texts of tool results.

mod answer;
mod estimate;
mod render;
mod request;
mod turn_key;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::{head, post};
use axum::{Router, middleware};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::binding::Binding;
use crate::gate::{self, Gate};
use crate::link::Link;
use crate::run::Orders;

/// The largest request, in bytes. The history grows with the session; ours are small, prompts and replies are not.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// Whether Claude Code was found to be set up as asked, which its init line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// Not known yet: no turn is opened.
    Unchecked,
    /// As asked; it took this long to start and say so.
    Good(Duration),
}

/// What the handlers need.
#[derive(Debug, Clone)]
pub struct Bridge {
    /// The executor.
    pub link: Link,
    /// The run's number, which stands in the marker of its prompt.
    pub ordinal: u32,
    /// The model name that answers carry.
    pub model: std::sync::Arc<str>,
    /// Between two signs of life on an open answer.
    pub ping: Duration,
    /// Turns wait for this.
    pub setup: watch::Receiver<Setup>,
    /// For what the tools port has to know of the last reply.
    pub binding: Binding,
    /// For what ends the run.
    pub orders: Orders,
}

/// The routes of the Messages port.
pub fn router(bridge: Bridge, gate: Gate) -> Router {
    Router::new()
        .route("/api/hello", head(|| async { StatusCode::OK }))
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .fallback(|| async { not_found() })
        .method_not_allowed_fallback(|| async { not_found() })
        .layer(middleware::from_fn_with_state(Arc::new(gate), gate::check))
        .with_state(bridge)
}

async fn messages(State(bridge): State<Bridge>, body: Body) -> Response {
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return too_large();
    };
    let asked = request::parse(&body, bridge.ordinal);
    // The body may be large, and the answer may be days away.
    drop(body);
    match asked {
        Ok(asked) => bridge.answer(asked).await,
        Err(reason) => bridge.refuse(reason.to_string()).await,
    }
}

async fn count_tokens(body: Body) -> Response {
    match to_bytes(body, MAX_BODY).await {
        Ok(body) => json_response(StatusCode::OK, &json!({ "input_tokens": estimate::tokens(&body) })),
        Err(_) => too_large(),
    }
}

fn not_found() -> Response {
    api_error(StatusCode::NOT_FOUND, "not_found_error", "there is nothing here")
}

fn too_large() -> Response {
    api_error(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", "the request is too large, or broke off")
}

/// An error as the Messages API has it.
pub fn api_error(status: StatusCode, kind: &str, message: &str) -> Response {
    json_response(status, &render::error(kind, message))
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
