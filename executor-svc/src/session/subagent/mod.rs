//! A session's subagent: one isolated sub-session at a time, with a model of its own.
//!
//! It lives inside the session's value, so that what the two may do to each other is decided in one step: while a
//! subagent is active the main session neither writes, nor runs commands, nor ends its run; whatever ends the session's
//! run ends the subagent first; and the session has ended only when the subagent has.
//!
//! ```text
//! started ── asks ──▶ running ⇄ asking          a text without calls, then the end of its run: finished
//!    └──────────┴──────────┴──▶ stopping ──▶    its process is gone and nothing is in flight: failed or stopped
//! ```

mod answer;
mod ending;
mod life;
mod rules;
mod state;

pub use answer::SubagentAnswer;
pub use life::SubagentStart;
pub use rules::{GET, START, STOP};
pub use state::{
    Grade, Process, Subagent, SubagentEnd, SubagentFailure, SubagentLimits, SubagentState, Usage,
};

pub(super) use answer::{answer, begin_request, fail};
pub(super) use ending::{check, close, finish_if_over, gone, stop};
pub(super) use life::{attach, end, open_turn, serves, start};
pub(super) use rules::allows;
