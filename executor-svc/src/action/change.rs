//! A write's way: looked at, planned, both contents kept, prepared, made, settled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::ToolCallId;

use super::{Actions, Open};
use crate::content::{ContentFault, ContentStore, Keeping, Whole};
use crate::engine::{Fault, Flight};
use crate::fail_point::{FailPoint, reach};
use crate::files::SessionFiles;
use crate::files::replace::{Intent, Outcome, Prepared, ReplaceFault, Replacer};
use crate::session::{Command, Isolation, Receipt, Refusal};
use crate::tools::change::{Change, Facts, NewBytes, expect_room_for, receipt, refusal};
use crate::tools::{ChangeInput, ReceiptBudget};

/// How long another action may hold the path.
const PATIENCE: Duration = Duration::from_secs(30);

/// A change that is ready: both contents can be kept, nothing on disk has changed.
struct Ready {
    prepared: Prepared,
    words: Words,
    keeping: Keeping,
}

/// Everything that the receipt of a change needs, but what came of it.
pub(super) struct Words {
    pub id: ToolCallId,
    pub budget: ReceiptBudget,
    pub input: ChangeInput,
    pub facts: Facts,
    pub before: Option<Arc<Vec<u8>>>,
    pub after: Arc<Vec<u8>>,
}

impl Actions {
    /// To be called on a thread that may block, which it does.
    pub(super) async fn change(&self, open: Open, input: ChangeInput, flight: &Flight) -> Result<(), Fault> {
        let (id, session, budget) = (open.id.clone(), open.session.id.clone(), open.budget());
        let files = self.files_of(&open.session);
        let ready = still_bound(open.session.isolation.as_ref(), &input, &id, budget)
            .and_then(|()| self.workshop.make_ready(&files, input, &id, budget));
        let ready = match ready {
            Ok(ready) => ready,
            Err(receipt) => return self.settle(&session, id, *receipt).await,
        };
        if flight.cancel().is_cancelled() {
            // The receipt that says so was written by whoever cancelled it.
            return Ok(());
        }
        let Ready { prepared, words, keeping } = ready;
        let (asked, intent) = (id.clone(), Box::new(prepared.intent().clone()));
        let prepare = move |_: &_, _| Ok(Command::Prepare { id: asked, intent: Some(intent) });
        match self.submit_keeping(&session, None, keeping, prepare).await {
            Ok(_) => {}
            // A stop or an expiry came first and left a receipt that says so.
            Err(Fault::Refused(Refusal::NotAuthorised)) => return Ok(()),
            Err(fault) => return Err(fault),
        }
        let done = prepared.perform();
        reach(FailPoint::ActionPerformed);
        match done {
            Ok(outcome) => self.settle_in_the_end(&session, id, words.receipt(Some(&outcome))).await,
            Err(ReplaceFault::Uncertain { why, .. }) => self.mark_uncertain(&session, id, why).await,
            Err(fault) => self.settle_in_the_end(&session, id, words.refusal(&fault)).await,
        }
        Ok(())
    }
}

/// Whether a session's worktree is still the one that was made. That its directory is still the root is looked at again,
/// component by component, when the path is opened.
fn still_bound(
    isolation: Option<&Isolation>,
    input: &ChangeInput,
    id: &ToolCallId,
    budget: ReceiptBudget,
) -> Result<(), Box<Receipt>> {
    let Some(worktree) = isolation.and_then(Isolation::made) else { return Ok(()) };
    worktree.verify().map_err(|fault| {
        let words = (
            ActionCode::OutsideRoot,
            &*format!("the session's worktree is not what it was: {fault}"),
            "The user moved or replaced it; start a new session.",
        );
        Box::new(refusal(id, input.tool(), budget, words))
    })
}

/// What changes files: one for the whole executor. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Workshop {
    pub replacer: Replacer,
    pub content: ContentStore,
}

impl Workshop {
    fn make_ready(
        &self,
        files: &Arc<SessionFiles>,
        input: ChangeInput,
        id: &ToolCallId,
        budget: ReceiptBudget,
    ) -> Result<Ready, Box<Receipt>> {
        let name = input.tool();
        let refused =
            |code, message: &str, hint: &str| Box::new(refusal(id, name, budget, (code, message, hint)));
        let faulty = |fault: ReplaceFault| refused(fault.code(), &fault.to_string(), &fault.hint());
        let target =
            self.replacer.open(files, input.path().as_ref(), Instant::now() + PATIENCE).map_err(faulty)?;
        let planned = input
            .plan(target.bytes(), self.replacer.max_bytes())
            .map_err(|fault| refused(fault.code, &fault.message, &fault.hint))?;
        let before = target.shared_bytes();
        let (after, is_changed) = match planned.bytes {
            NewBytes::Unchanged => (before.clone().unwrap_or_default(), false),
            NewBytes::Replaced(bytes) => (Arc::new(bytes), true),
        };
        let words = Words { id: id.clone(), budget, input, facts: planned.facts, before, after };
        if !is_changed {
            return Err(Box::new(words.receipt(None)));
        }
        let prepared = target.prepare_shared(Arc::clone(&words.after), id.as_str()).map_err(faulty)?;
        expect_room_for(words.input.path(), &prepared.intent().create_directories)
            .map_err(|fault| refused(fault.code, &fault.message, &fault.hint))?;
        let keeping = self
            .keep(prepared.intent(), words.before.as_ref(), Some(&words.after))
            .map_err(|fault| refused(fault.code(), &fault.to_string(), fault.hint()))?;
        Ok(Ready { prepared, words, keeping })
    }

    /// Keeps what a write is about, so that the ledger can name it.
    pub fn keep(
        &self,
        intent: &Intent,
        before: Option<&Arc<Vec<u8>>>,
        after: Option<&Arc<Vec<u8>>>,
    ) -> Result<Keeping, ContentFault> {
        let both = [(intent.before.sha256(), before), (intent.after.sha256(), after)];
        let named = |(sha256, bytes): (Option<_>, Option<_>)| Some(Whole { sha256: sha256?, bytes: bytes? });
        let contents: Vec<_> = both.into_iter().filter_map(named).collect();
        self.content.keep(&contents)
    }
}

impl Words {
    /// The receipt of a change that was made; without an outcome where nothing was to be written.
    pub fn receipt(&self, outcome: Option<&Outcome>) -> Receipt {
        let made = outcome.map(|outcome| outcome.created_directories.as_slice()).unwrap_or_default();
        self.receipt_with(outcome, made)
    }

    /// The same where a crash came between the change and its receipt: what was found afterwards stands for the outcome.
    pub fn receipt_with(
        &self,
        outcome: Option<&Outcome>,
        created_directories: &[std::path::PathBuf],
    ) -> Receipt {
        let change = Change {
            path: self.input.path(),
            facts: &self.facts,
            before: self.before.as_deref().map(Vec::as_slice),
            after: &self.after,
            outcome,
            created_directories,
        };
        receipt(&self.id, self.input.tool(), self.budget, &change)
    }

    fn refusal(&self, fault: &ReplaceFault) -> Receipt {
        let words = (fault.code(), &*fault.to_string(), &*fault.hint());
        refusal(&self.id, self.input.tool(), self.budget, words)
    }
}
