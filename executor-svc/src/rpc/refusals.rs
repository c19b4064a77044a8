//! The one place where a fault becomes what a caller reads: code, sentence, what to do.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal as Spoken;
use serde_json::json;

use crate::engine::Fault;
use crate::ledger::Trouble;
use crate::session::{Refusal, ReplyFault, Status};

/// A field that does not fit.
pub(super) fn invalid(field: &str, why: impl std::fmt::Display) -> Spoken {
    Spoken::new(
        ErrorCode::InvalidArgument,
        format!("{field}: {why}."),
        format!("Correct `{field}` and call again."),
    )
    .with("field", field)
}

/// What the caller is told of a fault.
pub(super) fn spoken(fault: Fault) -> Spoken {
    match fault {
        Fault::UnknownSession => Spoken::new(
            ErrorCode::UnknownSession,
            "No session has this id.",
            "Check native_session_id; to begin anew, call native_session_start.",
        ),
        Fault::Capacity { live, limit } => Spoken::new(
            ErrorCode::Capacity,
            format!("{live} sessions are live, and the configuration allows {limit}."),
            "Stop a session that is no longer needed (native_session_stop), or wait for one to expire, then call again. The \
             person at the machine sees all with `gatehouse sessions`, and can raise `limits.live_sessions`.",
        )
        .retryable()
        .with("live_sessions", live)
        .with("limit", limit),
        Fault::RootTaken(path) => Spoken::new(
            ErrorCode::WorkingDirectoryInvalid,
            format!("Another live session writes in {} or was made from it.", path.display()),
            "Stop that session first (`gatehouse sessions` shows all), or choose another directory.",
        )
        .with("path", path.to_string_lossy().as_ref()),
        Fault::Refused(refusal) => refused(refusal),
        Fault::Ledger(error) => {
            tracing::error!(%error, "ledger");
            of_ledger(error.trouble())
        }
    }
}

/// What the caller is told of a ledger that cannot be read or written.
pub(super) fn of_ledger(trouble: Trouble) -> Spoken {
    let refusal = Spoken::new(
        ErrorCode::Internal,
        format!("{} A repeat with the same ids tells whether this call was taken.", trouble.message()),
        trouble.what_to_do(),
    )
    .with("ledger", trouble.as_str());
    if trouble.passes() { refusal.retryable() } else { refusal }
}

fn refused(refusal: Refusal) -> Spoken {
    use ErrorCode as C;
    match refusal {
        Refusal::LeaseMismatch => Spoken::new(
            C::LeaseMismatch,
            "This lease is not the session's current one.",
            "Use the lease_id of the latest result; if it is lost, call native_session_recover with the recovery_token and a new recovery_id.",
        ),
        Refusal::LeaseExpired => Spoken::new(
            C::LeaseExpired,
            "The lease ran out, so the session's process was ended. Everything it did is kept.",
            "Call native_session_recover with the recovery_token and a new recovery_id, then native_session_continue.",
        ),
        Refusal::IdempotencyConflict => Spoken::new(
            C::IdempotencyConflict,
            "This id was used before for a call with other content.",
            "Use a new id for a new call; repeat an old call only with exactly the same content.",
        ),
        Refusal::SessionBusy(status) => busy(status),
        Refusal::SessionStopped => Spoken::new(
            C::SessionStopped,
            "The session is stopped for good.",
            "Call native_session_start to begin a new one.",
        ),
        Refusal::TurnMismatch => Spoken::new(
            C::TurnMismatch,
            "This turn is not the session's pending one.",
            "Call native_session_status and answer the turn_id of its pending_turn.",
        ),
        Refusal::TurnAlreadyAnswered => Spoken::new(
            C::TurnAlreadyAnswered,
            "This turn has its reply already.",
            "Call native_session_status with wait_seconds to see the next turn.",
        ),
        Refusal::RunnerGone | Refusal::StaleRunner => Spoken::new(
            C::RunnerGone,
            "The run that asked this is over, so it cannot be answered any more.",
            "Call native_session_status; if the session is idle, native_session_continue goes on with the same Claude Code session.",
        ),
        Refusal::Reply(fault) => reply_fault(fault),
        Refusal::RecoveryDenied { locked } => denied(locked),
        Refusal::RecoveryBlocked(action) => Spoken::new(
            C::RecoveryBlocked,
            format!(
                "Nobody can tell whether action {action} changed its file, so the session waits for a person."
            ),
            "The person at the machine decides with `gatehouse resolve`; then call native_session_recover.",
        )
        .with("tool_call_id", action.as_str()),
        Refusal::RootChanged(found) => Spoken::new(
            C::WorkingDirectoryInvalid,
            format!("The session's working directory is not the directory it was made for: {found}."),
            "Put the directory back, or start a new session.",
        ),
        Refusal::NotAuthorised => Spoken::new(
            C::ToolNotAllowed,
            "No such call is authorised.",
            "Call only what the latest reply authorised.",
        ),
    }
}

fn busy(status: Status) -> Spoken {
    Spoken::new(
        ErrorCode::SessionBusy,
        format!("The session is {}.", status.as_str()),
        "Call native_session_status with wait_seconds and go by what it says.",
    )
    .retryable()
    .with("status", status.as_str())
}

fn denied(locked: bool) -> Spoken {
    let refusal = if locked {
        Spoken::new(
            ErrorCode::RecoveryDenied,
            "Too many wrong recovery tokens were tried for this session.",
            "Wait a minute, then call again with the recovery_token that native_session_start returned.",
        )
        .retryable()
    } else {
        Spoken::new(
            ErrorCode::RecoveryDenied,
            "The recovery token is not this session's.",
            "Use the recovery_token that native_session_start returned for this session.",
        )
    };
    refusal.with("locked", locked)
}

fn reply_fault(fault: ReplyFault) -> Spoken {
    let refusal = Spoken::new(fault.code, fault.message, fault.what_to_do);
    if fault.calls.is_empty() {
        return refusal;
    }
    let calls: Vec<_> = fault
        .calls
        .iter()
        .map(|(index, name, why)| json!({ "index": index, "name": name, "problem": why }))
        .collect();
    refusal.with("calls", calls)
}
