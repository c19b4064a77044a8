//! The way out of uncertainty: a person decides what a write comes to that is neither made nor not made.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::{SessionId, ToolCallId};
use serde::Deserialize;
use serde_json::json;

use super::operation::{OperationFault, OperatorRequest, PATIENCE, Subject, expect_bound, name_of, once_of};
use super::reconcile::intent_of;
use super::{Actions, Workshop, blocking, input_of};
use crate::content::Keeping;
use crate::engine::{Fault, Once};
use crate::files::SessionFiles;
use crate::files::replace::{Intent, Left, Outcome, Prepared, Reconciled, ReplaceFault, Verdict};
use crate::ledger::LedgerError;
use crate::ledger::actions::{ActionRow, RESOLVE, UNDO};
use crate::session::{Answer, Command, Decision, Receipt, Resolution, ResolveAsk};
use crate::tools::operation::{Decided, Kind, Operation, decided, receipt, refusal};
use crate::tools::{CheckedInput, ReceiptBudget};

/// What stands on the disk.
#[derive(Debug, Clone)]
enum Disk {
    Nothing,
    File {
        sha256: String,
        bytes: Vec<u8>,
    },
    /// It cannot be read, and why.
    Unreadable(String),
}

/// A resolving that is ready: nothing on disk has changed, but that the write's own temporary file is gone.
struct Ready {
    /// What is to be written; nothing where the disk has it already.
    prepared: Option<Prepared>,
    before: Disk,
    after: Disk,
    note: Option<String>,
    keeping: Keeping,
}

/// Everything that the receipts of a resolving need, but what came of it.
struct Words {
    by: ToolCallId,
    decision: Decision,
    subject: Subject,
    before: Disk,
    after: Disk,
    note: Option<String>,
}

/// What the operator asked for, as it stands in the ledger.
#[derive(Debug, Deserialize)]
struct Asked {
    tool_call_id: ToolCallId,
    decision: Decision,
}

impl Actions {
    /// Decides what an uncertain write comes to, and gives the action that did. Its receipt says whether it worked; if
    /// not, the session waits as before.
    ///
    /// # Errors
    /// Why it was not begun: the action is not uncertain, the contents are not kept any more, the id was used for
    /// something else.
    pub async fn resolve(
        &self,
        ask: OperatorRequest,
        decision: Decision,
    ) -> Result<ActionRow, OperationFault> {
        let this = self.clone();
        self.operate(async move { this.resolve_now(ask, decision).await }).await
    }

    async fn resolve_now(
        &self,
        ask: OperatorRequest,
        decision: Decision,
    ) -> Result<ActionRow, OperationFault> {
        let once = once_of(RESOLVE, &ask, &json!({ "tool_call_id": ask.action, "decision": decision }));
        if let Some(row) = self.asked_before(RESOLVE, &ask.session, &once).await? {
            return Ok(row);
        }
        let subject = self.subject(&ask.session, &ask.action).await?;
        if !subject.session.uncertain.contains(&subject.id) {
            return Err(OperationFault::unfit(
                format!(
                    "Action {} ({}) is not uncertain: there is nothing to decide.",
                    subject.id, subject.row.name
                ),
                "`gatehouse show` tells which action the session waits for.",
            ));
        }
        let (id, flight) = self.begin(&ask.session);
        let (workshop, files) = (self.workshop.clone(), self.files_of(&subject.session));
        let (tag, about) = (id.clone(), subject.clone());
        let ready = blocking(move || workshop.ready_to_resolve(&files, &about, decision, &tag)).await??;
        let Ready { prepared, before, after, note, keeping } = ready;
        let intent = prepared.as_ref().map(Prepared::intent);
        self.begin_resolve(&ask, &id, decision, intent, (once, keeping)).await?;
        let words = Words { by: id.clone(), decision, subject, before, after, note };
        let done = blocking(move || (prepared.map(Prepared::perform).transpose(), words)).await?;
        match done {
            (Ok(outcome), words) => self.finish_resolve(&words, outcome.as_ref(), &[]).await?,
            (Err(fault), words) => {
                self.settle_in_the_end(&ask.session, id.clone(), words.failure(&fault)).await;
            }
        }
        drop(flight);
        self.recorded(&id).await
    }

    async fn begin_resolve(
        &self,
        ask: &OperatorRequest,
        id: &ToolCallId,
        decision: Decision,
        intent: Option<&Intent>,
        (once, keeping): (Once, Keeping),
    ) -> Result<(), OperationFault> {
        let resolve = ResolveAsk {
            id: id.clone(),
            request_id: ask.request_id.clone(),
            resolves: ask.action.clone(),
            decision,
            intent: intent.cloned(),
        };
        let begin = move |_: &_, claim| Ok(Command::BeginResolve(claim, Box::new(resolve)));
        match self.submit_keeping(&ask.session, Some(once), keeping, begin).await?.answer {
            Answer::Replayed => Err(LedgerError::damaged("once.key", "used while its turn was held").into()),
            _ => Ok(()),
        }
    }

