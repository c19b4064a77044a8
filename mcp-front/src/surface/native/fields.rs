//! The fields that several tools share.

use super::input::{Limits, TextField, WaitField};

/// Ids, of ours or of the caller. The executor decides whether one is good; here only its length counts.
const ID: Limits = Limits::Characters(1, 200);
/// The largest prompt, in bytes.
pub(super) const MAX_PROMPT: usize = 256 * 1024;

pub(super) const SESSION: TextField = TextField {
    name: "native_session_id",
    description: "The session, as every result names it.",
    limits: ID,
};

pub(super) const LEASE: TextField = TextField {
    name: "lease_id",
    description: "The current lease, as the latest result gave it. native_session_recover replaces it.",
    limits: ID,
};

pub(super) const TURN: TextField = TextField {
    name: "turn_id",
    description: "The turn that is answered: pending_turn.turn_id of the latest result.",
    limits: ID,
};

pub(super) const REPLY_ID: TextField = TextField {
    name: "reply_id",
    description: "Your own id of this reply, new for each reply (a UUID is good). Repeat it only to ask again for a \
                  lost answer to the very same reply.",
    limits: ID,
};

pub(super) const RECOVERY_TOKEN: TextField = TextField {
    name: "recovery_token",
    description: "The token that native_session_start returned.",
    limits: ID,
};

pub(super) const RECOVERY_ID: TextField = TextField {
    name: "recovery_id",
    description: "Your own id of this recovery, new for each recovery (a UUID is good). Repeat it only to ask again \
                  for a lost answer.",
    limits: ID,
};

pub(super) const REQUEST_ID: TextField = TextField {
    name: "request_id",
    description: "Your own id of this stop (a UUID is good). Repeat it only to ask again for a lost answer.",
    limits: ID,
};

pub(super) const IDEMPOTENCY_KEY: TextField = TextField {
    name: "idempotency_key",
    description: "A new UUID for each new start or run. If the answer is lost, call again with the same key and the \
                  same arguments: nothing is done twice.",
    limits: Limits::Characters(16, 200),
};

pub(super) const PROMPT: TextField = TextField {
    name: "prompt",
    description: "The task, in the words that shall stand at the beginning of the run. It comes back to you, unchanged, \
                  in the first pending_turn. At most 256 KiB.",
    limits: Limits::Bytes(1, MAX_PROMPT),
};

pub(super) const WAIT_FOR_FIRST_TURN: WaitField = WaitField {
    description: "How long to wait for the first pending_turn of the run. If it is not there by then, the result says \
                  starting or running: go on with native_session_status.",
    default: 30,
};
