//! Looking at a session, and waiting until there is something to see.

use std::time::Duration;

use gatehouse_proto::ids::{LeaseId, SessionId};

use super::{Engine, Fault, Outcome};
use crate::session::{Command, Session, apply};

impl Engine {
    /// Looks at a session with a lease. Writes only when the lease is worth renewing; where it cannot be written, the
    /// answer is still given, with the lease as it was.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub async fn look(&self, id: &SessionId, lease: LeaseId) -> Result<Outcome, Fault> {
        let before = self.load(id).await?;
        let step = apply(&before, self.now(), Command::Look { lease: lease.clone() })?;
        if step.session == before {
            return Ok(Outcome { session: before, answer: step.answer });
        }
        match self.submit(id, None, move |_, _| Ok(Command::Look { lease })).await {
            Err(Fault::Ledger(error)) => {
                tracing::error!(%error, "a lease could not be renewed");
                Ok(Outcome { session: before, answer: step.answer })
            }
            other => other,
        }
    }

    /// Waits until `enough` holds of the session, at most for `wait`, and gives it as it then is.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub async fn wait_until(
        &self,
        id: &SessionId,
        wait: Duration,
        enough: impl Fn(&Session) -> bool,
    ) -> Result<Session, Fault> {
        let mut changes = self.watch(id);
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let session = self.load(id).await?;
            if enough(&session) || tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(session);
            }
        }
    }
}
