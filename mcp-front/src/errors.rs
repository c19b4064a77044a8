//! The one mapping from a gRPC status to what the caller sees, and the form in which a caller sees a refusal.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use serde_json::json;
use tonic::{Code, Status};

/// Why a call of the executor gave no session.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The executor decided so.
    Refused(Refusal),
    /// There is no executor, or it went away in the middle. Whether it did anything is not known; the same call with
    /// the same ids tells.
    Lost,
    /// The executor did not answer in time.
    Late,
    /// A status that no executor of this version gives.
    Foreign,
}

impl Failure {
    /// What a status means. Texts of the transport are dropped: they can name sockets.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        if let Some(refusal) = Refusal::from_status(status) {
            return Self::Refused(refusal);
        }
        match status.code() {
            Code::Unavailable | Code::Cancelled | Code::Unknown => Self::Lost,
            Code::DeadlineExceeded => Self::Late,
            // The HTTP/2 layer reports a broken connection as an internal error with a cause.
            Code::Internal if std::error::Error::source(status).is_some() => Self::Lost,
            _ => Self::Foreign,
        }
    }

    /// The failure's name in metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Foreign => "foreign",
        }
    }

    /// What the caller is told.
    #[must_use]
    pub fn into_refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Lost => Refusal::new(
                ErrorCode::ExecutorUnavailable,
                "Gatehouse's executor cannot be reached.",
                "Make the same call again in some seconds, with the very same ids: whatever was done already is not \
                 done twice. If it stays so, ask the user to look at `gatehouse doctor`.",
            )
            .retryable(),
            Self::Late => Refusal::new(
                ErrorCode::ExecutorUnavailable,
                "Gatehouse's executor did not answer in time.",
                "Make the same call again with the very same ids: whatever was done already is not done twice.",
            )
            .retryable(),
            Self::Foreign => internal("The executor gave an answer that this front does not understand."),
        }
    }
}

/// A fault of Gatehouse itself.
#[must_use]
pub fn internal(message: &str) -> Refusal {
    Refusal::new(
        ErrorCode::Internal,
        message,
        "Ask native_session_status what state the session is in. If this comes again, tell the user: front and executor \
         may be of different versions.",
    )
}

/// The front is being ended while the call waits.
#[must_use]
pub fn closing() -> Refusal {
    Refusal::new(
        ErrorCode::ExecutorUnavailable,
        "Gatehouse's front is being restarted.",
        "Make the same call again in some seconds, with the very same ids: whatever was done already is not done twice.",
    )
    .retryable()
}

/// A refusal as the text of a tool error: one JSON object.
#[must_use]
pub fn text(refusal: &Refusal) -> String {
    json!({
        "code": refusal.code.as_str(),
        "message": refusal.message,
        "retryable": refusal.retryable,
        "what_to_do": refusal.what_to_do,
        "details": refusal.details,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_executor_is_passed_on_unchanged() {
        for code in ErrorCode::ALL {
            let refusal = Refusal::new(*code, "what", "do").with("turn_id", "turn_1");
            let failure = Failure::of(&Status::from(refusal.clone()));
            assert_eq!(failure, Failure::Refused(refusal.clone()));
            let shown: serde_json::Value = serde_json::from_str(&text(&failure.into_refusal())).unwrap();
            assert_eq!(
                shown,
                json!({"code": code.as_str(), "message": "what", "retryable": false, "what_to_do": "do",
                       "details": {"turn_id": "turn_1"}})
            );
        }
    }

    #[test]
    fn a_status_without_our_details_never_shows_its_text() {
        let cases = [
            (Code::Unavailable, "executor_unavailable", true),
            (Code::Unknown, "executor_unavailable", true),
            (Code::Cancelled, "executor_unavailable", true),
            (Code::DeadlineExceeded, "executor_unavailable", true),
            (Code::Unimplemented, "internal", false),
            (Code::OutOfRange, "internal", false),
            (Code::Internal, "internal", false),
            (Code::PermissionDenied, "internal", false),
        ];
        for (code, expected, retryable) in cases {
            let refusal = Failure::of(&Status::new(code, "/run/secret.sock: refused")).into_refusal();
            assert_eq!((refusal.code.as_str(), refusal.retryable), (expected, retryable), "{code:?}");
            assert!(!text(&refusal).contains("secret"), "{code:?}");
        }
    }
}
