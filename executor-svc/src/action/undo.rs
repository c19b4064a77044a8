//! Undoing a write: an action of its own, prepared and made like any other, if the file is still what the write left.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::{SessionId, ToolCallId};
use serde_json::json;

use super::operation::{OperationFault, OperatorRequest, PATIENCE, Subject, expect_bound, once_of};
use super::reconcile::intent_of;
use super::{Actions, Workshop, blocking};
use crate::content::{ContentFault, Keeping};
use crate::engine::Fault;
use crate::files::SessionFiles;
use crate::files::replace::{Intent, Outcome, Prepared, Reconciled, ReplaceFault, Target, Verdict};
use crate::ledger::LedgerError;
use crate::ledger::actions::{ActionRow, UNDO};
use crate::session::{Answer, Command, Receipt, UndoAsk};
use crate::tools::operation::{Kind, Operation, receipt, refusal};

/// An undo that is ready: the contents can be kept, nothing on disk has changed.
struct Ready {
    prepared: Prepared,
    words: Words,
    keeping: Keeping,
}

/// Everything that the receipt of an undo needs, but what came of it.
pub(super) struct Words {
    id: ToolCallId,
    undoes: String,
    intent: Intent,
    before: Option<Arc<Vec<u8>>>,
    after: Option<Arc<Vec<u8>>>,
    note: Option<&'static str>,
}

impl Actions {
    /// Undoes a write, and gives the action that did. Its receipt says whether it worked; without one it is uncertain.
    ///
    /// # Errors
    /// Why it was not begun: the file is not what the write left, its contents are not kept any more, an action of the
    /// session is under way, the id was used for something else.
    pub async fn undo(&self, ask: OperatorRequest) -> Result<ActionRow, OperationFault> {
        let this = self.clone();
        self.operate(async move { this.undo_now(ask).await }).await
    }

    async fn undo_now(&self, ask: OperatorRequest) -> Result<ActionRow, OperationFault> {
        let once = once_of(UNDO, &ask, &json!({ "tool_call_id": ask.action }));
        if let Some(row) = self.asked_before(UNDO, &ask.session, &once).await? {
            return Ok(row);
        }
        let subject = self.subject(&ask.session, &ask.action).await?;
        expect_made(&subject)?;
        let session = ask.session.clone();
        let (id, flight) = self.begin(&session);
        let (workshop, files, tag) = (self.workshop.clone(), self.files_of(&subject.session), id.clone());
        let Ready { prepared, words, keeping } =
            blocking(move || workshop.ready_to_undo(&files, &subject, &tag)).await??;
        let (own, intent) = (id.clone(), prepared.intent().clone());
        let engine = self.engine.clone();
        let begun = self.submit_keeping(&session, Some(once), keeping, move |_, claim| {
            let in_flight = engine.performing().of(&ask.session).into_iter().map(|performed| performed.id);
            let performing = in_flight.filter(|performed| *performed != own).collect();
            let (request_id, reverts) = (ask.request_id, ask.action);
            let undo = UndoAsk { id: own, request_id, reverts, intent, performing };
            Ok(Command::BeginUndo(claim, Box::new(undo)))
        });
        if begun.await?.answer == Answer::Replayed {
            return Err(LedgerError::damaged("once.key", "used while its turn was held").into());
        }
        let done = blocking(move || (prepared.perform(), words)).await?;
        match done {
            (Ok(outcome), words) => {
                self.settle_in_the_end(&session, id.clone(), words.receipt(&outcome)).await;
            }
            (Err(ReplaceFault::Uncertain { why, .. }), _) => {
                self.mark_uncertain(&session, id.clone(), why).await;
            }
            (Err(fault), words) => self.settle_in_the_end(&session, id.clone(), words.failure(&fault)).await,
        }
        drop(flight);
        self.recorded(&id).await
    }