    /// Records both receipts.
    async fn finish_resolve(
        &self,
        words: &Words,
        outcome: Option<&Outcome>,
        created: &[PathBuf],
    ) -> Result<(), Fault> {
        let session = &words.subject.session.id;
        let created = outcome.map_or(created, |outcome| &outcome.created_directories);
        let resolution = Resolution {
            by: words.by.clone(),
            own: words.receipt(outcome, created),
            resolves: words.subject.id.clone(),
            receipt: self.receipt_of_subject(words, created).await?,
        };
        self.submit_in_the_end(session, Command::Resolve(Box::new(resolution))).await;
        Ok(())
    }

    /// What the uncertain write is told to have come to.
    async fn receipt_of_subject(&self, words: &Words, created: &[PathBuf]) -> Result<Receipt, Fault> {
        let Subject { session, id, row, intent } = &words.subject;
        let budget = ReceiptBudget::of_bytes(row.budget as usize);
        if words.decision == Decision::RestoreAfter {
            if row.name == UNDO {
                return self.undone(&session.id, id.clone(), row, intent.clone(), created).await;
            }
            if let CheckedInput::Change(input) = input_of(row)?
                && let Ok(change) = self.words(id.clone(), budget, input, intent).await?
            {
                return Ok(change.receipt_with(None, created));
            }
        }
        let why = match words.decision {
            Decision::KeepDisk => (
                ActionCode::Uncertain,
                "nobody can tell whether it was made; the person at the machine looked at the file and kept it as it is",
                "Read the file before it is changed again.",
            ),
            Decision::RestoreBefore => (
                ActionCode::Cancelled,
                "nobody could tell whether it was made; the person at the machine restored the file as it was before",
                "Make the change again if it is still wanted.",
            ),
            Decision::RestoreAfter => (
                ActionCode::Uncertain,
                "nobody could tell whether it was made; the person at the machine made the file what it should become, \
                 and the contents are not kept any more that would show the difference",
                "Read the file before it is changed again.",
            ),
        };
        let facts = Decided {
            resolved_by: words.by.as_str(),
            decision: words.decision.as_str(),
            file_path: &intent.path,
            before_sha256: intent.before.sha256(),
            intended_sha256: intent.after.sha256(),
            disk_sha256: words.after.sha256(),
        };
        Ok(decided(id, name_of(row)?, budget, why, &facts))
    }

    /// After a crash: what became of a resolving. What was decided and needed no write is recorded now.
    pub(super) async fn reconcile_resolve(
        &self,
        session: &SessionId,
        by: ToolCallId,
        row: &ActionRow,
    ) -> Result<(), Fault> {
        let asked: Asked =
            serde_json::from_str(&row.input).map_err(|error| LedgerError::damaged("action.input", error))?;
        let subject = match self.subject(session, &asked.tool_call_id).await {
            Ok(subject) => subject,
            Err(OperationFault::Engine(fault)) => return Err(fault),
            Err(fault) => return Err(LedgerError::damaged("action.input", fault).into()),
        };
        let decision = asked.decision;
        let files = self.files_of(&subject.session);
        let (workshop, wrote) = (self.workshop.clone(), row.intent.is_some());
        let intent = if wrote { intent_of(row)? } else { subject.intent.clone() };
        let (looked_for, about) = (files.clone(), intent.clone());
        let Reconciled { verdict, directories } = if wrote {
            blocking(move || workshop.replacer.reconcile(&looked_for, &about)).await?
        } else {
            Reconciled { verdict: Verdict::Applied, directories: Vec::new() }
        };
        let workshop = self.workshop.clone();
        let path = intent.path.clone();
        let disk = blocking(move || workshop.disk(&files, &path)).await?;
        let before = match self.kept(intent.before.sha256()).await? {
            _ if !wrote => disk.clone(),
            Ok(Some(bytes)) => Disk::of(intent.before.sha256(), Some(&bytes)),
            Ok(None) | Err(_) => Disk::of(intent.before.sha256(), None),
        };
        let words = Words { by, decision, subject, before, after: disk, note: None };
        match verdict {
            Verdict::Applied => self.finish_resolve(&words, None, &directories).await,
            Verdict::NotApplied => self.settle(session, words.by.clone(), words.interrupted()).await,
            Verdict::Uncertain { why } => {
                let fault = ReplaceFault::Uncertain { path: intent.path, why };
                self.settle(session, words.by.clone(), words.failure(&fault)).await
            }
        }
    }
}

