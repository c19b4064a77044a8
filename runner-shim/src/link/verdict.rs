//! What a failed call means: asked again, or taken as the answer.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use tonic::{Code, Status};

/// The executor said no; asking again would not change that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// What to do about a failed call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not answered, or not now: ask again.
    Lost,
    /// Answered, with no.
    Refused(Refused),
}

/// Of `Attach` and `Heartbeat`: is the link still wanted?
pub(super) fn of_link(status: &Status) -> Verdict {
    match (Refusal::from_status(status), status.code()) {
        (Some(refusal), _) => of_refusal(&refusal),
        (None, Code::PermissionDenied | Code::NotFound | Code::Unauthenticated) => refused(status),
        (None, _) => Verdict::Lost,
    }
}

/// Of the questions: may this be had?
pub(super) fn of_question(status: &Status) -> Verdict {
    match (Refusal::from_status(status), status.code()) {
        (Some(refusal), _) => of_refusal(&refusal),
        (
            None,
            Code::PermissionDenied
            | Code::NotFound
            | Code::Unauthenticated
            | Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::AlreadyExists
            | Code::OutOfRange
            | Code::Unimplemented,
        ) => refused(status),
        (None, _) => Verdict::Lost,
    }
}

fn of_refusal(refusal: &Refusal) -> Verdict {
    if refusal.retryable || refusal.code == ErrorCode::ExecutorUnavailable {
        Verdict::Lost
    } else {
        Verdict::Refused(Refused(refusal.to_string()))
    }
}

fn refused(status: &Status) -> Verdict {
    Verdict::Refused(Refused(status.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_transport_are_asked_again_and_refusals_are_not() {
        for lost in [
            Code::Unavailable,
            Code::Unknown,
            Code::Internal,
            Code::Cancelled,
            Code::DeadlineExceeded,
            Code::Aborted,
        ] {
            let status = Status::new(lost, "broken pipe");
            assert_eq!(of_link(&status), Verdict::Lost, "{lost:?}");
            assert_eq!(of_question(&status), Verdict::Lost, "{lost:?}");
        }
        let denied = Status::permission_denied("no such link");
        assert_eq!(of_link(&denied), Verdict::Refused(Refused("no such link".into())));
        let malformed = Status::invalid_argument("no");
        assert_eq!(of_link(&malformed), Verdict::Lost);
        assert!(matches!(of_question(&malformed), Verdict::Refused(_)));
    }

    #[test]
    fn a_refusal_of_ours_says_itself_whether_to_ask_again() {
        let refusal = Refusal::new(ErrorCode::SessionStopped, "the session is stopped", "start another");
        assert!(matches!(of_link(&Status::from(refusal.clone())), Verdict::Refused(_)));
        assert_eq!(of_question(&Status::from(refusal.retryable())), Verdict::Lost);
        let starting = Refusal::new(ErrorCode::ExecutorUnavailable, "starting", "wait");
        assert_eq!(of_link(&Status::from(starting)), Verdict::Lost);
    }
}
