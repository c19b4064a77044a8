//! What a POST's headers must say, and which of them the front fills in for the library.

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value, json};

use super::jsonrpc::{self, HEADER_MISMATCH, Message, Rejection, UNSUPPORTED_VERSION};

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Checks what can be checked before the body is read.
///
/// # Errors
/// 405, 406 or 415.
pub(super) fn check(method: &Method, headers: &HeaderMap) -> Result<(), Rejection> {
    if method != Method::POST {
        return Err(Rejection::http(
            StatusCode::METHOD_NOT_ALLOWED,
            "Only POST is answered here; there are no streams.",
        ));
    }
    if !(accepts(headers, JSON) && accepts(headers, EVENTS)) {
        return Err(Rejection::http(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name application/json and text/event-stream.",
        ));
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !essence(content_type).eq_ignore_ascii_case(JSON) || headers.contains_key(CONTENT_ENCODING) {
        return Err(Rejection::http(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json, without Content-Encoding.",
        ));
    }
    Ok(())
}

fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// Whether a media type is among those accepted, by name or by a wildcard, and not excluded by a weight of zero.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let (family, _) = wanted.split_once('/').unwrap_or((wanted, ""));
    let named = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|range| {
        let kind = essence(range).to_ascii_lowercase();
        let fits = kind == wanted || kind == "*/*" || kind.strip_suffix("/*") == Some(family);
        fits && !weighs_nothing(range)
    })
}

fn weighs_nothing(range: &str) -> bool {
    range.split(';').skip(1).filter_map(|parameter| parameter.split_once('=')).any(|(name, value)| {
        name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0)
    })
}

/// The headers that the library gets to see: those of the protocol, as the caller sent them, and what is absent filled
/// in from the message. Nothing that is present is changed, so a contradiction is still found.
///
/// # Errors
/// 400, when a revision is named that is not offered, or named twice.
pub(super) fn for_library(
    sent: &HeaderMap,
    message: &Message,
    offered: &[ProtocolVersion],
) -> Result<HeaderMap, Rejection> {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("localhost"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    for (name, value) in sent {
        if name == VERSION || name == METHOD || name == NAME || name.as_str().starts_with("mcp-param-") {
            headers.append(name, value.clone());
        }
    }
    let (whole, method) = match message {
        Message::Request { whole, method, .. } => (whole, Some(*method)),
        Message::Notification { whole } => (whole, None),
    };
    fill(&mut headers, VERSION, jsonrpc::declared_version(whole));
    if method != Some("initialize") {
        check_version(&headers, offered)?;
    }
    if declares_standard_headers(&headers) {
        fill(&mut headers, METHOD, whole.get("method").and_then(Value::as_str));
        fill(
            &mut headers,
            NAME,
            method.filter(|method| *method == "tools/call").and_then(|_| tool_name(whole)),
        );
    }
    Ok(headers)
}

fn tool_name(whole: &Map<String, Value>) -> Option<&str> {
    whole.get("params")?.get("name")?.as_str()
}

fn fill(headers: &mut HeaderMap, name: HeaderName, text: Option<&str>) {
    if headers.contains_key(&name) {
        return;
    }
    // A value that no header can carry stays absent, and the library refuses the request.
    if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
        headers.insert(name, value);
    }
}

fn check_version(headers: &HeaderMap, offered: &[ProtocolVersion]) -> Result<(), Rejection> {
    let mut named = headers.get_all(VERSION).iter();
    let Some(version) = named.next() else { return Ok(()) };
    if named.next().is_some() {
        let what = "MCP-Protocol-Version is given more than once.";
        return Err(Rejection::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, what));
    }
    if offered.iter().any(|offer| offer.as_str().as_bytes() == version.as_bytes()) {
        return Ok(());
    }
    let requested: String = String::from_utf8_lossy(version.as_bytes()).chars().take(40).collect();
    Err(Rejection::new(StatusCode::BAD_REQUEST, UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(json!({"supported": offered, "requested": requested})))
}

fn declares_standard_headers(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION).and_then(|value| value.to_str().ok());
    version.is_some_and(|version| version >= ProtocolVersion::STANDARD_HEADERS.as_str())
}

#[cfg(test)]
mod tests;
