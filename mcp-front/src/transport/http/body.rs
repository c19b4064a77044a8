//! Reading a request's body within bounds of size and time.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::BytesMut;
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::transport::jsonrpc::{self, Rejection};

/// How long a body may take to arrive.
const WITHIN: Duration = Duration::from_secs(30);
/// How much of a body that is too large is taken and thrown away, so that its sender gets to read the answer.
const THROWN_AWAY: usize = 64 * 1024 * 1024;

enum Ended {
    Complete,
    TooLarge,
    Broken,
    TooSlow,
}

/// The whole body.
///
/// # Errors
/// 413, 408, or 400 when the connection breaks, with the message's id if what came tells it.
pub(super) async fn whole(mut body: Body, at_most: usize) -> Result<BytesMut, Rejection> {
    let deadline = Instant::now() + WITHIN;
    let mut bytes = BytesMut::new();
    let rejection = match collect(&mut body, &mut bytes, at_most, deadline).await {
        Ended::Complete => return Ok(bytes),
        Ended::TooLarge => {
            let id = jsonrpc::peek_id(&bytes);
            drop(bytes);
            discard(body, deadline).await;
            let what = format!("The message has more than {at_most} bytes.");
            return Err(Rejection::http(StatusCode::PAYLOAD_TOO_LARGE, what).about(id));
        }
        Ended::Broken => Rejection::http(StatusCode::BAD_REQUEST, "The message did not arrive whole."),
        Ended::TooSlow => {
            Rejection::http(StatusCode::REQUEST_TIMEOUT, "The message took too long to arrive.")
        }
    };
    Err(rejection.about(jsonrpc::peek_id(&bytes)))
}

/// The beginning of a body, as much as there is of it.
pub(super) async fn beginning(mut body: Body, at_most: usize) -> BytesMut {
    let mut bytes = BytesMut::new();
    let deadline = Instant::now() + WITHIN;
    if matches!(collect(&mut body, &mut bytes, at_most, deadline).await, Ended::TooLarge) {
        discard(body, deadline).await;
    }
    bytes
}

async fn collect(body: &mut Body, bytes: &mut BytesMut, at_most: usize, deadline: Instant) -> Ended {
    loop {
        match timeout_at(deadline, body.frame()).await {
            Err(_) => return Ended::TooSlow,
            Ok(None) => return Ended::Complete,
            Ok(Some(Err(_))) => return Ended::Broken,
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                let room = at_most - bytes.len();
                bytes.extend_from_slice(data.get(..room).unwrap_or(&data));
                if data.len() > room {
                    return Ended::TooLarge;
                }
            }
        }
    }
}

async fn discard(body: Body, deadline: Instant) {
    let mut left = THROWN_AWAY;
    let mut stream: BodyDataStream = body.into_data_stream();
    while let Ok(Some(Ok(data))) = timeout_at(deadline, next(&mut stream)).await {
        left = left.saturating_sub(data.len());
        if left == 0 {
            break;
        }
    }
}

async fn next(stream: &mut BodyDataStream) -> Option<Result<bytes::Bytes, axum::Error>> {
    match stream.frame().await? {
        Ok(frame) => Some(Ok(frame.into_data().unwrap_or_default())),
        Err(error) => Some(Err(error)),
    }
}
