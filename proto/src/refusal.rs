//! A refusal with its stable code, and how it travels in `grpc-status-details-bin`.

use prost::Message;
use serde_json::{Map, Value};
use tonic::{Code, Status};

use crate::codes::{ActionCode, ErrorCode};
use crate::v1::ErrorDetail;

/// What a session tool answers instead of a session: what happened, and what to do about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The stable code.
    pub code: ErrorCode,
    /// What happened, in a sentence.
    pub message: String,
    /// Whether the same call may go through later, unchanged.
    pub retryable: bool,
    /// What the caller should do.
    pub what_to_do: String,
    /// Further facts, by name. Never a token, pid, port or internal path.
    pub details: Map<String, Value>,
}

impl Refusal {
    /// A refusal that the same call would meet again.
    pub fn new(code: ErrorCode, message: impl Into<String>, what_to_do: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retryable: false,
            what_to_do: what_to_do.into(),
            details: Map::new(),
        }
    }

    /// The same, but worth asking again.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// The same, with one more fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The refusal that a status of ours carries; `None` if the status is not of ours (a transport failure).
    #[must_use]
    pub fn from_status(status: &Status) -> Option<Self> {
        if status.details().is_empty() {
            return None;
        }
        let detail = ErrorDetail::decode(status.details()).ok()?;
        let details = serde_json::from_str(&detail.details_json).unwrap_or_default();
        Some(Self {
            code: ErrorCode::parse(&detail.code)?,
            message: detail.message,
            retryable: detail.retryable,
            what_to_do: detail.what_to_do,
            details,
        })
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        let detail = ErrorDetail {
            code: refusal.code.as_str().to_owned(),
            message: refusal.message.clone(),
            retryable: refusal.retryable,
            what_to_do: refusal.what_to_do,
            details_json: Value::Object(refusal.details).to_string(),
        };
        Status::with_details(grpc_code(refusal.code), refusal.message, detail.encode_to_vec().into())
    }
}

/// What the operator's service answers when the machine's state forbids what was asked of an action: the code that a
/// receipt would have. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRefusal {
    /// The stable code.
    pub code: ActionCode,
    /// What happened, in a sentence.
    pub message: String,
    /// What the operator should do.
    pub what_to_do: String,
}

impl ActionRefusal {
    /// The refusal that a status of ours carries; `None` if it carries none.
    #[must_use]
    pub fn from_status(status: &Status) -> Option<Self> {
        let detail = ErrorDetail::decode(status.details()).ok()?;
        let code = ActionCode::parse(&detail.code)?;
        Some(Self { code, message: detail.message, what_to_do: detail.what_to_do })
    }
}

impl std::fmt::Display for ActionRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl From<ActionRefusal> for Status {
    fn from(refusal: ActionRefusal) -> Status {
        let detail = ErrorDetail {
            code: refusal.code.as_str().to_owned(),
            message: refusal.message.clone(),
            retryable: false,
            what_to_do: refusal.what_to_do,
            details_json: "{}".to_owned(),
        };
        Status::with_details(Code::FailedPrecondition, refusal.message, detail.encode_to_vec().into())
    }
}

/// The gRPC code nearest in meaning, for clients that look no further.
fn grpc_code(code: ErrorCode) -> Code {
    match code {
        ErrorCode::InvalidArgument
        | ErrorCode::ReplyTooLarge
        | ErrorCode::ToolNotAllowed
        | ErrorCode::ToolInputInvalid
        | ErrorCode::WorkingDirectoryInvalid => Code::InvalidArgument,
        ErrorCode::UnknownSession => Code::NotFound,
        ErrorCode::LeaseMismatch
        | ErrorCode::RecoveryDenied
        | ErrorCode::ProfileForbids
        | ErrorCode::SkillNotAllowed => Code::PermissionDenied,
        ErrorCode::IdempotencyConflict | ErrorCode::TurnAlreadyAnswered => Code::AlreadyExists,
        ErrorCode::LeaseExpired
        | ErrorCode::TurnMismatch
        | ErrorCode::SubagentActive
        | ErrorCode::SessionBusy
        | ErrorCode::SessionStopped
        | ErrorCode::RunnerGone
        | ErrorCode::RecoveryBlocked
        | ErrorCode::RepositoryNotClean
        | ErrorCode::LaunchFailed => Code::FailedPrecondition,
        ErrorCode::Capacity => Code::ResourceExhausted,
        ErrorCode::ExecutorUnavailable => Code::Unavailable,
        ErrorCode::Internal => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_wire() {
        for code in ErrorCode::ALL {
            let refusal = Refusal::new(*code, "what happened", "what to do").retryable().with("path", "/x");
            let status = Status::from(refusal.clone());
            assert_ne!(status.code(), Code::Ok);
            assert_eq!(Refusal::from_status(&status), Some(refusal));
        }
    }

    #[test]
    fn every_action_code_survives_the_wire_and_is_no_refusal_of_a_session_tool() {
        for code in ActionCode::ALL {
            let refusal = ActionRefusal {
                code: *code,
                message: "what happened".to_owned(),
                what_to_do: "what to do".to_owned(),
            };
            let status = Status::from(refusal.clone());
            assert_eq!(ActionRefusal::from_status(&status), Some(refusal));
            assert_eq!(Refusal::from_status(&status), None);
        }
        let other = Status::from(Refusal::new(ErrorCode::Internal, "x", "y"));
        assert_eq!(ActionRefusal::from_status(&other), None);
    }

    #[test]
    fn a_status_of_the_transport_is_not_a_refusal() {
        assert_eq!(Refusal::from_status(&Status::unavailable("connection refused")), None);
    }
}
