//! One request of the Messages API, and its answer, read whole.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::answer::{Message, Reader};
use super::connect::{Trust, connect};
use super::failure::{AskError, bounded};
use crate::config::{DeepseekSettings, RouteModel};
use crate::credential::Credential;

/// How much of an error's body is read, in bytes.
const ERROR_BODY: usize = 64 * 1024;
/// The revision of the API.
const API_VERSION: &str = "2023-06-01";

/// The client. Each request has a connection of its own, which goes with it.
#[derive(Debug, Default)]
pub(super) struct Client {
    trust: Trust,
}

/// Ends what serves a connection, whatever becomes of the request.
struct Served(tokio::task::JoinHandle<()>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Asks, and reads the answer to its end. Redirects are not followed: the credential is for this endpoint.
    pub(super) async fn ask(
        &self,
        settings: &DeepseekSettings,
        model: &RouteModel,
        credential: &Credential,
        body: Bytes,
    ) -> Result<Message, AskError> {
        let request = request(settings, credential, body)?;
        let stream = connect(settings, &self.trust).await?;
        let unreachable = |error: hyper::Error| AskError::Unreachable(error.to_string());
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
        // What goes wrong with the connection is what goes wrong with the request.
        let _served = Served(tokio::spawn(async move { drop(connection.await) }));
        let response =
            sender.send_request(request).await.map_err(|error| AskError::Cut(error.to_string()))?;
        if response.status() != http::StatusCode::OK {
            return Err(error_of(response, credential).await);
        }
        read(response, settings, model, credential).await
    }
}

fn request(
    settings: &DeepseekSettings,
    credential: &Credential,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, AskError> {
    let odd = |error: http::Error| AskError::Invalid(error.to_string());
    let endpoint = &settings.endpoint;
    let mut key = HeaderValue::from_bytes(credential.reveal()).map_err(|error| odd(error.into()))?;
    key.set_sensitive(true);
    let host = endpoint.authority().map(|authority| authority.as_str()).unwrap_or_default();
    Request::post(format!("{}/v1/messages", endpoint.path().trim_end_matches('/')))
        .header(HOST, host)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, if settings.stream { "text/event-stream" } else { "application/json" })
        .header(USER_AGENT, concat!("gatehouse/", env!("CARGO_PKG_VERSION")))
        .header("anthropic-version", API_VERSION)
        .header("x-api-key", key)
        .body(Full::new(body))
        .map_err(odd)
}

async fn read(
    response: Response<Incoming>,
    settings: &DeepseekSettings,
    model: &RouteModel,
    credential: &Credential,
) -> Result<Message, AskError> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut reader = Reader::new(kind, model, credential);
    let (mut body, mut bytes) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| AskError::Cut(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        bytes += data.len();
        if bytes > settings.answer_bytes {
            return Err(AskError::AnswerTooLarge(settings.answer_bytes));
        }
        reader.push(&data)?;
    }
    reader.finish()
}

/// An answer other than 200, in its own words as far as these are fit to be repeated.
async fn error_of(response: Response<Incoming>, credential: &Credential) -> AskError {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let mut text = Vec::new();
    let mut body = response.into_body();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let room = ERROR_BODY - text.len();
        text.extend_from_slice(&data[..data.len().min(room)]);
        if text.len() >= ERROR_BODY {
            break;
        }
    }
    let parsed: Value = serde_json::from_slice(&text).unwrap_or_default();
    let (error_type, message) = words(&parsed["error"], credential);
    let message = message.unwrap_or_else(|| match text.is_empty() {
        true => "without a body".to_owned(),
        false => bounded(&credential.redact(&String::from_utf8_lossy(&text))),
    });
    AskError::Status { status, error_type, message, retry_after }
}

/// Type and message of an error object, cleaned.
pub(super) fn words(error: &Value, credential: &Credential) -> (Option<String>, Option<String>) {
    let clean = |text: &str| bounded(&credential.redact(text));
    let error_type = error["type"].as_str().map(|text| clean(text).chars().take(60).collect());
    (error_type, error["message"].as_str().map(clean))
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}
