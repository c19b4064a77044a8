//! Telling running work to end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Tells what runs under it to end. Cheap to clone and to ask.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Mark>);

#[derive(Debug, Default)]
struct Mark {
    set: AtomicBool,
    told: Notify,
}

impl Cancel {
    /// Ends what runs under it, soon.
    pub fn cancel(&self) {
        self.0.set.store(true, Ordering::Release);
        self.0.told.notify_waiters();
    }

    /// Whether that was asked for.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Waits until it is asked for.
    pub async fn cancelled(&self) {
        let told = self.0.told.notified();
        tokio::pin!(told);
        // In line before looking, so that a cancel between the two is not missed.
        told.as_mut().enable();
        if !self.is_cancelled() {
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancel_reaches_whoever_waits_before_or_after_it() {
        let cancel = Cancel::default();
        let waits = tokio::spawn({
            let cancel = cancel.clone();
            async move { cancel.cancelled().await }
        });
        tokio::task::yield_now().await;
        assert!(!cancel.is_cancelled());
        cancel.cancel();
        waits.await.unwrap();
        cancel.cancelled().await;
        assert!(cancel.is_cancelled());
    }
}
