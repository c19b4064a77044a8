//! Why the machine says no. The words that a caller reads are in `rpc::refusals`.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::ids::ToolCallId;

use super::Status;

/// A command that changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The lease is not the current one.
    #[error("the lease is not the session's current one")]
    LeaseMismatch,
    /// The lease has run out.
    #[error("the lease has expired")]
    LeaseExpired,
    /// The key was used with other content.
    #[error("this id was used before with other content")]
    IdempotencyConflict,
    /// The session is doing something else.
    #[error("the session is {}", .0.as_str())]
    SessionBusy(Status),
    /// The session is over.
    #[error("the session is stopped")]
    SessionStopped,
    /// The turn is not the pending one.
    #[error("the turn is not the session's pending one")]
    TurnMismatch,
    /// The turn has its reply.
    #[error("the turn has its reply already")]
    TurnAlreadyAnswered,
    /// The turn's run has ended.
    #[error("the run that asked is gone")]
    RunnerGone,
    /// The reply as a whole is not acceptable.
    #[error("{0}")]
    Reply(ReplyFault),
    /// The recovery token is wrong.
    #[error("the recovery token is not accepted")]
    RecoveryDenied {
        /// Too many wrong ones lately.
        locked: bool,
    },
    /// An action is uncertain.
    #[error("the effect of action {0} is uncertain")]
    RecoveryBlocked(ToolCallId),
    /// The root is another directory now.
    #[error("the working directory changed: {0}")]
    RootChanged(String),
    /// The shim's run is not the session's current one.
    #[error("this run is over")]
    StaleRunner,
    /// The action is not one that may be performed now.
    #[error("no such action is authorised")]
    NotAuthorised,
}

/// Why a reply is refused as a whole, naming every call at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReplyFault {
    /// Which code it is.
    pub code: ErrorCode,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub what_to_do: String,
    /// The calls at fault: their place in the reply, their name, what is wrong.
    pub calls: Vec<(usize, String, String)>,
}
