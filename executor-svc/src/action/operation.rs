//! What the operator asks of an action that was made: what all such requests have in common.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::digest::digest;
use gatehouse_proto::ids::{RequestKey, SessionId, ToolCallId};
use serde_json::Value;

use super::{AGAIN, Actions, reconcile::intent_of};
use crate::content::ContentFault;
use crate::engine::{Fault, Flight, Once, Takeoff};
use crate::files::replace::{Intent, ReplaceFault};
use crate::ledger::actions::{self, ActionRow};
use crate::ledger::once::{self, Claim};
use crate::ledger::{LedgerError, actions::RESOLVE, actions::UNDO};
use crate::session::{Command, Isolation, Refusal, Session};

/// How long another action may hold the path.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Which action of which session, and the operator's id of the request.
#[derive(Debug, Clone)]
pub struct OperatorRequest {
    /// The session.
    pub session: SessionId,
    /// The action.
    pub action: ToolCallId,
    /// Asking again with the same id is the same request.
    pub request_id: RequestKey,
}

/// Why an operator's request was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OperationFault {
    /// The session does not know the action.
    #[error("the session has no action of this id")]
    UnknownAction,
    /// The request makes no sense for this action.
    #[error("{message}")]
    Unfit {
        /// What is wrong, in a sentence.
        message: String,
        /// What to do instead.
        what_to_do: String,
    },
    /// The file, its place or the kept contents do not allow it.
    #[error("{message}")]
    Refused {
        /// The code that a receipt would have.
        code: ActionCode,
        /// What is wrong, in a sentence.
        message: String,
        /// What to do.
        what_to_do: String,
    },
    /// Another one is at work that cannot be done twice at the same time.
    #[error("another one is at work")]
    AtWork,
    /// The engine's refusal, or a fault of the ledger.
    #[error(transparent)]
    Engine(#[from] Fault),
}

impl From<LedgerError> for OperationFault {
    fn from(error: LedgerError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<Refusal> for OperationFault {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal.into())
    }
}

impl From<ReplaceFault> for OperationFault {
    fn from(fault: ReplaceFault) -> Self {
        Self::Refused { code: fault.code(), message: fault.to_string(), what_to_do: fault.hint() }
    }
}

impl From<ContentFault> for OperationFault {
    fn from(fault: ContentFault) -> Self {
        Self::Refused { code: fault.code(), message: fault.to_string(), what_to_do: fault.hint().to_owned() }
    }
}

impl OperationFault {
    pub(super) fn unfit(message: impl Into<String>, what_to_do: impl Into<String>) -> Self {
        Self::Unfit { message: message.into(), what_to_do: what_to_do.into() }
    }
}

/// The action that a request is about.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub session: Session,
    pub id: ToolCallId,
    pub row: ActionRow,
    pub intent: Intent,
}

impl Subject {
    /// The directories that the action made on the way to its file, as its receipt says.
    pub fn made_directories(&self) -> Vec<PathBuf> {
        let receipt = self.row.receipt.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let named = receipt.as_ref().and_then(|receipt| receipt["created_directories"].as_array());
        named.into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from).collect()
    }
}

/// Whether the session's worktree, if it has one, is still the one that was made. It looks at the disk.
pub(super) fn expect_bound(session: &Session) -> Result<(), OperationFault> {
    let Some(worktree) = session.isolation.as_ref().and_then(Isolation::made) else { return Ok(()) };
    worktree.verify().map_err(|fault| OperationFault::Refused {
        code: ActionCode::OutsideRoot,
        message: format!("The session's worktree is not what it was: {fault}."),
        what_to_do:
            "Put it back where it was; what the session wrote can still be seen with `gatehouse diff`."
                .to_owned(),
    })
}

/// The name of what was done, for a receipt.
pub(super) fn name_of(row: &ActionRow) -> Result<&'static str, LedgerError> {
    let operations = [UNDO, RESOLVE].into_iter();
    let tools = crate::tools::ToolName::ALL.into_iter().map(crate::tools::ToolName::as_str);
    let found = operations.chain(tools).find(|name| *name == row.name);
    found.ok_or_else(|| LedgerError::damaged("action.name", &row.name))
}

