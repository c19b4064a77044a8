//! An action: authorised once, prepared if it can have an effect, settled once.

use gatehouse_proto::ids::ToolCallId;

use super::command::{Receipt, Step};
use super::effect::Effect;
use super::machine::done;
use super::state::{Call, CallState, Session};
use super::{Refusal, operating, stopping, subagent};
use crate::clock::Timestamp;
use crate::files::replace::Intent;

pub(super) fn call_mut<'a>(session: &'a mut Session, id: &ToolCallId) -> Option<&'a mut Call> {
    let of_run = session.state.run_mut().map(|run| run.calls.iter_mut());
    let of_subagent = session.subagent.iter_mut().flat_map(|subagent| subagent.run.calls.iter_mut());
    of_run
        .into_iter()
        .flatten()
        .chain(of_subagent)
        .chain(session.finishing.iter_mut())
        .find(|call| call.id == *id)
}

/// From here on the action may have an effect, so a stop lets it finish and a crash reconciles it.
pub(super) fn prepare(
    mut session: Session,
    id: &ToolCallId,
    intent: Option<Box<Intent>>,
) -> Result<Step, Refusal> {
    match call_mut(&mut session, id) {
        Some(call) if call.state == CallState::Authorised => call.state = CallState::Prepared,
        _ => return Err(Refusal::NotAuthorised),
    }
    Ok(done(session, vec![Effect::ActionPrepared { id: id.clone(), intent }]))
}

/// The receipt that came first stays. One that comes after a stop or an expiry finds the action cancelled.
pub(super) fn settle(
    mut session: Session,
    now: Timestamp,
    id: &ToolCallId,
    receipt: Receipt,
) -> Result<Step, Refusal> {
    if session.undoing.as_ref() == Some(id) {
        return Ok(operating::settle(session, id, receipt));
    }
    match call_mut(&mut session, id) {
        Some(call) if call.state == CallState::Settled => return Ok(done(session, Vec::new())),
        Some(call) => call.state = CallState::Settled,
        None => return Err(Refusal::NotAuthorised),
    }
    session.finishing.retain(|call| call.state != CallState::Settled);
    let mut effects = vec![Effect::ActionSettled { id: id.clone(), receipt }];
    effects.extend(subagent::finish_if_over(&mut session, now));
    effects.extend(stopping::finish_if_over(&mut session, now));
    Ok(done(session, effects))
}
