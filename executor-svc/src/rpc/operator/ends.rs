//! Ending sessions and runs in the operator's name.

use gatehouse_proto::ids::RequestKey;

use super::OperatorService;
use crate::engine::{Fault, Once, parse};
use crate::ledger::{LedgerError, sessions};
use crate::session::{Command, Session, Status};

impl OperatorService {
    /// Stops a session in the operator's name; one that is stopped already is as it should be.
    pub(super) async fn stop(
        &self,
        id: &gatehouse_proto::ids::SessionId,
        request_id: RequestKey,
        reason: String,
    ) -> Result<Session, Fault> {
        let content_hash = gatehouse_proto::digest::digest(&serde_json::json!({ "reason": reason }));
        let once = Once { scope: format!("stop {id}"), key: request_id.clone(), content_hash, mints: None };
        let command = move |_: &rusqlite::Connection, claim| {
            Ok(Command::Stop { lease: None, claim, request_id, reason })
        };
        match self.engine.submit(id, Some(once), command).await {
            Ok(_)
            | Err(Fault::Refused(
                crate::session::Refusal::SessionStopped | crate::session::Refusal::SessionBusy(_),
            )) => {
                self.engine
                    .wait_until(id, std::time::Duration::from_secs(10), |s| {
                        s.state.status() == Status::Stopped
                    })
                    .await
            }
            Err(fault) => Err(fault),
        }
    }

    /// Ends every run, all at the same time, and sees those out that are ending already; gives how many are gone.
    pub(super) async fn end_all_runs(&self) -> Result<u32, LedgerError> {
        let mut ends = tokio::task::JoinSet::new();
        for session in self.with_a_process().await? {
            let this = self.clone();
            ends.spawn(async move {
                let id = session.id.clone();
                match this.end_run(session).await {
                    Ok(true) => return 1,
                    Ok(false) => tracing::error!(session = %id, "a runner did not end in time"),
                    Err(fault) => tracing::error!(session = %id, %fault, "a run could not be ended"),
                }
                0
            });
        }
        Ok(ends.join_all().await.into_iter().sum())
    }

    /// Sessions with a run under way, or with one whose process is still being ended.
    async fn with_a_process(&self) -> Result<Vec<Session>, LedgerError> {
        let looked = self.engine.read(|connection| {
            let mut texts = sessions::live(connection)?;
            texts.extend(sessions::expired_with_a_process(connection)?);
            texts.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()
        });
        let mut found = looked.await?;
        found.retain(|session| {
            session.state.run().is_some() || session.ending.is_some() || session.subagent.is_some()
        });
        Ok(found)
    }

    /// Ends a session's run and keeps the session: it can be continued when the gateway is back. Gives whether the
    /// process is seen to be gone.
    async fn end_run(&self, session: Session) -> Result<bool, Fault> {
        if let Some((run_id, epoch)) = session.state.run().map(|run| (run.id.clone(), run.epoch)) {
            let command = Command::Interrupt { run_id, epoch, why: "the gateway was shut down".to_owned() };
            self.engine.submit(&session.id, None, move |_, _| Ok(command)).await?;
        }
        let limit = std::time::Duration::from_secs(10);
        let over = |s: &Session| s.ending.is_none() && s.subagent.is_none();
        let ended = self.engine.wait_until(&session.id, limit, over).await?;
        Ok(over(&ended))
    }
}