    /// After a crash: what became of an undo.
    pub(super) async fn reconcile_undo(
        &self,
        session: &SessionId,
        id: ToolCallId,
        row: &ActionRow,
    ) -> Result<(), Fault> {
        let intent = intent_of(row)?;
        let files = self.files_of(&self.engine.load(session)?);
        let (replacer, looked_for) = (self.workshop.replacer.clone(), intent.clone());
        let Reconciled { verdict, directories } =
            blocking(move || replacer.reconcile(&files, &looked_for)).await?;
        match verdict {
            Verdict::NotApplied => {
                let receipt = Words::without_contents(id.clone(), row, intent).interrupted();
                self.settle(session, id, receipt).await
            }
            Verdict::Applied => {
                let receipt = self.undone(session, id.clone(), row, intent, &directories).await?;
                self.settle(session, id, receipt).await
            }
            Verdict::Uncertain { why } => {
                self.mark_uncertain(session, id, why).await;
                Ok(())
            }
        }
    }

    /// The receipt of an undo that is made on the disk and was not told: directories that it had still to remove are
    /// removed.
    pub(super) async fn undone(
        &self,
        session: &SessionId,
        id: ToolCallId,
        row: &ActionRow,
        intent: Intent,
        created: &[PathBuf],
    ) -> Result<Receipt, Fault> {
        let removed = match intent.after.sha256() {
            Some(_) => Vec::new(),
            None => self.remove_directories(session, row, &intent).await?,
        };
        let mut words = Words::without_contents(id, row, intent);
        match (self.kept(words.intent.before.sha256()).await?, self.kept(words.intent.after.sha256()).await?)
        {
            (Ok(before), Ok(after)) => {
                (words.before, words.after, words.note) = (before.map(Arc::new), after.map(Arc::new), None);
            }
            (Err(_), _) | (_, Err(_)) => {}
        }
        Ok(words.receipt_with(None, created, &removed))
    }

    /// Goes on with removing the directories that the action had made which was undone; gives those that are gone.
    async fn remove_directories(
        &self,
        session: &SessionId,
        row: &ActionRow,
        intent: &Intent,
    ) -> Result<Vec<PathBuf>, Fault> {
        let Some(Ok(reverts)) = row.reverts.clone().map(ToolCallId::try_from) else { return Ok(Vec::new()) };
        let subject = match self.subject(session, &reverts).await {
            Ok(subject) => subject,
            Err(OperationFault::Engine(fault)) => return Err(fault),
            Err(_) => return Ok(Vec::new()),
        };
        let (replacer, files, path) =
            (self.workshop.replacer.clone(), self.files_of(&subject.session), intent.path.clone());
        blocking(move || {
            let mut made = subject.made_directories();
            let _ = replacer.remove_empty(&files, &path, &made);
            made.retain(|directory| directory.symlink_metadata().is_err());
            made.reverse();
            made
        })
        .await
    }

    /// What the content store has of these bytes.
    pub(super) async fn kept(
        &self,
        sha256: Option<&str>,
    ) -> Result<Result<Option<Vec<u8>>, ContentFault>, Fault> {
        let Some(sha256) = sha256.map(str::to_owned) else { return Ok(Ok(None)) };
        let content = self.workshop.content.clone();
        Ok(blocking(move || content.get(&sha256)).await?.map(Some))
    }
}

/// Only what was made can be undone.
fn expect_made(subject: &Subject) -> Result<(), OperationFault> {
    let Subject { session, id, row, .. } = subject;
    if session.uncertain.contains(id) {
        return Err(OperationFault::unfit(
            format!("Nobody can tell whether action {id} ({}) was made.", row.name),
            "Decide what it comes to with `gatehouse resolve`.",
        ));
    }
    match (row.state.as_str(), row.ok) {
        ("done", Some(true)) => Ok(()),
        ("done", _) => Err(OperationFault::unfit(
            format!("Action {id} ({}) did not work, so it left nothing to undo.", row.name),
            "`gatehouse show` lists what each action came to.",
        )),
        _ => Err(OperationFault::unfit(
            format!("Action {id} ({}) is under way.", row.name),
            "Ask again when it has its receipt; `gatehouse show` tells.",
        )),
    }
}

