//! A starting executor takes over what the old one left.

use gatehouse_proto::ids::RunId;
use tokio::task::JoinSet;

use super::{NotFound, Runners};
use crate::engine::{Fault, Order, parse};
use crate::ledger::{LedgerError, sessions};
use crate::session::{Command, Session, Status, Subagent, SubagentState};

impl Runners {
    /// Goes through every session that is not at rest: a runner that lives is held again, one that is gone is reported,
    /// an end that was begun is finished, a launch that was ordered and not begun is begun.
    ///
    /// # Errors
    /// When the ledger cannot be read or written.
    pub async fn adopt_all(&self) -> Result<(), Fault> {
        let engine = &self.shared.engine;
        let texts = engine
            .read(|connection| {
                let live = sessions::live_readable(connection)?;
                for id in live.damaged {
                    tracing::error!(session = id, "a session's row is damaged, so nothing is done for it");
                }
                let mut all = live.texts;
                all.extend(sessions::expired_with_a_process(connection)?);
                Ok(all)
            })
            .await?;
        // All at the same time, so that they share their commits: nobody is served before this is over.
        let mut adoptions = JoinSet::new();
        for text in texts {
            let (this, id) = (self.clone(), parse(&text)?.id);
            adoptions.spawn(async move {
                let restarted = this.shared.engine.submit(&id, None, |_, _| Ok(Command::Restarted)).await?;
                this.adopt(&restarted.session).await
            });
        }
        while let Some(adopted) = adoptions.join_next().await {
            adopted.map_err(|panicked| LedgerError::damaged("adoption", panicked))??;
        }
        Ok(())
    }

    async fn adopt(&self, session: &Session) -> Result<(), Fault> {
        if let Some(subagent) = &session.subagent {
            self.adopt_subagent(session, subagent).await?;
        }
        if let Some(ending) = &session.ending {
            let order = Order::End { session: session.id.clone(), run: ending.run_id.clone() };
            self.hold_again(session, &ending.run_id, ending.epoch).await?;
            self.shared.engine.order(order);
        }
        let Some((run, epoch)) = session.state.run().map(|run| (run.id.clone(), run.epoch)) else {
            return Ok(());
        };
        let noted = self.hold_again(session, &run, epoch).await?;
        match session.state.status() {
            // The wait for the first turn went with the old executor.
            Status::Starting if noted => self.watch_for_the_first_turn(session.id.clone(), run),
            // A shim gets its link token only after its identity is durable. So whatever the old executor may have
            // started without noting it has no token, and has ended.
            Status::Starting => {
                self.report(&session.id, Command::Relaunch { run_id: run, epoch }).await;
            }
            _ if noted => {}
            // Its shim will call, or the lease will run out.
            status => tracing::warn!(session = %session.id, ?status, "a run without a noted process"),
        }
        Ok(())
    }

    /// The same for a subagent. An answer that the old executor was waiting for is asked for again: whether the provider
    /// has made it meanwhile cannot be known, and may cost twice; what it authorises is committed once either way.
    async fn adopt_subagent(&self, session: &Session, subagent: &Subagent) -> Result<(), Fault> {
        let (run, epoch) = (subagent.run.id.clone(), subagent.run.epoch);
        let noted = self.hold_again(session, &run, epoch).await?;
        let engine = &self.shared.engine;
        let id = session.id.clone();
        match &subagent.state {
            SubagentState::Starting if noted => self.watch_for_the_first_turn(id, run),
            SubagentState::Starting => engine.order(Order::Launch { session: id, run, epoch }),
            SubagentState::Asking { turn, .. } => {
                engine.order(Order::Ask { session: id, turn: turn.clone() });
            }
            SubagentState::Stopping { .. } => engine.order(Order::End { session: id, run }),
            SubagentState::Working => {}
        }
        Ok(())
    }

    /// Holds the process that the ledger names; reports it gone if it is. `false`: the ledger names none.
    async fn hold_again(&self, session: &Session, run: &RunId, epoch: u32) -> Result<bool, Fault> {
        match self.find(run).await {
            Ok(Some(process)) => {
                self.watch_over(&session.id, run, epoch, process);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(gone) if gone.is_proven() => {
                let why = format!("the runner was found to be gone after a restart of the gateway ({gone})");
                self.report_gone(&session.id, run.clone(), epoch, why).await;
                Ok(true)
            }
            Err(NotFound::Ledger(error)) => Err(error.into()),
            // Not proof of anything: its shim will call, or the lease will run out.
            Err(NotFound::Process(error)) => {
                tracing::warn!(session = %session.id, %error, "a runner could not be taken hold of");
                Ok(true)
            }
        }
    }
}
