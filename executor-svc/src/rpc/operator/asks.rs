//! What the operator asks of writes: the words of each refusal, pruning with its progress.

use std::time::Duration;

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::ids::{SessionId, ToolCallId};
use gatehouse_proto::refusal::{ActionRefusal, Refusal as Spoken};
use gatehouse_proto::v1;
use tokio::sync::mpsc;
use tonic::Status as Wire;

use super::OperatorService;
use crate::action::{OperationFault, OperatorRequest, PruneAsk, PruneMode, Pruned};
use crate::engine::Fault;
use crate::rpc::checks;
use crate::rpc::refusals::{invalid, spoken};
use crate::session::{Decision, Refusal};

/// How many steps of progress may wait for a slow client.
const STEPS: usize = 4;

/// The session and the action that a request names.
pub(super) fn named(session: String, action: String) -> Result<(SessionId, ToolCallId), Wire> {
    let session = SessionId::try_from(session).map_err(|_| told(Fault::UnknownSession.into()))?;
    let action = ToolCallId::try_from(action).map_err(|_| told(OperationFault::UnknownAction))?;
    Ok((session, action))
}

pub(super) fn request(session: String, action: String, request_id: String) -> Result<OperatorRequest, Wire> {
    let (session, action) = named(session, action)?;
    let request_id = checks::key("request_id", request_id)?;
    Ok(OperatorRequest { session, action, request_id })
}

pub(super) fn decision(asked: v1::Decision) -> Result<Decision, Wire> {
    match asked {
        v1::Decision::KeepDisk => Ok(Decision::KeepDisk),
        v1::Decision::RestoreBefore => Ok(Decision::RestoreBefore),
        v1::Decision::RestoreAfter => Ok(Decision::RestoreAfter),
        v1::Decision::Unspecified => Err(invalid("decision", "must be named").into()),
    }
}

/// What the operator is told of a fault.
pub(super) fn told(fault: OperationFault) -> Wire {
    let (code, message, what_to_do) = match fault {
        OperationFault::Refused { code, message, what_to_do } => {
            return ActionRefusal { code, message, what_to_do }.into();
        }
        OperationFault::UnknownAction => (
            ErrorCode::InvalidArgument,
            "The session has no action of this id.".to_owned(),
            "`gatehouse show` lists the session's actions.".to_owned(),
        ),
        OperationFault::Unfit { message, what_to_do } => (ErrorCode::InvalidArgument, message, what_to_do),
        OperationFault::AtWork => (
            ErrorCode::SessionBusy,
            "The kept contents are being pruned or verified at this moment.".to_owned(),
            "Ask again when that is over.".to_owned(),
        ),
        OperationFault::Engine(fault) => return engines(fault),
    };
    Spoken::new(code, message, what_to_do).into()
}

/// The engine's refusals in words for the person at the machine.
fn engines(fault: Fault) -> Wire {
    let refusal = match fault {
        Fault::UnknownSession => Spoken::new(
            ErrorCode::UnknownSession,
            "No session has this id.",
            "`gatehouse sessions --all` lists all sessions.",
        ),
        Fault::Refused(Refusal::SessionBusy(status)) => Spoken::new(
            ErrorCode::SessionBusy,
            format!("An action of the session is under way; the session is {}.", status.as_str()),
            "Nothing was changed. Ask again when `gatehouse show` says that it waits for ChatGPT or is idle.",
        )
        .retryable(),
        Fault::Refused(Refusal::RecoveryBlocked(action)) => Spoken::new(
            ErrorCode::RecoveryBlocked,
            format!("Nobody can tell whether action {action} was made, so nothing is undone before that is decided."),
            "Decide what it comes to with `gatehouse resolve`, then ask again.",
        )
        .with("tool_call_id", action.as_str()),
        Fault::Refused(Refusal::IdempotencyConflict) => Spoken::new(
            ErrorCode::IdempotencyConflict,
            "This request id was used before for something else.",
            "Use a new id for a new request.",
        ),
        Fault::Refused(Refusal::NotAuthorised) => Spoken::new(
            ErrorCode::InvalidArgument,
            "The action is not uncertain any more.",
            "`gatehouse show` tells what it came to.",
        ),
        other => spoken(other),
    };
    refusal.into()
}

type Progress = mpsc::Receiver<Result<v1::PruneProgress, Wire>>;

/// Prunes in the background, and tells how far it is. When the client goes away, it ends after the present step.
pub(super) fn prune(service: OperatorService, ask: v1::PruneRequest) -> Progress {
    let ask = PruneAsk {
        older_than: Duration::from_secs(ask.older_than_seconds),
        mode: if ask.dry_run { PruneMode::DryRun } else { PruneMode::Remove },
    };
    let (out, told_to) = mpsc::channel(STEPS);
    tokio::spawn(async move {
        let (steps, mut done) = mpsc::channel(1);
        let actions = service.actions.clone();
        let pruning = tokio::spawn(async move { actions.prune(ask, steps).await });
        while let Some(step) = done.recv().await {
            if out.send(Ok(progress(step, false))).await.is_err() {
                return;
            }
        }
        let last = match pruning.await {
            Ok(Ok(pruned)) => service.with_worktrees(progress(pruned, true), ask).await,
            Ok(Err(fault)) => Err(told(fault)),
            Err(error) => Err(Wire::internal(error.to_string())),
        };
        let _ = out.send(last).await;
    });
    told_to
}

const fn progress(pruned: Pruned, done: bool) -> v1::PruneProgress {
    v1::PruneProgress {
        done,
        sessions: pruned.sessions,
        contents: pruned.total,
        contents_planned: pruned.planned,
        contents_seen: pruned.seen,
        contents_removed: pruned.removed,
        bytes_removed: pruned.bytes,
        worktrees_removed: 0,
        worktrees_kept: 0,
    }
}