impl Workshop {
    fn ready_to_resolve(
        &self,
        files: &Arc<SessionFiles>,
        subject: &Subject,
        decision: Decision,
        id: &ToolCallId,
    ) -> Result<Ready, OperationFault> {
        let intent = &subject.intent;
        let note = self.note_of_left(files, intent, decision)?;
        let (wanted, removes) = match decision {
            Decision::KeepDisk => {
                let disk = self.disk(files, &intent.path);
                return Ok(Ready {
                    prepared: None,
                    before: disk.clone(),
                    after: disk,
                    note,
                    keeping: Keeping::nothing(&self.content),
                });
            }
            Decision::RestoreBefore => (intent.before.sha256(), intent.create_directories.as_slice()),
            Decision::RestoreAfter => (intent.after.sha256(), [].as_slice()),
        };
        expect_bound(&subject.session)?;
        let target = self.replacer.open(files, &intent.path, Instant::now() + PATIENCE)?;
        let before = Disk::of(target.sha256(), target.bytes());
        if target.sha256() == wanted {
            return Ok(Ready {
                prepared: None,
                before: before.clone(),
                after: before,
                note,
                keeping: Keeping::nothing(&self.content),
            });
        }
        let bytes = wanted.map(|sha256| self.content.get(sha256)).transpose()?.map(Arc::new);
        let after = Disk::of(wanted, bytes.as_deref().map(Vec::as_slice));
        let there = target.shared_bytes();
        let prepared = match &bytes {
            Some(bytes) => target.prepare_shared(Arc::clone(bytes), id.as_str()),
            None => target.prepare_removal(removes, id.as_str()),
        }?;
        // What is there now may be somebody's work: it is kept before it is replaced.
        let keeping = self.keep(prepared.intent(), there.as_ref(), bytes.as_ref())?;
        Ok(Ready { prepared: Some(prepared), before, after, note, keeping })
    }

    /// Removes the temporary file that the write left; says so if it is not for us to remove.
    fn note_of_left(
        &self,
        files: &SessionFiles,
        intent: &Intent,
        decision: Decision,
    ) -> Result<Option<String>, OperationFault> {
        match self.replacer.clear_left(files, intent) {
            Ok(Left::Nothing) => Ok(None),
            Ok(Left::Foreign) => Ok(Some(format!(
                "The file {} beside it may hold what another process wrote during the write; it was left there.",
                intent.temporary
            ))),
            // What stays as it is may well be out of reach.
            Err(fault) if decision == Decision::KeepDisk => {
                Ok(Some(format!("Whether a temporary file was left cannot be told: {fault}.")))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    fn disk(&self, files: &Arc<SessionFiles>, path: &std::path::Path) -> Disk {
        match self.replacer.open(files, path, Instant::now() + PATIENCE) {
            Ok(target) => Disk::of(target.sha256(), target.bytes()),
            Err(fault) => Disk::Unreadable(fault.to_string()),
        }
    }
}

impl Disk {
    fn of(sha256: Option<&str>, bytes: Option<&[u8]>) -> Self {
        sha256.map_or(Self::Nothing, |sha256| Self::File {
            sha256: sha256.to_owned(),
            bytes: bytes.unwrap_or_default().to_vec(),
        })
    }

    fn sha256(&self) -> Option<&str> {
        self.side().map(|(sha256, _)| sha256)
    }

    fn side(&self) -> Option<(&str, &[u8])> {
        match self {
            Self::File { sha256, bytes } => Some((sha256, bytes)),
            Self::Nothing | Self::Unreadable(_) => None,
        }
    }
}

impl Words {
    fn kind(&self) -> Kind<'_> {
        Kind::Resolve { resolves: self.subject.id.as_str(), decision: self.decision.as_str() }
    }

    fn receipt(&self, outcome: Option<&Outcome>, created: &[PathBuf]) -> Receipt {
        let note = match &self.after {
            Disk::Unreadable(why) => Some(format!("What is on disk cannot be read: {why}.")),
            Disk::File { .. } | Disk::Nothing => None,
        };
        let notes: Vec<_> = note.iter().chain(&self.note).map(String::as_str).collect();
        let notes = notes.join(" ");
        let operation = Operation {
            kind: self.kind(),
            path: &self.subject.intent.path,
            before: self.before.side(),
            after: self.after.side(),
            outcome,
            created_directories: created,
            removed_directories: outcome.map(|outcome| &*outcome.removed_directories).unwrap_or_default(),
            note: Some(&*notes).filter(|notes| !notes.is_empty()),
        };
        receipt(&self.by, RESOLVE, &operation)
    }

    fn failure(&self, fault: &ReplaceFault) -> Receipt {
        let hint = "The session waits as before: look at the file, and decide again.";
        let words = (fault.code(), &*fault.to_string(), hint);
        refusal(&self.by, RESOLVE, self.kind(), &self.subject.intent.path, words)
    }

    fn interrupted(&self) -> Receipt {
        let words = (
            ActionCode::Cancelled,
            "the gateway was restarted before the file was restored; it is as it was",
            "The session waits as before: decide again.",
        );
        refusal(&self.by, RESOLVE, self.kind(), &self.subject.intent.path, words)
    }
}
