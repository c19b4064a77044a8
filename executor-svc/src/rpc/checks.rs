//! The bounds of what a caller may send. A schema is advice; these are the rule.

use std::path::Path;
use std::time::Duration;

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::ids::{LeaseId, RequestKey, SessionId, TurnId};
use gatehouse_proto::refusal::Refusal as Spoken;
use gatehouse_proto::v1;

use super::refusals::invalid;
use crate::engine::Fault;
use crate::session::Profile;

/// The largest prompt, in bytes.
const PROMPT_BYTES: usize = 256 * 1024;
/// The shortest key of a start: long enough that two callers do not meet by accident.
const START_KEY_CHARS: usize = 16;
const LABEL_CHARS: usize = 80;
const REASON_CHARS: usize = 500;
/// The longest wait that can be asked for, in seconds.
const WAIT_SECONDS: u32 = 50;

pub(super) fn session_id(text: String) -> Result<SessionId, Spoken> {
    // An id of another form is no session of ours, and that is all there is to say.
    SessionId::try_from(text).map_err(|_| super::refusals::spoken(Fault::UnknownSession))
}

pub(super) fn lease_id(text: String) -> Result<LeaseId, Spoken> {
    LeaseId::try_from(text)
        .map_err(|_| super::refusals::spoken(Fault::Refused(crate::session::Refusal::LeaseMismatch)))
}

pub(super) fn turn_id(text: String) -> Result<TurnId, Spoken> {
    TurnId::try_from(text)
        .map_err(|_| super::refusals::spoken(Fault::Refused(crate::session::Refusal::TurnMismatch)))
}

pub(super) fn key(field: &str, text: String) -> Result<RequestKey, Spoken> {
    RequestKey::try_from(text).map_err(|error| invalid(field, error))
}

pub(super) fn start_key(text: String) -> Result<RequestKey, Spoken> {
    if text.chars().count() < START_KEY_CHARS {
        return Err(invalid(
            "idempotency_key",
            format_args!("must have at least {START_KEY_CHARS} characters, for example a UUID"),
        ));
    }
    key("idempotency_key", text)
}

pub(super) fn prompt(text: String) -> Result<String, Spoken> {
    match text.len() {
        0 => Err(invalid("prompt", "must not be empty")),
        1..=PROMPT_BYTES => Ok(text),
        bytes => {
            Err(invalid("prompt", format_args!("has {bytes} bytes; at most {PROMPT_BYTES} are allowed")))
        }
    }
}

pub(super) fn label(text: Option<String>) -> Result<Option<String>, Spoken> {
    match &text {
        Some(label) if label.chars().count() > LABEL_CHARS => {
            Err(invalid("session_label", format_args!("has more than {LABEL_CHARS} characters")))
        }
        Some(label) if label.chars().any(char::is_control) => {
            Err(invalid("session_label", "has control characters"))
        }
        _ => Ok(text),
    }
}

pub(super) fn reason(text: Option<String>) -> Result<String, Spoken> {
    let text = text.unwrap_or_default();
    if text.chars().count() > REASON_CHARS {
        return Err(invalid("reason", format_args!("has more than {REASON_CHARS} characters")));
    }
    Ok(text)
}

/// How long to wait: what was asked for or the default, and never longer than the configuration allows.
pub(super) fn wait(asked: Option<u32>, default: Duration, longest: Duration) -> Result<Duration, Spoken> {
    match asked {
        Some(seconds) if seconds > WAIT_SECONDS => {
            Err(invalid("wait_seconds", format_args!("must be between 0 and {WAIT_SECONDS}")))
        }
        Some(seconds) => Ok(Duration::from_secs(u64::from(seconds)).min(longest)),
        None => Ok(default.min(longest)),
    }
}

/// The profile; without one nothing can be changed.
pub(super) const fn profile(asked: v1::CapabilityProfile) -> Profile {
    match asked {
        v1::CapabilityProfile::Unspecified | v1::CapabilityProfile::ReadOnly => Profile::ReadOnly,
        v1::CapabilityProfile::DirectWrite => Profile::DirectWrite,
        v1::CapabilityProfile::WorktreeWrite => Profile::WorktreeWrite,
    }
}

pub(super) fn directory(text: &str) -> Result<&Path, Spoken> {
    if text.contains('\0') {
        return Err(unusable("it contains a NUL character"));
    }
    Ok(Path::new(text))
}

pub(super) fn unusable(why: impl std::fmt::Display) -> Spoken {
    Spoken::new(
        ErrorCode::WorkingDirectoryInvalid,
        format!("The working directory cannot be used: {why}."),
        "Name an existing directory by its absolute path.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_1_byte_to_256_kib_pass_and_no_others() {
        assert!(prompt(String::new()).is_err());
        assert!(prompt("/".into()).is_ok());
        assert!(prompt("\0b".into()).is_ok());
        assert!(prompt("x".repeat(PROMPT_BYTES)).is_ok());
        assert!(prompt("x".repeat(PROMPT_BYTES + 1)).is_err());
    }

    #[test]
    fn waits_are_bounded_by_the_contract_and_then_by_the_configuration() {
        let (default, longest) = (Duration::from_secs(30), Duration::from_secs(20));
        assert_eq!(wait(None, default, longest).unwrap(), longest);
        assert_eq!(wait(Some(0), default, longest).unwrap(), Duration::ZERO);
        assert_eq!(wait(Some(50), default, longest).unwrap(), longest);
        assert_eq!(wait(Some(51), default, longest).unwrap_err().code, ErrorCode::InvalidArgument);
    }

    #[test]
    fn a_start_key_of_fifteen_characters_is_too_short() {
        assert!(start_key("x".repeat(15)).is_err());
        assert!(start_key("ü".repeat(8)).is_err(), "characters count, not bytes");
        assert!(start_key("x".repeat(16)).is_ok());
    }
}
