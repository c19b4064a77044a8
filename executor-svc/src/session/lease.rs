//! Who may act on a session, and until when.

use std::time::Duration;

use gatehouse_proto::ids::LeaseId;
use serde::{Deserialize, Serialize};

use super::command::{Answer, RootStanding, Step, TokenStanding};
use super::effect::Effect;
use super::machine::{claimed, done, root_refusal};
use super::{Refusal, Session, State};
use crate::clock::Timestamp;
use crate::ledger::once::Claim;

/// What a starting executor gives every live session at least: the time in which nobody could have called it.
pub const RESTART_GRACE: Duration = Duration::from_secs(60);

/// A renewal that would gain less than this part of the lease is not worth a write.
const RENEWAL_STEPS: u32 = 60;

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// When it runs out.
    pub expires_at: Timestamp,
    /// How long it lasts after each valid call, in seconds.
    pub ttl_seconds: u64,
}

impl Lease {
    /// A lease that begins now.
    #[must_use]
    pub fn new(id: LeaseId, ttl: Duration, now: Timestamp) -> Self {
        Self { id, expires_at: now.after(ttl), ttl_seconds: ttl.as_secs() }
    }

    /// How long it lasts after each valid call.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        Duration::from_secs(self.ttl_seconds)
    }

    /// Whether it has run out.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }

    /// Whether it ends later than any call before this moment can have promised.
    #[must_use]
    pub fn is_too_long(&self, now: Timestamp) -> bool {
        self.expires_at > now.after(self.ttl().max(RESTART_GRACE))
    }

    /// What is left of it.
    #[must_use]
    pub const fn left(&self, now: Timestamp) -> Duration {
        self.expires_at.since(now)
    }

    /// Lengthens it. Moves in steps of a sixtieth, so that looking often does not write often; the lease is never
    /// shorter than promised by more than that.
    fn renew(&mut self, now: Timestamp) -> bool {
        let wanted = now.after(self.ttl());
        let worth_it = wanted.since(self.expires_at) >= self.ttl() / RENEWAL_STEPS;
        if worth_it {
            self.expires_at = wanted;
        }
        worth_it
    }
}

/// Refuses a caller whose lease is not the current one or has run out; renews it otherwise.
pub(super) fn admit(session: &mut Session, lease: &LeaseId, now: Timestamp) -> Result<(), Refusal> {
    if !session.holds(lease) {
        return Err(Refusal::LeaseMismatch);
    }
    if session.state == State::LeaseExpired
        || (session.lease.expired(now) && session.state.status().is_live())
    {
        return Err(Refusal::LeaseExpired);
    }
    if session.lease.renew(now) {
        session.last_call_at = now;
    }
    Ok(())
}

/// Lets a caller look. The last lease may look at an expired session, and that renews nothing.
pub(super) fn look(mut session: Session, lease: &LeaseId, now: Timestamp) -> Result<Step, Refusal> {
    match admit(&mut session, lease, now) {
        Err(Refusal::LeaseExpired) | Ok(()) => Ok(done(session, Vec::new())),
        Err(refusal) => Err(refusal),
    }
}

/// The session changes hands.
pub(super) fn recover(
    mut session: Session,
    now: Timestamp,
    token: TokenStanding,
    claim: &Claim,
    lease_id: LeaseId,
    root: RootStanding,
) -> Result<Step, Refusal> {
    match token {
        TokenStanding::Right => {}
        TokenStanding::Wrong => return Err(Refusal::RecoveryDenied { locked: false }),
        TokenStanding::Locked => return Err(Refusal::RecoveryDenied { locked: true }),
    }
    if let Claim::Replay(row) = claim {
        // A replay gives out only what this very call minted.
        if row.lease_id.as_ref() != Some(&session.lease.id) {
            return Err(Refusal::LeaseMismatch);
        }
        let lease = session.lease.id.clone();
        let step = look(session, &lease, now)?;
        return Ok(Step { answer: Answer::Replayed, ..step });
    }
    claimed(claim)?;
    match &session.state {
        State::Stopping => return Err(Refusal::SessionBusy(session.state.status())),
        State::RecoveryRequired(action) => return Err(Refusal::RecoveryBlocked(action.clone())),
        State::Stopped(_) => {}
        _ => root_refusal(root)?,
    }
    session.lease = Lease::new(lease_id, session.lease.ttl(), now);
    session.last_call_at = now;
    if session.state == State::LeaseExpired {
        session.state = State::Idle;
    }
    Ok(done(session, vec![Effect::LeaseRotated]))
}

/// The reaper's question.
pub(super) fn check(mut session: Session, now: Timestamp) -> Step {
    // The clock was put back: no lease lasts longer than it was promised.
    if session.lease.is_too_long(now) {
        session.lease.expires_at = now.after(session.lease.ttl());
    }
    if !session.state.status().is_live() || session.state == State::Stopping || !session.lease.expired(now) {
        return done(session, Vec::new());
    }
    if matches!(session.state, State::RecoveryRequired(_)) {
        // There is nothing to end, and the block must stay visible.
        return done(session, Vec::new());
    }
    let mut effects = vec![Effect::LeaseRanOut];
    super::stopping::close_run(&mut session, now, "the lease expired", &mut effects);
    session.state = State::LeaseExpired;
    done(session, effects)
}

/// Somebody set the clock, or the machine was suspended: a lease is so many seconds, whatever the time of day, and so is
/// what a subagent has left.
pub(super) fn clock_moved(mut session: Session, millis: i64) -> Step {
    if session.state.status().is_live() {
        session.lease.expires_at = session.lease.expires_at.moved(millis);
        if let Some(subagent) = &mut session.subagent {
            subagent.deadline = subagent.deadline.moved(millis);
        }
    }
    done(session, Vec::new())
}

/// A new executor: the callers could not call while there was none. If the clock was put back meanwhile, the lease is
/// no longer than a fresh one all the same.
pub(super) fn grace_after_restart(session: &mut Session, now: Timestamp) {
    let longest = now.after(session.lease.ttl().max(RESTART_GRACE));
    session.lease.expires_at = session.lease.expires_at.max(now.after(RESTART_GRACE)).min(longest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_from_the_future_is_noticed() {
        let at = Timestamp::from_millis;
        let lease = Lease::new(LeaseId::mint(), Duration::from_secs(1800), at(10_000_000));
        assert!(!lease.is_too_long(at(10_000_000)) && !lease.is_too_long(at(99_000_000)));
        assert!(lease.is_too_long(at(9_999_999)));
    }

    #[test]
    fn renewing_moves_in_steps_and_never_backwards() {
        let start = Timestamp::from_millis(0);
        let mut lease = Lease::new(LeaseId::mint(), Duration::from_secs(1800), start);
        let first = lease.expires_at;
        lease.renew(start.after(Duration::from_secs(29)));
        assert_eq!(lease.expires_at, first, "a small gain is not written");
        lease.renew(start.after(Duration::from_secs(30)));
        assert_eq!(lease.expires_at, first.after(Duration::from_secs(30)));
        lease.renew(start);
        assert_eq!(lease.expires_at, first.after(Duration::from_secs(30)));
    }
}
