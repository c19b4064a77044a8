//! After a crash: what was prepared and has no receipt. What is on disk is compared with the intent.

use std::sync::Arc;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::{SessionId, ToolCallId};

use super::change::Words;
use super::{Actions, blocking, input_of};
use crate::content::ContentFault;
use crate::engine::Fault;
use crate::files::replace::{Intent, Reconciled, Verdict};
use crate::ledger::LedgerError;
use crate::ledger::actions::{self, ActionRow};
use crate::session::Receipt;
use crate::tools::change::{Facts, refusal};
use crate::tools::{ChangeInput, CheckedInput, ReceiptBudget, interrupted_command_receipt};

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
            let uncertain = self.engine.load(&session)?.uncertain;
            if uncertain.iter().any(|action| action.as_str() == row.id) {
                // A person decides, and nothing on disk changes before.
                continue;
            }
            tracing::warn!(%session, action = row.id, name = row.name, "an action was interrupted");
            self.reconcile_one(&session, &row).await?;
        }
        Ok(())
    }

    /// The same for one, which nobody has in flight.
    pub(super) async fn reconcile_one(&self, session: &SessionId, row: &ActionRow) -> Result<(), Fault> {
        let id = row.id.parse::<ToolCallId>().map_err(|error| LedgerError::damaged("action.id", error))?;
        let budget = ReceiptBudget::of_bytes(row.budget as usize);
        match row.name.as_str() {
            actions::UNDO => return self.reconcile_undo(session, id, row).await,
            actions::RESOLVE => return self.reconcile_resolve(session, id, row).await,
            _ => {}
        }
        match input_of(row)? {
            CheckedInput::Command(_) => {
                let receipt = interrupted_command_receipt(&id, budget);
                self.settle(session, id, receipt).await
            }
            CheckedInput::Change(input) => self.reconcile_change(session, id, input, row).await,
            CheckedInput::Reading(_) | CheckedInput::Subagent(_) => {
                Err(LedgerError::damaged("action.state", "what only looks is never prepared").into())
            }
        }
    }

    async fn reconcile_change(
        &self,
        session: &SessionId,
        id: ToolCallId,
        input: ChangeInput,
        row: &ActionRow,
    ) -> Result<(), Fault> {
        let intent = intent_of(row)?;
        let files = self.files_of(&self.engine.load(session)?);
        let (replacer, looked_for) = (self.workshop.replacer.clone(), intent.clone());
        let Reconciled { verdict, directories } =
            blocking(move || replacer.reconcile(&files, &looked_for)).await?;
        let budget = ReceiptBudget::of_bytes(row.budget as usize);
        let receipt = match verdict {
            Verdict::NotApplied => not_applied(&id, &input, budget),
            Verdict::Applied => match self.words(id.clone(), budget, input, &intent).await? {
                Ok(words) => words.receipt_with(None, &directories),
                Err(fault) => {
                    let why = format!("the file is what it should become, but {fault}");
                    self.mark_uncertain(session, id, why).await;
                    return Ok(());
                }
            },
            Verdict::Uncertain { why } => {
                self.mark_uncertain(session, id, why).await;
                return Ok(());
            }
        };
        self.settle(session, id, receipt).await
    }

    /// What the receipt of a change needs, made again from what was kept.
    pub(super) async fn words(
        &self,
        id: ToolCallId,
        budget: ReceiptBudget,
        input: ChangeInput,
        intent: &Intent,
    ) -> Result<Result<Words, ContentFault>, Fault> {
        let before = self.kept(intent.before.sha256()).await?;
        let after = self.kept(intent.after.sha256()).await?;
        let (before, after) = match (before, after) {
            (Ok(before), Ok(after)) => (before.map(Arc::new), Arc::new(after.unwrap_or_default())),
            (Err(fault), _) | (_, Err(fault)) => return Ok(Err(fault)),
        };
        // The same input and the same bytes gave this plan once already.
        let facts = input
            .plan(before.as_deref().map(Vec::as_slice), u64::MAX)
            .map_or(Facts::Write { note: None }, |planned| planned.facts);
        Ok(Ok(Words { id, budget, input, facts, before, after }))
    }
}

/// The intent of an action that was prepared.
pub(super) fn intent_of(row: &ActionRow) -> Result<Intent, LedgerError> {
    let text = row.intent.as_deref().ok_or_else(|| LedgerError::damaged("action.intent", "missing"))?;
    serde_json::from_str(text).map_err(|error| LedgerError::damaged("action.intent", error))
}

fn not_applied(id: &ToolCallId, input: &ChangeInput, budget: ReceiptBudget) -> Receipt {
    let words = (
        ActionCode::Cancelled,
        "the gateway was restarted before the change was made; the file is as it was",
        "Make the change again if it is still wanted.",
    );
    refusal(id, input.tool(), budget, words)
}
