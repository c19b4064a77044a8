//! A subagent on its way out: in order, and seen to be gone.

use gatehouse_proto::ids::{RunId, SubagentId};

use super::state::{Process, Subagent, SubagentEnd, SubagentFailure, SubagentState};
use crate::clock::Timestamp;
use crate::session::command::Step;
use crate::session::effect::Effect;
use crate::session::machine::done;
use crate::session::state::{CallState, Session};
use crate::session::stopping;

/// Begins the end of the subagent, if there is one: its pending turn is abandoned, what was not begun is cancelled, its
/// process is to be ended. The first reason stays.
pub(in crate::session) fn close(session: &mut Session, end: SubagentEnd, effects: &mut Vec<Effect>) {
    let Some(subagent) = session.subagent.as_mut().filter(|subagent| !subagent.is_ending()) else { return };
    let why = words(&end);
    if let SubagentState::Asking { turn, .. } = &subagent.state {
        effects.push(Effect::TurnAbandoned { turn_id: turn.clone(), why: why.clone() });
    }
    for call in subagent.run.calls.iter().filter(|call| call.state == CallState::Authorised) {
        effects.push(Effect::ActionCancelled {
            id: call.id.clone(),
            name: call.name.clone(),
            why: format!("Not performed: {why}."),
        });
    }
    let begun = subagent.run.calls.iter().filter(|call| call.state == CallState::Prepared);
    session.finishing.extend(begun.cloned());
    subagent.run.calls.clear();
    if end != SubagentEnd::Finished {
        effects.push(Effect::SubagentStopping { id: subagent.id.clone(), end: end.clone() });
        effects.push(Effect::EndRunner { run_id: subagent.run.id.clone(), epoch: subagent.run.epoch });
    }
    subagent.state = SubagentState::Stopping { end, process: Process::Ending };
}

fn words(end: &SubagentEnd) -> String {
    match end {
        SubagentEnd::Finished => "the subagent has finished".to_owned(),
        SubagentEnd::Failed(failure) => format!("the subagent failed: {}", failure.message),
        SubagentEnd::Stopped(why) => why.clone(),
    }
}

/// The last step: the process is gone, and every action that had begun has its receipt.
pub(in crate::session) fn finish_if_over(session: &mut Session, now: Timestamp) -> Vec<Effect> {
    let Some(Subagent { state: SubagentState::Stopping { end, process: Process::Gone }, .. }) =
        &session.subagent
    else {
        return Vec::new();
    };
    if !session.finishing.is_empty() {
        return Vec::new();
    }
    let end = end.clone();
    let Some(Subagent { id, run, .. }) = session.subagent.take() else { return Vec::new() };
    let mut effects = vec![Effect::SubagentOver { id, run_id: run.id, result_turn: run.answered, end }];
    effects.extend(stopping::finish_if_over(session, now));
    effects
}

/// Somebody wants it to end. One that is over, or on its way, is as it should be.
pub(in crate::session) fn stop(mut session: Session, id: &SubagentId, why: String) -> Step {
    let mut effects = Vec::new();
    if session.subagent.as_ref().is_some_and(|subagent| subagent.id == *id) {
        close(&mut session, SubagentEnd::Stopped(why), &mut effects);
    }
    done(session, effects)
}

/// The process is seen to be gone.
pub(in crate::session) fn gone(mut session: Session, now: Timestamp, run_id: &RunId, why: &str) -> Step {
    let mut effects = Vec::new();
    let end = match &session.subagent {
        Some(subagent) if subagent.has_answered() => SubagentEnd::Finished,
        _ => SubagentEnd::Failed(SubagentFailure::new("runner_gone", why)),
    };
    close(&mut session, end, &mut effects);
    effects.retain(|effect| !matches!(effect, Effect::EndRunner { run_id: of, .. } if of == run_id));
    if let Some(Subagent { state: SubagentState::Stopping { process, .. }, .. }) = &mut session.subagent {
        *process = Process::Gone;
    }
    effects.extend(finish_if_over(&mut session, now));
    done(session, effects)
}

/// The reaper's question: whether its time is over.
pub(in crate::session) fn check(mut session: Session, now: Timestamp) -> Step {
    let mut effects = Vec::new();
    if session.subagent.as_ref().is_some_and(|subagent| now >= subagent.deadline) {
        let failure = SubagentFailure::new("timed_out", "the subagent's time is over");
        close(&mut session, SubagentEnd::Failed(failure), &mut effects);
    }
    done(session, effects)
}
