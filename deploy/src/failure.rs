//! How a command ends when it does not succeed: an exit code, what happened, what to do.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::{ActionRefusal, Refusal};

/// The exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was done.
    Done = 0,
    /// It was tried and failed.
    Failed = 1,
    /// It was asked for in a wrong way.
    Usage = 2,
    /// No gateway answers.
    Unreachable = 3,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened, in a sentence.
    pub message: String,
    /// What to do about it, if there is something to do.
    pub what_to_do: Option<String>,
}

impl Failure {
    /// Something was tried and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into(), what_to_do: None }
    }

    /// The command line makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), what_to_do: None }
    }

    /// No gateway answers.
    #[must_use]
    pub fn unreachable() -> Self {
        Self {
            exit: Exit::Unreachable,
            message: "no gateway answers".to_owned(),
            what_to_do: Some(
                "Start it with `gatehouse up`, or name its runtime directory with --runtime-dir.".to_owned(),
            ),
        }
    }

    /// The same, with a way out.
    #[must_use]
    pub fn hint(mut self, what_to_do: impl Into<String>) -> Self {
        self.what_to_do = Some(what_to_do.into());
        self
    }
}

impl From<tonic::Status> for Failure {
    /// A refusal keeps its own words; a status of the transport means that nobody is there.
    fn from(status: tonic::Status) -> Self {
        if let Some(refusal) = ActionRefusal::from_status(&status) {
            return Self::failed(refusal.to_string()).hint(refusal.what_to_do);
        }
        match Refusal::from_status(&status) {
            // What its words advise is for the model.
            Some(refusal) if refusal.code == ErrorCode::UnknownSession => {
                Self::failed(refusal.to_string()).hint("`gatehouse sessions --all` lists all sessions.")
            }
            Some(refusal) => Self::failed(refusal.to_string()).hint(refusal.what_to_do),
            None if status.code() == tonic::Code::Unavailable => Self::unreachable(),
            None => Self::failed(format!("the executor answered {}: {}", status.code(), status.message())),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_fails_with_its_own_words_and_a_dead_socket_is_unreachable() {
        let refusal = Refusal::new(ErrorCode::Capacity, "no room", "look again");
        let failure = Failure::from(tonic::Status::from(refusal));
        assert_eq!((failure.exit, failure.what_to_do.as_deref()), (Exit::Failed, Some("look again")));
        let unknown = Refusal::new(ErrorCode::UnknownSession, "no such session", "call native_session_start");
        let failure = Failure::from(tonic::Status::from(unknown));
        assert_eq!(failure.what_to_do.as_deref(), Some("`gatehouse sessions --all` lists all sessions."));
        assert_eq!(Failure::from(tonic::Status::unavailable("refused")).exit, Exit::Unreachable);
        assert_eq!(Failure::from(tonic::Status::internal("x")).exit, Exit::Failed);
    }
}
