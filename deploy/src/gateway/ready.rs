//! Asking until the executor and the front say that they are ready.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;

use crate::chatgpt::http::{Endpoint, send};
use crate::failure::Failure;
use crate::operator::{self, Operator};

/// How often a process that is starting is asked.
const PAUSE: Duration = Duration::from_millis(25);

/// Returns when the executor answers `Health`.
pub async fn executor_ready(operator: &mut Operator) {
    while operator::health(operator).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns when the front's `/readyz` says yes, which means that it reaches the executor.
///
/// # Errors
/// When the request itself cannot be made.
pub async fn front_ready(endpoint: &Endpoint) -> Result<(), Failure> {
    loop {
        let request = endpoint
            .request(http::Method::GET, "/readyz")
            .body(Full::<Bytes>::default())
            .map_err(|error| Failure::failed(error.to_string()))?;
        match send(endpoint, request).await {
            Ok(reply) if reply.status.is_success() => return Ok(()),
            Ok(_) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
