//! Asking until something holds, instead of sleeping and hoping.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks `probe` until it gives something.
///
/// # Panics
/// When it does not within [`PATIENCE`]; `what` says what was waited for.
pub async fn until<T, F>(what: &str, mut probe: F) -> T
where
    F: AsyncFnMut() -> Option<T>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited a minute in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
