//! Why a provider gave no answer that counts, and how that is told.

use std::time::Duration;

use crate::config::RouteModel;
use crate::credential::CredentialError;
use crate::ledger::LedgerError;
use crate::session::SubagentFailure;

/// The longest of a stranger's words that are repeated, in characters.
const WORDS: usize = 500;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// The credential file.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The ledger that the request is made from.
    #[error("the request could not be made: {0}")]
    Ledger(#[from] LedgerError),
    /// A conversation that has grown too large.
    #[error("the request has {bytes} bytes; deepseek.request_bytes allows {limit}")]
    RequestTooLarge {
        /// What it has.
        bytes: usize,
        /// What it may have.
        limit: usize,
    },
    /// No connection.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// The other end did not prove who it is, or this machine has no roots to prove it by.
    #[error("the provider's certificate is not accepted: {0}")]
    Tls(String),
    /// The connection broke before the answer was whole.
    #[error("the answer broke off: {0}")]
    Cut(String),
    /// It took too long.
    #[error("the provider did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// An answer other than 200.
    #[error("the provider answered with HTTP status {status}: {message}")]
    Status {
        /// The status.
        status: u16,
        /// The provider's own word.
        error_type: Option<String>,
        /// Its words, cleaned.
        message: String,
        /// When it would like to be asked again, in seconds.
        retry_after: Option<u64>,
    },
    /// An error in the middle of a stream.
    #[error("the provider broke the answer off with an error: {message}")]
    InStream {
        /// The provider's own word.
        error_type: Option<String>,
        /// Its words, cleaned.
        message: String,
    },
    /// More than was allowed for.
    #[error("the answer has more than {0} bytes, which deepseek.answer_bytes allows")]
    AnswerTooLarge(usize),
    /// Nothing that can be used.
    #[error("the answer cannot be used: {0}")]
    Invalid(String),
    /// Another model than was asked for.
    #[error("model {asked} was asked for and {answered} answered; nothing of the answer was used")]
    Model {
        /// What was asked for.
        asked: String,
        /// What answered.
        answered: String,
    },
    /// The gateway is going down.
    #[error("the gateway is going down")]
    Interrupted,
}

impl AskError {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Credential(_) => "credential",
            Self::Ledger(_) | Self::Interrupted => "internal",
            Self::RequestTooLarge { .. } => "request_too_large",
            Self::Unreachable(_) => "unreachable",
            Self::Tls(_) => "tls",
            Self::Cut(_) => "answer_cut",
            Self::TimedOut(_) => "request_timed_out",
            Self::Status { .. } | Self::InStream { .. } => "provider_error",
            Self::AnswerTooLarge(_) => "answer_too_large",
            Self::Invalid(_) => "answer_invalid",
            Self::Model { .. } => "model_mismatch",
        }
    }

    /// The failure as it is told.
    pub(super) fn told(self, model: &RouteModel) -> SubagentFailure {
        let mut failure = SubagentFailure::new(self.kind(), bounded(&self.to_string()));
        match self {
            Self::Status { status, error_type, retry_after, .. } => {
                failure.status = Some(status);
                failure.error_type = error_type;
                failure.retry_after_seconds = retry_after;
            }
            Self::InStream { error_type, .. } => failure.error_type = error_type,
            Self::Model { answered, .. } => {
                failure.asked_model = Some(model.name.clone());
                failure.answered_model = Some(answered);
            }
            _ => {}
        }
        failure
    }
}

/// A stranger's words, short enough to be repeated, in one line.
pub(super) fn bounded(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS).collect()
}

pub(super) fn switched_off() -> SubagentFailure {
    SubagentFailure::new("switched_off", "the DeepSeek subagent was switched off in the configuration")
}
