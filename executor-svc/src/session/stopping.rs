//! Ending runs and sessions in order.

use gatehouse_proto::ids::{LeaseId, RequestKey, TurnId};

use super::command::Step;
use super::effect::Effect;
use super::machine::{done, replayed};
use super::state::{CallState, Ending, LastResult, ResultText, Session, State, StopAsk, Terminal};
use super::{Refusal, SubagentEnd, lease, subagent};
use crate::clock::Timestamp;
use crate::ledger::once::Claim;

/// Ends the session for good; at once if no process is left to end.
pub(super) fn stop(
    mut session: Session,
    now: Timestamp,
    lease: Option<&LeaseId>,
    claim: &Claim,
    request_id: RequestKey,
    reason: String,
) -> Result<Step, Refusal> {
    if let Some(lease) = lease {
        lease::admit(&mut session, lease, now)?;
    }
    if let Some(step) = replayed(&session, claim)? {
        return Ok(step);
    }
    match &session.state {
        State::Stopped(_) => return Err(Refusal::SessionStopped),
        State::Stopping => return Err(Refusal::SessionBusy(session.state.status())),
        _ => {}
    }
    let mut effects = vec![Effect::StopRequested];
    close_run(&mut session, now, "the session was stopped", &mut effects);
    session.stop = Some(StopAsk { request_id, reason, requested_at: now });
    session.state = State::Stopping;
    effects.extend(finish_if_over(&mut session, now));
    Ok(done(session, effects))
}

/// The last step of a stop: the processes are gone, and every action that had begun has its receipt.
pub(super) fn finish_if_over(session: &mut Session, now: Timestamp) -> Vec<Effect> {
    let in_flight = session.ending.is_some() || session.subagent.is_some() || !session.finishing.is_empty();
    if session.state != State::Stopping || in_flight {
        return Vec::new();
    }
    let reason = session.stop.as_ref().map_or_else(String::new, |stop| stop.reason.clone());
    session.state = State::Stopped(Terminal { reason, at: now });
    vec![Effect::Stopped]
}

/// Closes the run, if there is one, and the subagent before it: its pending turn is abandoned, what was not begun is cancelled, its process is to
/// be ended, and what it did that nobody was told stays to be told. The caller sets the next state.
///
/// A run whose last reply was text alone had its final answer, and has it also if its process ends before it says so.
pub(super) fn close_run(session: &mut Session, now: Timestamp, why: &str, effects: &mut Vec<Effect>) {
    let said = final_reply(&session.state);
    close(session, now, why, said, effects);
}

/// The same where Claude Code itself says that the run went wrong, whatever its last reply was.
pub(super) fn fail_run(session: &mut Session, now: Timestamp, why: &str, effects: &mut Vec<Effect>) {
    close(session, now, why, None, effects);
}

/// The turn that the run's final answer stands in, once that is committed.
fn final_reply(state: &State) -> Option<TurnId> {
    match state {
        State::Running(run) if run.calls.is_empty() => run.answered.clone(),
        _ => None,
    }
}

fn close(session: &mut Session, now: Timestamp, why: &str, said: Option<TurnId>, effects: &mut Vec<Effect>) {
    // First: it works for this run, and in the same directory.
    subagent::close(session, SubagentEnd::Stopped(why.to_owned()), effects);
    if let State::Waiting(_, turn) = &session.state {
        effects.push(Effect::TurnAbandoned { turn_id: turn.id.clone(), why: why.to_owned() });
    }
    let Some(run) = session.state.run().cloned() else { return };
    for call in run.calls.iter().filter(|call| call.state == CallState::Authorised) {
        effects.push(Effect::ActionCancelled {
            id: call.id.clone(),
            name: call.name.clone(),
            why: format!("Not performed: {why}."),
        });
    }
    session.finishing.extend(run.calls.iter().filter(|call| call.state == CallState::Prepared).cloned());
    session.unreported.extend(run.calls.iter().map(|call| call.id.clone()));
    let ok = said.is_some();
    session.last_result = Some(LastResult {
        run_id: run.id.clone(),
        ok,
        text: said.map_or_else(|| ResultText::Message(why.to_owned()), ResultText::ReplyTo),
        finished_at: now,
        turns: run.turns,
        actions: run.actions,
    });
    let why = (!ok).then(|| why.to_owned());
    effects.push(Effect::RunClosed { run_id: run.id.clone(), ok, why });
    effects.push(Effect::EndRunner { run_id: run.id.clone(), epoch: run.epoch });
    session.ending = Some(Ending { run_id: run.id, epoch: run.epoch });
}
