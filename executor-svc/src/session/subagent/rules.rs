//! What the main session may do beside a subagent. Decided on the reply as a whole.

use gatehouse_proto::codes::ErrorCode;

use crate::session::command::CallRequest;
use crate::session::refusal::{Refusal, ReplyFault};
use crate::session::state::Session;

/// Starts a subagent.
pub const START: &str = "deepseek_subagent_start";
/// Looks at one.
pub const GET: &str = "deepseek_subagent_get";
/// Ends one.
pub const STOP: &str = "deepseek_subagent_stop";

/// What may change something, and so is the subagent's alone while it is active.
const LOCKED: [&str; 5] = ["Edit", "Write", "NotebookEdit", "RunCommand", START];

/// Whether a reply with these calls may be given now.
pub(in crate::session) fn allows(session: &Session, calls: &[CallRequest]) -> Result<(), Refusal> {
    if calls.len() > 1 && calls.iter().any(|call| call.name == START) {
        let beside = named(calls, |call| call.name == START, "must be the only call of its reply");
        return Err(refuse(
            ErrorCode::InvalidArgument,
            format!("Nothing of this reply was taken. {START} must be the only call of its reply."),
            "Send it alone; the turn and the reply_id are still free.",
            beside,
        ));
    }
    let Some(subagent) = &session.subagent else { return Ok(()) };
    if calls.is_empty() {
        return Err(refuse(
            ErrorCode::SubagentActive,
            format!("Subagent {} is active; a reply without tool calls would end the run.", subagent.id),
            "Wait for it with deepseek_subagent_get, or end it with deepseek_subagent_stop; then finish.",
            Vec::new(),
        ));
    }
    let at_fault =
        named(calls, |call| LOCKED.contains(&call.name.as_str()), "not while a subagent is active");
    if at_fault.is_empty() {
        return Ok(());
    }
    Err(refuse(
        ErrorCode::SubagentActive,
        format!(
            "Nothing of this reply was taken. Subagent {} is active: until it is over the main session only looks.",
            subagent.id
        ),
        "Wait for it with deepseek_subagent_get, or end it with deepseek_subagent_stop, then send the reply again.",
        at_fault,
    ))
}

fn named(
    calls: &[CallRequest],
    at_fault: impl Fn(&CallRequest) -> bool,
    why: &str,
) -> Vec<(usize, String, String)> {
    let faults = calls.iter().enumerate().filter(|(_, call)| at_fault(call));
    faults.map(|(index, call)| (index, call.name.clone(), why.to_owned())).collect()
}

fn refuse(
    code: ErrorCode,
    message: String,
    what_to_do: &str,
    calls: Vec<(usize, String, String)>,
) -> Refusal {
    Refusal::Reply(ReplyFault { code, message, what_to_do: what_to_do.to_owned(), calls })
}