impl Workshop {
    fn ready_to_undo(
        &self,
        files: &Arc<SessionFiles>,
        subject: &Subject,
        id: &ToolCallId,
    ) -> Result<Ready, OperationFault> {
        expect_bound(&subject.session)?;
        let target = self.replacer.open(files, &subject.intent.path, Instant::now() + PATIENCE)?;
        expect_as_left(subject, &target)?;
        let before = target.shared_bytes();
        let after =
            subject.intent.before.sha256().map(|sha256| self.content.get(sha256)).transpose()?.map(Arc::new);
        let prepared = match &after {
            Some(bytes) => target.prepare_shared(Arc::clone(bytes), id.as_str()),
            None => target.prepare_removal(&subject.made_directories(), id.as_str()),
        }?;
        let keeping = self.keep(prepared.intent(), before.as_ref(), after.as_ref())?;
        let (undoes, intent) = (subject.id.to_string(), prepared.intent().clone());
        let words = Words { id: id.clone(), undoes, intent, before, after, note: None };
        Ok(Ready { prepared, words, keeping })
    }
}

/// The file has to be exactly what the action left.
fn expect_as_left(subject: &Subject, target: &Target) -> Result<(), OperationFault> {
    let (left, now) = (subject.intent.after.sha256(), target.sha256());
    if left == now {
        return Ok(());
    }
    let what = match (left, now) {
        (Some(left), Some(now)) => {
            format!("is not what the action wrote: its SHA-256 is {now}, and was {left} after the action")
        }
        (Some(_), None) => "is gone since".to_owned(),
        (None, Some(now)) => format!("was removed by the action and is there again, with the SHA-256 {now}"),
        (None, None) => return Ok(()),
    };
    Err(OperationFault::Refused {
        code: ActionCode::ChangedMeanwhile,
        message: format!("{}: {what}.", target.path().display()),
        what_to_do:
            "Nothing was changed. Undo what came later first, newest first; `gatehouse diff` shows what the \
                     action did."
                .to_owned(),
    })
}

impl Words {
    /// With what the ledger alone knows.
    fn without_contents(id: ToolCallId, row: &ActionRow, intent: Intent) -> Self {
        let undoes = row.reverts.clone().unwrap_or_default();
        let note = "The contents are not kept any more, so no difference can be shown.";
        Self { id, undoes, intent, before: None, after: None, note: Some(note) }
    }

    fn receipt(&self, outcome: &Outcome) -> Receipt {
        self.receipt_with(Some(outcome), &outcome.created_directories, &outcome.removed_directories)
    }

    fn receipt_with(&self, outcome: Option<&Outcome>, created: &[PathBuf], removed: &[PathBuf]) -> Receipt {
        fn side<'a>(sha256: Option<&'a str>, bytes: Option<&'a Arc<Vec<u8>>>) -> Option<(&'a str, &'a [u8])> {
            sha256.map(|sha256| (sha256, bytes.map(|bytes| bytes.as_slice()).unwrap_or_default()))
        }
        let operation = Operation {
            kind: self.kind(),
            path: &self.intent.path,
            before: side(self.intent.before.sha256(), self.before.as_ref()),
            after: side(self.intent.after.sha256(), self.after.as_ref()),
            outcome,
            created_directories: created,
            removed_directories: removed,
            note: self.note,
        };
        receipt(&self.id, UNDO, &operation)
    }

    fn kind(&self) -> Kind<'_> {
        Kind::Undo { undoes: &self.undoes }
    }

    fn failure(&self, fault: &ReplaceFault) -> Receipt {
        let words = (fault.code(), &*fault.to_string(), &*fault.hint());
        refusal(&self.id, UNDO, self.kind(), &self.intent.path, words)
    }

    fn interrupted(&self) -> Receipt {
        let words = (
            ActionCode::Cancelled,
            "the gateway was restarted before the undo was made; the file is as it was",
            "Undo it again if it is still wanted.",
        );
        refusal(&self.id, UNDO, self.kind(), &self.intent.path, words)
    }
}
