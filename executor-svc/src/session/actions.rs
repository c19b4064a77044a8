//! An action: authorised once, prepared if it can have an effect, settled once.

use gatehouse_proto::ids::ToolCallId;

use super::command::{Receipt, Step, UndoAsk};
use super::effect::Effect;
use super::machine::done;
use super::state::{Call, CallState, Session, State};
use super::{Refusal, stopping};
use crate::clock::Timestamp;
use crate::files::replace::Intent;

fn call_mut<'a>(session: &'a mut Session, id: &ToolCallId) -> Option<&'a mut Call> {
    let of_run = session.state.run_mut().map(|run| run.calls.iter_mut());
    of_run.into_iter().flatten().chain(session.finishing.iter_mut()).find(|call| call.id == *id)
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

/// An undo changes files that an action might be changing: it begins only while none is.
pub(super) fn begin_undo(mut session: Session, ask: Box<UndoAsk>) -> Result<Step, Refusal> {
    if let State::RecoveryRequired(action) = &session.state {
        return Err(Refusal::RecoveryBlocked(action.clone()));
    }
    let calls = session.state.run().map(|run| run.calls.as_slice()).unwrap_or_default();
    let prepared = calls.iter().any(|call| call.state == CallState::Prepared);
    if prepared || !session.finishing.is_empty() || !ask.performing.is_empty() || session.undoing.is_some() {
        return Err(Refusal::SessionBusy(session.state.status()));
    }
    session.undoing = Some(ask.id.clone());
    Ok(done(session, vec![Effect::UndoPrepared(ask)]))
}

/// The receipt that came first stays. One that comes after a stop or an expiry finds the action cancelled.
pub(super) fn settle(
    mut session: Session,
    now: Timestamp,
    id: &ToolCallId,
    receipt: Receipt,
) -> Result<Step, Refusal> {
    if session.undoing.as_ref() == Some(id) {
        session.undoing = None;
        session.unreported.push(id.clone());
        return Ok(done(session, vec![Effect::ActionSettled { id: id.clone(), receipt }]));
    }
    match call_mut(&mut session, id) {
        Some(call) if call.state == CallState::Settled => return Ok(done(session, Vec::new())),
        Some(call) => call.state = CallState::Settled,
        None => return Err(Refusal::NotAuthorised),
    }
    session.finishing.retain(|call| call.state != CallState::Settled);
    let mut effects = vec![Effect::ActionSettled { id: id.clone(), receipt }];
    effects.extend(stopping::finish_if_over(&mut session, now));
    Ok(done(session, effects))
}

/// What is on disk is neither before nor after: the session stops until a person decides.
pub(super) fn mark_uncertain(
    mut session: Session,
    now: Timestamp,
    id: &ToolCallId,
    why: String,
) -> Result<Step, Refusal> {
    let undoing = session.undoing.as_ref() == Some(id);
    match call_mut(&mut session, id) {
        _ if undoing => {}
        Some(call) if call.state == CallState::Prepared => {}
        _ => return Err(Refusal::NotAuthorised),
    }
    let mut effects = vec![Effect::ActionUncertain { id: id.clone(), why }];
    stopping::close_run(&mut session, now, "the effect of an action is uncertain", &mut effects);
    session.state = State::RecoveryRequired(id.clone());
    Ok(done(session, effects))
}

/// A person has decided.
pub(super) fn resolve(mut session: Session, id: &ToolCallId, receipt: Receipt) -> Result<Step, Refusal> {
    if session.state != State::RecoveryRequired(id.clone()) {
        return Err(Refusal::NotAuthorised);
    }
    session.finishing.retain(|call| call.id != *id);
    if session.undoing.as_ref() == Some(id) {
        session.undoing = None;
        session.unreported.push(id.clone());
    }
    session.state = State::Idle;
    Ok(done(session, vec![Effect::ActionSettled { id: id.clone(), receipt }]))
}
