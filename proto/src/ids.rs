//! Newtypes for every id that crosses a process line.
//!
//! Ids of ours are minted here, carry a prefix that says what they are, and are checked when they come back.
//! Ids of the caller ([`RequestKey`]) are opaque: bounded, printable, never interpreted.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Why a text is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not {expected}")]
pub struct InvalidId {
    /// What would have been one, for example ``a session id (`ns_…`)``.
    pub expected: &'static str,
}

/// 122 random bits as 32 lower-case hexadecimal digits.
fn random_part() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// The milliseconds since 1970 as 12 digits, then 80 random bits as 20. Rows whose ids were minted together lie together
/// in the ledger, so that a commit touches few places of it; which is also why a clock that is set does no harm.
fn part_by_time() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:012x}{}", now.as_millis() & 0xffff_ffff_ffff, &random_part()[12..])
}

fn is_minted(text: &str, prefix: &str, digits: usize) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() == digits && rest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

macro_rules! minted_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $part:ident, $digits:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// A fresh id.
            #[must_use]
            pub fn mint() -> Self {
                Self(format!("{}{}", $prefix, &$part()[..$digits]))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                if is_minted(&text, $prefix, $digits) {
                    Ok(Self(text))
                } else {
                    Err(InvalidId { expected: $what })
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

minted_id!(
    /// A session, for as long as the ledger exists.
    SessionId, "ns_", random_part, 32, "a session id (`ns_` and 32 hexadecimal digits)"
);
minted_id!(
    /// One Claude Code process from a prompt to its final answer.
    RunId, "run_", random_part, 32, "a run id (`run_` and 32 hexadecimal digits)"
);
minted_id!(
    /// One model request of Claude Code, and the one reply it gets.
    TurnId, "turn_", part_by_time, 32, "a turn id (`turn_` and 32 hexadecimal digits)"
);
minted_id!(
    /// A tool call that a reply authorised. The form is the one Claude Code expects of a `tool_use` id.
    ToolCallId, "toolu_", part_by_time, 24, "a tool call id (`toolu_` and 24 hexadecimal digits)"
);
minted_id!(
    /// A subagent of a session: one isolated sub-session with a model of its own.
    SubagentId, "sub_", random_part, 32, "a subsession id (`sub_` and 32 hexadecimal digits)"
);
minted_id!(
    /// The right to act on a session until it expires or is rotated.
    LeaseId, "lease_", random_part, 32, "a lease id (`lease_` and 32 hexadecimal digits)"
);

/// An id that the caller chose: `idempotency_key`, `reply_id`, `request_id`, `recovery_id`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(try_from = "String", into = "String")]
pub struct RequestKey(String);

impl RequestKey {
    /// The longest key, in bytes.
    pub const MAX_BYTES: usize = 200;

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RequestKey {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        let printable = text.chars().all(|c| !c.is_control());
        if !text.trim().is_empty() && text.len() <= Self::MAX_BYTES && printable {
            Ok(Self(text))
        } else {
            Err(InvalidId { expected: "an id of 1 to 200 bytes without control characters" })
        }
    }
}

impl From<RequestKey> for String {
    fn from(key: RequestKey) -> String {
        key.0
    }
}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The secret that names a runner's run to the executor: 32 random bytes. Only its hash is ever stored.
#[derive(Clone)]
pub struct LinkToken([u8; 32]);

/// The gRPC metadata key that carries a [`LinkToken`] as hexadecimal text.
pub const LINK_METADATA: &str = "gatehouse-link";

impl LinkToken {
    /// A fresh token.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn mint() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The token as it travels.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// What the ledger keeps.
    #[must_use]
    pub fn hash(&self) -> LinkHash {
        use sha2::Digest;
        LinkHash(hex::encode(sha2::Sha256::digest(self.0)))
    }
}

impl std::str::FromStr for LinkToken {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)
            .map(|()| Self(bytes))
            .map_err(|_| InvalidId { expected: "a link token (64 hexadecimal digits)" })
    }
}

impl fmt::Debug for LinkToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkToken(…)")
    }
}

/// SHA-256 of a [`LinkToken`], as hexadecimal text.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct LinkHash(String);

impl LinkHash {
    /// The hash as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minted_ids_come_back_as_themselves_and_never_repeat() {
        let a = ToolCallId::mint();
        assert_eq!(a.as_str().len(), "toolu_".len() + 24);
        assert_eq!(a.as_str().parse::<ToolCallId>(), Ok(a.clone()));
        assert_ne!(a, ToolCallId::mint());
    }

    #[test]
    fn ids_of_turns_and_calls_are_in_the_order_of_time_and_differ_within_a_millisecond() {
        let (early, turn) = (ToolCallId::mint(), TurnId::mint());
        std::thread::sleep(std::time::Duration::from_millis(2));
        let late: std::collections::BTreeSet<_> = (0..1000).map(|_| ToolCallId::mint()).collect();
        assert!(late.len() == 1000 && late.iter().all(|id| *id > early) && TurnId::mint() > turn);
    }

    #[test]
    fn an_id_of_another_kind_or_case_is_refused() {
        let run = RunId::mint();
        assert!(run.as_str().parse::<TurnId>().is_err());
        assert!(run.as_str().to_uppercase().parse::<RunId>().is_err());
        assert!("ns_".parse::<SessionId>().is_err());
    }

    #[test]
    fn caller_keys_are_bounded_and_printable() {
        assert!(RequestKey::try_from("a b-ä".to_owned()).is_ok());
        for bad in [String::new(), "  ".into(), "a\nb".into(), "x".repeat(201)] {
            assert!(RequestKey::try_from(bad).is_err());
        }
    }

    #[test]
    fn a_link_token_never_shows_in_debug_output() {
        let token = LinkToken::mint().unwrap();
        assert!(!format!("{token:?}").contains(&token.to_hex()));
        assert_eq!(token.to_hex().parse::<LinkToken>().unwrap().hash(), token.hash());
    }
}
