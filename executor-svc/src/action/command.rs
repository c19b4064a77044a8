//! A command's way: looked at, prepared, run once, settled.

use super::{Actions, Open, blocking};
use crate::commands::{CommandCall, CommandFault, Places, Plan};
use crate::engine::{Fault, Flight};
use crate::fail_point::{FailPoint, reach};
use crate::folders::SessionFolders;
use crate::session::{Command, Isolation, Refusal};
use crate::tools::{command_receipt, refused_command_receipt};

impl Actions {
    pub(super) async fn run_command(
        &self,
        open: Open,
        call: CommandCall,
        flight: &Flight,
    ) -> Result<(), Fault> {
        let refused = |fault: &CommandFault| refused_command_receipt(&open.id, open.budget(), fault);
        let plan = match self.plan(&open, call).await? {
            Ok(plan) => plan,
            Err(fault) => return self.settle(&open.session.id, open.id.clone(), refused(&fault)).await,
        };
        let prepared = open.id.clone();
        let prepare = move |_: &_, _| Ok(Command::Prepare { id: prepared, intent: None });
        match self.engine.submit(&open.session.id, None, prepare).await {
            Ok(_) => {}
            // A stop or an expiry came first and left a receipt that says so.
            Err(Fault::Refused(Refusal::NotAuthorised)) => return Ok(()),
            Err(fault) => return Err(fault),
        }
        let receipt = match self.commands.run(plan, &flight.cancel(), &flight.progress()).await {
            Ok(finished) => command_receipt(&open.id, open.budget(), &finished),
            Err(fault) => refused(&fault),
        };
        reach(FailPoint::ActionPerformed);
        self.settle_in_the_end(&open.session.id, open.id.clone(), receipt).await;
        Ok(())
    }

    async fn plan(&self, open: &Open, call: CommandCall) -> Result<Result<Plan, CommandFault>, Fault> {
        let folders = SessionFolders::of(&self.engine.settings().state_dir, &open.session.id);
        let (commands, files) = (self.commands.clone(), self.files_of(&open.session));
        let worktree = open.session.isolation.as_ref().and_then(Isolation::made);
        let repository = worktree.map(|worktree| worktree.common_dir.clone());
        blocking(move || {
            // Made with the session's first launch; one that is older than the scratch has none yet.
            if !folders.scratch().is_dir() {
                folders.make().map_err(|error| {
                    // Where the folders lie is nobody's business.
                    CommandFault::Sandbox(format!("the session's scratch cannot be made: {}", error.kind()))
                })?;
            }
            commands.plan(&call, &files, Places { scratch: folders.scratch(), repository })
        })
        .await
    }
}
