//! The session protocol as one pure state machine.
//!
//! [`apply`] takes a session, the time and a [`Command`], and gives either the session's next value with the
//! [`Effect`]s that belong to it, or a [`Refusal`]. It reads no clock, touches no file, mints no id: whoever calls it
//! brings those. Everything about turns, replies, leases, stops and idempotency is decided here and nowhere else; the
//! `engine` room commits what it says, and the `runner` room carries out its orders.
//!
//! Facts that hold over any sequence of commands (property-tested in `tests`):
//! * an action is authorised once, by the one reply of its turn, and settled once;
//! * a turn gets exactly one reply, and only while it is the pending one;
//! * the same id with the same content replays, with other content is refused;
//! * what an expired or rotated lease asks for changes nothing;
//! * while a subagent is active the main session changes nothing, and no session has ended before its subagent has.

mod actions;
mod command;
mod effect;
mod isolation;
mod lease;
mod machine;
mod operating;
mod refusal;
mod reply;
mod running;
mod state;
mod stopping;
mod subagent;
mod territory;
#[cfg(test)]
mod tests;
mod turns;

pub use command::{
    Answer, CallRequest, Command, KnownTurn, LaunchFailure, NewSession, Receipt, RootStanding, RunOutcome,
    SeenResult, Step, TokenStanding, TurnAsk, TurnStanding,
};
pub use effect::Effect;
pub use isolation::Isolation;
pub use lease::{Lease, RESTART_GRACE};
pub use machine::{apply, create};
pub use operating::{Decision, Resolution, ResolveAsk, UndoAsk};
pub use refusal::{Refusal, ReplyFault};
pub use state::{
    Attachment, Call, CallState, Ending, LastResult, Profile, ResultText, RootBinding, Run, Session, State,
    Status, StopAsk, SubagentPolicy, Terminal, Turn, TurnKey, TurnKind,
};
pub use subagent::{
    GET as SUBAGENT_GET, Grade, Process, START as SUBAGENT_START, STOP as SUBAGENT_STOP, Subagent,
    SubagentAnswer, SubagentEnd, SubagentFailure, SubagentLimits, SubagentStart, SubagentState, Usage,
};
pub use territory::Territory;
