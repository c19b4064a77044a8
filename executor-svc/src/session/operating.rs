//! What the operator does with a session's writes: undoing one, and deciding what an uncertain one comes to.

use gatehouse_proto::ids::{RequestKey, ToolCallId};
use serde::{Deserialize, Serialize};

use super::actions::call_mut;
use super::command::{Receipt, Step};
use super::effect::Effect;
use super::machine::{done, replayed};
use super::state::{CallState, Session, State};
use super::{Refusal, stopping, subagent};
use crate::clock::Timestamp;
use crate::files::replace::Intent;
use crate::ledger::once::Claim;

/// The operator undoes an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoAsk {
    /// The id of the undo, which is an action itself.
    pub id: ToolCallId,
    /// The operator's id of the request.
    pub request_id: RequestKey,
    /// The action that it undoes.
    pub reverts: ToolCallId,
    /// What is about to be done.
    pub intent: Intent,
    /// Actions that are being performed at this moment.
    pub performing: Vec<ToolCallId>,
}

/// The operator decides what an uncertain action comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveAsk {
    /// The id of the resolving, which is an action itself.
    pub id: ToolCallId,
    /// The operator's id of the request.
    pub request_id: RequestKey,
    /// The uncertain action.
    pub resolves: ToolCallId,
    /// What was decided.
    pub decision: Decision,
    /// What is about to be written; nothing if what is on disk stays.
    pub intent: Option<Intent>,
}

/// What the operator makes of an uncertain write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// What is on disk stays.
    KeepDisk,
    /// The file becomes what it was before the action.
    RestoreBefore,
    /// The file becomes what the action should have made of it.
    RestoreAfter,
}

impl Decision {
    /// The name as it stands in receipts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeepDisk => "keep_disk",
            Self::RestoreBefore => "restore_before",
            Self::RestoreAfter => "restore_after",
        }
    }
}

/// Both receipts with which a resolving ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The resolving.
    pub by: ToolCallId,
    /// Its receipt.
    pub own: Receipt,
    /// The uncertain action.
    pub resolves: ToolCallId,
    /// Its receipt.
    pub receipt: Receipt,
}

/// An undo changes files that an action might be changing: it begins only while none is.
pub(super) fn begin_undo(mut session: Session, claim: &Claim, ask: Box<UndoAsk>) -> Result<Step, Refusal> {
    if let Some(step) = replayed(&session, claim)? {
        return Ok(step);
    }
    if let Some(action) = session.uncertain.first() {
        return Err(Refusal::RecoveryBlocked(action.clone()));
    }
    let calls = session.state.run().map(|run| run.calls.as_slice()).unwrap_or_default();
    let of_subagent = session.subagent.iter().flat_map(|subagent| &subagent.run.calls);
    let prepared = calls.iter().chain(of_subagent).any(|call| call.state == CallState::Prepared);
    if prepared || !session.finishing.is_empty() || !ask.performing.is_empty() || session.undoing.is_some() {
        return Err(Refusal::SessionBusy(session.state.status()));
    }
    session.undoing = Some(ask.id.clone());
    Ok(done(session, vec![Effect::UndoPrepared(ask)]))
}

/// A person has decided; until both receipts are there the session stays as it is.
pub(super) fn begin_resolve(
    mut session: Session,
    claim: &Claim,
    ask: Box<ResolveAsk>,
) -> Result<Step, Refusal> {
    if let Some(step) = replayed(&session, claim)? {
        return Ok(step);
    }
    if !session.uncertain.contains(&ask.resolves) {
        return Err(Refusal::NotAuthorised);
    }
    if session.undoing.is_some() {
        return Err(Refusal::SessionBusy(session.state.status()));
    }
    session.undoing = Some(ask.id.clone());
    Ok(done(session, vec![Effect::ResolvePrepared(ask)]))
}

/// The uncertain action has its receipt, and so has what resolved it. A session that has not ended can go on.
pub(super) fn resolve(mut session: Session, resolution: Resolution) -> Result<Step, Refusal> {
    let Resolution { by, own, resolves, receipt } = resolution;
    if session.undoing.as_ref() != Some(&by) || !session.uncertain.contains(&resolves) {
        return Err(Refusal::NotAuthorised);
    }
    session.undoing = None;
    session.uncertain.retain(|action| *action != resolves);
    tell_later(&mut session, &resolves);
    tell_later(&mut session, &by);
    if matches!(session.state, State::RecoveryRequired(_)) {
        let next = session.uncertain.first().cloned();
        session.state = next.map_or(State::Idle, State::RecoveryRequired);
    }
    let effects =
        vec![Effect::ActionSettled { id: resolves, receipt }, Effect::ActionSettled { id: by, receipt: own }];
    Ok(done(session, effects))
}

/// What the operator did has its receipt.
pub(super) fn settle(mut session: Session, id: &ToolCallId, receipt: Receipt) -> Step {
    session.undoing = None;
    tell_later(&mut session, id);
    done(session, vec![Effect::ActionSettled { id: id.clone(), receipt }])
}

/// A pending turn was perhaps read before this happened, so it is told in the next one as well.
fn tell_later(session: &mut Session, id: &ToolCallId) {
    if !session.unreported.contains(id) {
        session.unreported.push(id.clone());
    }
    if matches!(session.state, State::Waiting(..)) {
        session.told_late.push(id.clone());
    }
}

/// What is on disk is neither before nor after: the session stops until a person decides. One that has ended for good
/// stays as it is, and the action can be resolved all the same.
pub(super) fn mark_uncertain(
    mut session: Session,
    now: Timestamp,
    id: &ToolCallId,
    why: String,
) -> Result<Step, Refusal> {
    if session.uncertain.contains(id) {
        return Ok(done(session, Vec::new()));
    }
    if session.undoing.as_ref() == Some(id) {
        session.undoing = None;
    } else if call_mut(&mut session, id).is_none_or(|call| call.state != CallState::Prepared) {
        return Err(Refusal::NotAuthorised);
    }
    let mut effects = vec![Effect::ActionUncertain { id: id.clone(), why }];
    stopping::close_run(&mut session, now, "the effect of an action is uncertain", &mut effects);
    session.finishing.retain(|call| call.id != *id);
    session.uncertain.push(id.clone());
    effects.extend(subagent::finish_if_over(&mut session, now));
    match &session.state {
        State::Stopped(_) => {}
        State::Stopping => effects.extend(stopping::finish_if_over(&mut session, now)),
        _ => session.state = State::RecoveryRequired(session.uncertain[0].clone()),
    }
    Ok(done(session, effects))
}
