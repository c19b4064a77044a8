//! Opening turns: Claude Code asks, perhaps not for the first time.

use std::collections::BTreeSet;

use gatehouse_proto::ids::ToolCallId;

use super::command::{Answer, LaunchFailure, SeenResult, Step, TurnAsk};
use super::effect::Effect;
use super::machine::done;
use super::running::serves;
use super::state::{CallState, Run, Session, State, Turn, TurnKey, TurnKind};
use super::{Refusal, stopping};
use crate::clock::Timestamp;

pub(super) fn open(mut session: Session, now: Timestamp, ask: TurnAsk) -> Result<Step, Refusal> {
    if !serves(&session, &ask.run_id, ask.epoch) {
        return Err(Refusal::StaleRunner);
    }
    if let Some(known) = ask.known {
        // A repeat joins the turn, or is served the reply that the turn has.
        return Ok(Step { session, effects: Vec::new(), answer: Answer::Turn(known.id) });
    }
    let key = match fitting(&session, &ask) {
        Ok(key) => key,
        Err(why) => return Ok(broken(session, now, why)),
    };
    if session.state.run().is_some_and(|run| awaits_receipt(run, &ask.performing)) {
        return Ok(Step { session, effects: Vec::new(), answer: Answer::ReceiptsAwaited });
    }
    let mut effects = Vec::new();
    let Some(mut run) = session.state.run().cloned() else { return Err(Refusal::StaleRunner) };
    cancel_uncalled(&mut run, &ask.seen, &mut effects);
    run.turns += 1;
    session.turns += 1;
    let kind = kind_of(&session, &key);
    let turn = Turn { id: ask.turn_id.clone(), ordinal: session.turns, opened_at: now, kind };
    effects.push(Effect::TurnOpened {
        turn_id: ask.turn_id.clone(),
        run_id: run.id.clone(),
        ordinal: turn.ordinal,
        key,
        kind,
        request_hash: ask.request_hash,
    });
    session.state = State::Waiting(run, turn);
    Ok(Step { session, effects, answer: Answer::Turn(ask.turn_id) })
}

/// The key, if this is a request that can come now; else why it cannot.
fn fitting(session: &Session, ask: &TurnAsk) -> Result<TurnKey, String> {
    let key = ask.key.clone()?;
    match (&session.state, &key) {
        (State::Starting(run), TurnKey::First) if ask.marker == Some(run.ordinal) => Ok(key),
        (State::Starting(_), TurnKey::First) => {
            Err("the request carries the marker of another run".to_owned())
        }
        (State::Running(run), TurnKey::Results(ids)) if !ids.is_empty() && *ids == call_ids(run) => Ok(key),
        (State::Running(_), TurnKey::Results(_)) => {
            Err("the request does not carry exactly the results of the calls of the last reply".to_owned())
        }
        (state, _) => Err(format!(
            "a request of this kind cannot come while the session is {}",
            state.status().as_str()
        )),
    }
}

pub(super) fn call_ids(run: &Run) -> BTreeSet<ToolCallId> {
    run.calls.iter().map(|call| call.id.clone()).collect()
}

pub(super) fn awaits_receipt(run: &Run, performing: &[ToolCallId]) -> bool {
    run.calls.iter().any(|call| match call.state {
        CallState::Authorised => performing.contains(&call.id),
        CallState::Prepared => true,
        CallState::Settled => false,
    })
}

/// Calls that Claude Code answered itself, or never made, get a receipt that says so.
pub(super) fn cancel_uncalled(run: &mut Run, seen: &[SeenResult], effects: &mut Vec<Effect>) {
    for call in run.calls.iter_mut().filter(|call| call.state == CallState::Authorised) {
        let text = seen.iter().find(|result| result.id == call.id).map_or("", |result| result.text.as_str());
        call.state = CallState::Settled;
        effects.push(Effect::ActionCancelled {
            id: call.id.clone(),
            name: call.name.clone(),
            why: if text.is_empty() {
                "Claude Code did not make this call.".to_owned()
            } else {
                format!("Claude Code answered this call itself: {text}")
            },
        });
    }
}

fn kind_of(session: &Session, key: &TurnKey) -> TurnKind {
    let after_trouble =
        !session.unreported.is_empty() || session.last_result.as_ref().is_some_and(|last| !last.ok);
    match key {
        TurnKey::Results(_) => TurnKind::ToolResults,
        TurnKey::First if after_trouble => TurnKind::Resumed,
        TurnKey::First => TurnKind::Prompt,
    }
}

/// A request that fits no turn ends the run; nothing is opened.
fn broken(mut session: Session, now: Timestamp, why: String) -> Step {
    let mut effects = Vec::new();
    stopping::fail_run(&mut session, now, &why, &mut effects);
    session.state = State::Failed(LaunchFailure {
        code: "protocol".to_owned(),
        message: format!("Claude Code sent a model request that fits no turn of this run: {why}."),
        what_to_do: "Call native_session_continue to start a new run of the same session.".to_owned(),
    });
    Step { answer: Answer::ProtocolBroken(why), ..done(session, effects) }
}
