//! A starting executor takes over what the old one left.

use gatehouse_proto::ids::RunId;

use super::Runners;
use crate::engine::{Fault, Order, parse};
use crate::ledger::{runs, sessions};
use crate::session::{Command, Session, Status};

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
                let mut all = sessions::live(connection)?;
                all.extend(sessions::expired_with_a_process(connection)?);
                Ok(all)
            })
            .await?;
        for text in texts {
            let session = parse(&text)?;
            let session = engine.submit(&session.id, None, |_, _| Ok(Command::Restarted)).await?.session;
            self.adopt(&session).await?;
        }
        Ok(())
    }

    async fn adopt(&self, session: &Session) -> Result<(), Fault> {
        if let Some(ending) = &session.ending {
            let order = Order::End { session: session.id.clone(), run: ending.run_id.clone() };
            self.hold_again(session, &ending.run_id, ending.epoch).await?;
            self.shared.engine.order(order);
        }
        let Some((run, epoch)) = session.state.run().map(|run| (run.id.clone(), run.epoch)) else {
            return Ok(());
        };
        if !self.hold_again(session, &run, epoch).await? {
            self.expect_or_launch(session, run, epoch).await?;
        }
        Ok(())
    }

    /// Holds the process that the ledger names; reports it gone if it is. `false`: the ledger names none.
    async fn hold_again(&self, session: &Session, run: &RunId, epoch: u32) -> Result<bool, Fault> {
        match self.find(run).await {
            Ok(Some(process)) => self.hold(&session.id, run, epoch, process).await.map(|()| true),
            Ok(None) => Ok(false),
            Err(gone) if gone.is_proven() => {
                let why = format!("the runner was found to be gone after a restart of the gateway ({gone})");
                self.report_gone(&session.id, run.clone(), epoch, why).await;
                Ok(true)
            }
            // Not proof of anything: its shim will call, or the lease will run out.
            Err(_) => Ok(true),
        }
    }

    /// The old executor went between committing the run and noting its process.
    async fn expect_or_launch(&self, session: &Session, run: RunId, epoch: u32) -> Result<(), Fault> {
        let wanted = run.clone();
        let linked = self.shared.engine.read(move |connection| runs::has_link(connection, &wanted)).await?;
        if !linked {
            self.shared.engine.order(Order::Launch { session: session.id.clone(), run, epoch });
            return Ok(());
        }
        // There may be a shim on its way; it has as long as a launch may take.
        let (this, id, limit) =
            (self.clone(), session.id.clone(), self.shared.engine.settings().claude.launch_timeout);
        tokio::spawn(async move {
            let heard = |s: &Session| s.state.status() != Status::Starting;
            match this.shared.engine.wait_until(&id, limit, heard).await {
                Ok(state) if !heard(&state) && this.held(&run).is_none() => {
                    this.report_gone(
                        &id,
                        run,
                        epoch,
                        "the launch was cut off by a restart of the gateway".to_owned(),
                    )
                    .await;
                }
                _ => {}
            }
        });
        Ok(())
    }
}
