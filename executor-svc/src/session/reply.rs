//! A reply: exactly one per turn, authorised as a whole or not at all.

use gatehouse_proto::ids::{LeaseId, RequestKey, TurnId};

use super::command::{CallRequest, Step, TurnStanding};
use super::effect::Effect;
use super::machine::{done, replayed};
use super::state::{CallState, Session, State, Status};
use super::{Refusal, lease, subagent};
use crate::clock::Timestamp;
use crate::ledger::once::Claim;

/// What one call's receipt may take at most, and what all receipts of a turn may take together.
const RECEIPT_LIMIT: u32 = 64 * 1024;
const RECEIPTS_LIMIT: u32 = 384 * 1024;

/// A reply that asks to be committed.
pub(super) struct Offer {
    pub reply_id: RequestKey,
    pub turn_id: TurnId,
    pub turn: Option<TurnStanding>,
    pub text: String,
    pub calls: Result<Vec<CallRequest>, Refusal>,
}

pub(super) fn commit(
    mut session: Session,
    now: Timestamp,
    lease: &LeaseId,
    claim: &Claim,
    offer: Offer,
) -> Result<Step, Refusal> {
    lease::admit(&mut session, lease, now)?;
    if let Some(step) = replayed(&session, claim)? {
        return Ok(step);
    }
    let State::Waiting(run, turn) = &session.state else {
        return Err(not_waiting(session.state.status(), offer.turn));
    };
    if turn.id != offer.turn_id {
        return Err(not_pending(offer.turn));
    }
    let calls = offer.calls?;
    subagent::allows(&session, &calls)?;
    let mut run = run.clone();
    let authorised = calls.iter().map(|call| call.standing(CallState::Authorised)).collect();
    run.answered_with(offer.turn_id.clone(), authorised);
    // What the answered turn showed when it was opened, the caller has seen.
    session.unreported = std::mem::take(&mut session.told_late);
    let effect = Effect::ReplyCommitted {
        turn_id: offer.turn_id,
        run_id: run.id.clone(),
        reply_id: offer.reply_id,
        text: offer.text,
        budget: receipt_budget(calls.len()),
        calls,
    };
    session.state = State::Running(run);
    Ok(done(session, vec![effect]))
}

/// The budget of each receipt, in bytes, for a reply of `calls` calls.
pub(super) fn receipt_budget(calls: usize) -> u32 {
    let calls = u32::try_from(calls).unwrap_or(u32::MAX).max(1);
    RECEIPT_LIMIT.min(RECEIPTS_LIMIT / calls)
}

/// The session waits for no reply at all.
fn not_waiting(status: Status, turn: Option<TurnStanding>) -> Refusal {
    match (status, turn) {
        (_, Some(TurnStanding::Answered)) => Refusal::TurnAlreadyAnswered,
        (Status::Stopped | Status::Stopping, _) => Refusal::SessionStopped,
        (_, Some(TurnStanding::Abandoned)) => Refusal::RunnerGone,
        _ => Refusal::TurnMismatch,
    }
}

/// The session waits for a reply, but to another turn.
const fn not_pending(turn: Option<TurnStanding>) -> Refusal {
    match turn {
        Some(TurnStanding::Answered) => Refusal::TurnAlreadyAnswered,
        Some(TurnStanding::Abandoned) => Refusal::RunnerGone,
        Some(TurnStanding::Pending) | None => Refusal::TurnMismatch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_of_one_turn_stay_within_384_kib_together() {
        assert_eq!(receipt_budget(0), 65_536);
        assert_eq!(receipt_budget(6), 65_536);
        assert_eq!(receipt_budget(16), 24_576);
        for calls in 1..=16 {
            assert!(receipt_budget(calls) * u32::try_from(calls).unwrap() <= RECEIPTS_LIMIT);
        }
    }
}
