//! After a crash: what was prepared and has no receipt.

use gatehouse_proto::ids::{SessionId, ToolCallId};

use super::{Actions, input_of};
use crate::engine::Fault;
use crate::ledger::LedgerError;
use crate::ledger::actions::{self, ActionRow};
use crate::session::Receipt;
use crate::tools::{CheckedInput, ReceiptBudget, interrupted_command_receipt};

impl Actions {
    /// Brings every action to its end that the last executor had prepared and not settled. To be called before anybody
    /// is served: nothing may be in flight.
    ///
    /// # Errors
    /// When the ledger cannot be read or written.
    pub async fn reconcile(&self) -> Result<(), Fault> {
        for row in self.engine.read(actions::prepared).await? {
            let session = row
                .session_id
                .parse::<SessionId>()
                .map_err(|error| LedgerError::damaged("action.session_id", error))?;
            tracing::warn!(%session, action = row.id, name = row.name, "an action was interrupted");
            self.reconcile_one(&session, &row).await?;
        }
        Ok(())
    }

    /// The same for one, which nobody has in flight.
    pub(super) async fn reconcile_one(&self, session: &SessionId, row: &ActionRow) -> Result<(), Fault> {
        let id = row.id.parse::<ToolCallId>().map_err(|error| LedgerError::damaged("action.id", error))?;
        let receipt = interrupted(&id, row)?;
        self.settle(session, id, receipt).await
    }
}

fn interrupted(id: &ToolCallId, row: &ActionRow) -> Result<Receipt, LedgerError> {
    let budget = ReceiptBudget::of_bytes(row.budget as usize);
    match input_of(row)? {
        CheckedInput::Command(_) => Ok(interrupted_command_receipt(id, budget)),
        CheckedInput::Reading(_) => {
            Err(LedgerError::damaged("action.state", "what only looks is never prepared"))
        }
    }
}