impl Actions {
    /// Carries the operator's requests out one after the other, each to its end, also if the asker goes away.
    pub(super) async fn operate(
        &self,
        work: impl Future<Output = Result<ActionRow, OperationFault>> + Send + 'static,
    ) -> Result<ActionRow, OperationFault> {
        let turn = self.operating.clone().lock_owned().await;
        let done = tokio::spawn(async move {
            let result = work.await;
            drop(turn);
            result
        });
        done.await.map_err(|error| LedgerError::damaged("operator's task", error))?
    }

    /// What this very request did before, if it was made before.
    pub(super) async fn asked_before(
        &self,
        name: &'static str,
        session: &SessionId,
        once: &Once,
    ) -> Result<Option<ActionRow>, OperationFault> {
        let (session, once) = (session.clone(), once.clone());
        let found = self.engine.read(move |connection| {
            let claim = once::claim(connection, &once.scope, &once.key, &once.content_hash)?;
            let row = match claim {
                Claim::Replay(_) => actions::operation(connection, &session, name, &once.key)?,
                Claim::Fresh | Claim::Conflict => None,
            };
            Ok((claim, row))
        });
        match found.await? {
            (Claim::Fresh, _) => Ok(None),
            (Claim::Conflict, _) => Err(Refusal::IdempotencyConflict.into()),
            (Claim::Replay(_), row) => {
                row.map(Some).ok_or_else(|| LedgerError::damaged("once.key", "no such action").into())
            }
        }
    }

    /// Looks up the write that a request is about.
    pub(super) async fn subject(
        &self,
        session: &SessionId,
        action: &ToolCallId,
    ) -> Result<Subject, OperationFault> {
        let session = self.engine.load(session)?;
        let row = self.action(action).await?.filter(|row| row.session_id == session.id.as_str());
        let row = row.ok_or(OperationFault::UnknownAction)?;
        if row.intent.is_none() {
            return Err(OperationFault::unfit(
                format!("Action {action} ({}) has changed no file.", row.name),
                "`gatehouse show` lists the session's actions; those that wrote have a hash before or after.",
            ));
        }
        let intent = intent_of(&row)?;
        Ok(Subject { session, id: action.clone(), row, intent })
    }

    /// An action as it stands.
    pub(super) async fn action(&self, id: &ToolCallId) -> Result<Option<ActionRow>, LedgerError> {
        let id = id.clone();
        self.engine.read(move |connection| actions::load(connection, &id)).await
    }

    /// An action that was just recorded.
    pub(super) async fn recorded(&self, id: &ToolCallId) -> Result<ActionRow, OperationFault> {
        let row = self.action(id).await?;
        row.ok_or_else(|| LedgerError::damaged("action.id", "an action that is not there").into())
    }

    /// A fresh action of the operator's, in flight.
    pub(super) fn begin(&self, session: &SessionId) -> (ToolCallId, Option<Flight>) {
        let id = ToolCallId::mint();
        match self.engine.take_off(session, &id) {
            Takeoff::Begun(flight) => (id, Some(flight)),
            Takeoff::InFlight(_) => (id, None),
        }
    }

    /// Records what has been decided or done, however long the ledger cannot be written.
    pub(super) async fn submit_in_the_end(&self, session: &SessionId, command: Command) {
        loop {
            let again = command.clone();
            match self.engine.submit(session, None, move |_, _| Ok(again)).await {
                // Recorded before.
                Ok(_) | Err(Fault::Refused(_)) => return,
                Err(error) => {
                    tracing::error!(%session, %error, "an operator's action could not be recorded yet");
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Where the operator's ids of one kind of request hold, and what makes a request what it is.
pub(super) fn once_of(name: &str, ask: &OperatorRequest, content: &Value) -> Once {
    Once {
        scope: format!("{} {}", name.to_lowercase(), ask.session),
        key: ask.request_id.clone(),
        content_hash: digest(content),
        mints: None,
    }
}
