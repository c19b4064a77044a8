//! Ids that follow from a small number, so that the same history always has the same value.

use gatehouse_proto::ids::{LeaseId, RequestKey, RunId, SessionId, SubagentId, ToolCallId, TurnId};

/// What the operator does to an action is an action itself, numbered from here.
pub const OPERATIONS: u8 = 100;

macro_rules! numbered {
    ($name:ident, $id:ident, $prefix:literal, $digits:literal) => {
        pub fn $name(number: u8) -> $id {
            $id::try_from(format!(concat!($prefix, "{:0", $digits, "x}"), number)).expect("of the right form")
        }
    };
}

numbered!(session, SessionId, "ns_", "32");
numbered!(run, RunId, "run_", "32");
numbered!(turn, TurnId, "turn_", "32");
numbered!(call, ToolCallId, "toolu_", "24");
numbered!(lease, LeaseId, "lease_", "32");
numbered!(subagent, SubagentId, "sub_", "32");

pub fn key(number: u8) -> RequestKey {
    RequestKey::try_from(number.to_string()).expect("of the right form")
}

/// The number that an id was made of.
pub fn number(id: &str) -> u8 {
    u8::from_str_radix(&id[id.len() - 2..], 16).expect("an id of this model")
}
