//! HTTP responses, of ours and of the library.

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use serde_json::Value;

use crate::transport::jsonrpc::{self, INTERNAL_ERROR, Rejection};

/// A JSON body.
pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    with(status, "application/json", value.to_string())
}

/// A line of text.
pub(super) fn plain(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    with(status, "text/plain; charset=utf-8", text)
}

fn with(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The library did not answer as it should.
pub(super) fn broken(id: Option<Value>) -> Rejection {
    Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, "The front could not answer.").about(id)
}

/// What the library answered: JSON and empty answers as they are, anything else as a rejection.
///
/// # Errors
/// When the library refused in plain text, or failed.
pub(super) async fn settle(
    response: Response<BoxBody<Bytes, std::convert::Infallible>>,
    id: Option<Value>,
) -> Result<Response<Body>, Rejection> {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/json") || status == StatusCode::ACCEPTED {
        return Ok(response.map(Body::new));
    }
    if status.is_client_error() {
        // The media types and the envelope were checked before: what the library cannot read are the parameters.
        let status = if id.is_some() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        let what = "The parameters do not have the form that the protocol gives them.";
        return Err(Rejection::new(status, jsonrpc::INVALID_PARAMS, what).about(id));
    }
    tracing::error!(%status, "the protocol library gave an answer that cannot be passed on");
    Err(broken(id))
}

/// The status as a label; those that occur.
pub(super) const fn status_label(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200 => "200",
        202 => "202",
        400 => "400",
        401 => "401",
        403 => "403",
        404 => "404",
        405 => "405",
        406 => "406",
        408 => "408",
        413 => "413",
        415 => "415",
        503 => "503",
        _ => "other",
    }
}

/// The JSON-RPC code as a label; those that occur.
pub(super) const fn code_label(code: i64) -> &'static str {
    match code {
        jsonrpc::PARSE_ERROR => "parse_error",
        jsonrpc::INVALID_REQUEST => "invalid_request",
        jsonrpc::METHOD_NOT_FOUND => "method_not_found",
        jsonrpc::INVALID_PARAMS => "invalid_params",
        jsonrpc::INTERNAL_ERROR => "internal_error",
        jsonrpc::HEADER_MISMATCH => "header_mismatch",
        jsonrpc::UNSUPPORTED_VERSION => "unsupported_version",
        -32001 => "unauthorized",
        -32003 => "forbidden",
        -32004 => "not_found",
        -32005 => "method_not_allowed",
        -32006 => "not_acceptable",
        -32008 => "timeout",
        -32013 => "too_large",
        -32015 => "unsupported_media_type",
        _ => "other",
    }
}
