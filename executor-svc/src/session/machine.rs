//! The dispatch, and the pieces that all commands share.

use gatehouse_proto::ids::{LeaseId, RunId};

use super::command::{Answer, Command, NewSession, RootStanding, Step};
use super::effect::Effect;
use super::lease::Lease;
use super::state::{Attachment, Run, Session, State};
use super::{Refusal, actions, isolation, lease, operating, reply, running, stopping, subagent, turns};
use crate::clock::Timestamp;
use crate::ledger::once::Claim;

/// The first value of a session, and the launch of its first run.
#[must_use]
pub fn create(new: NewSession, now: Timestamp) -> Step {
    let mut session = Session {
        id: new.id,
        label: new.label,
        profile: new.profile,
        subagents: new.subagents,
        root: new.root,
        source_directory: new.source_directory,
        claude_session_id: new.claude_session_id,
        created_at: now,
        revision: 0,
        last_call_at: now,
        lease: Lease::new(new.lease_id, new.lease_ttl, now),
        recovery_hash: new.recovery_hash,
        state: State::Idle,
        ending: None,
        isolation: new.isolation,
        finishing: Vec::new(),
        undoing: None,
        uncertain: Vec::new(),
        runs: 0,
        turns: 0,
        last_result: None,
        stop: None,
        unreported: Vec::new(),
        told_late: Vec::new(),
        enforced_by: Vec::new(),
        skills: new.skills.iter().map(|skill| skill.facts.clone()).collect(),
        subagent: None,
        subsessions: 0,
    };
    let mut effects = vec![Effect::SessionCreated];
    effects.extend((!new.skills.is_empty()).then_some(Effect::SkillsFrozen(new.skills)));
    effects.extend(open_run(&mut session, new.run_id, new.prompt, now));
    done(session, effects)
}

/// Decides a command.
///
/// # Errors
/// The refusal; the session is then as it was.
pub fn apply(before: &Session, now: Timestamp, command: Command) -> Result<Step, Refusal> {
    let mut step = decide(before.clone(), now, command)?;
    if !step.effects.is_empty() || step.session.state != before.state {
        step.session.revision = before.revision + 1;
    }
    Ok(step)
}

fn decide(session: Session, now: Timestamp, command: Command) -> Result<Step, Refusal> {
    match command {
        Command::StartSubagent(ask) => subagent::start(session, now, *ask),
        Command::StopSubagent { id, why } => Ok(subagent::stop(session, &id, why)),
        Command::BeginRequest { turn_id } => subagent::begin_request(session, &turn_id),
        Command::SubagentAnswer(answer) => subagent::answer(session, *answer),
        Command::SubagentFailed { turn_id, failure } => subagent::fail(session, &turn_id, failure),
        Command::CheckSubagent => Ok(subagent::check(session, now)),
        command => by_run(session, now, command),
    }
}

/// What a subagent's runner asks is the subagent's; everything else is the session's own.
fn by_run(session: Session, now: Timestamp, command: Command) -> Result<Step, Refusal> {
    match command {
        Command::Attach { run_id, epoch, enforced_by } if subagent::serves(&session, &run_id, epoch) => {
            subagent::attach(session, enforced_by)
        }
        Command::OpenTurn(ask) if subagent::serves(&session, &ask.run_id, ask.epoch) => {
            subagent::open_turn(session, ask)
        }
        Command::EndRun { run_id, epoch, outcome } if subagent::serves(&session, &run_id, epoch) => {
            Ok(subagent::end(session, now, &run_id, outcome))
        }
        Command::RunnerGone { run_id, why, .. } if session.subagent_of(&run_id).is_some() => {
            Ok(subagent::gone(session, now, &run_id, &why))
        }
        command => of_session(session, now, command),
    }
}

fn of_session(session: Session, now: Timestamp, command: Command) -> Result<Step, Refusal> {
    match command {
        Command::Continue { lease, claim, run_id, prompt, root } => {
            continue_with(session, now, &lease, &claim, NextRun { run_id, prompt, root })
        }
        Command::Recover { token, claim, lease_id, root } => {
            lease::recover(session, now, token, &claim, lease_id, root)
        }
        Command::Reply { lease, claim, reply_id, turn_id, turn, text, calls } => {
            reply::commit(session, now, &lease, &claim, reply::Offer { reply_id, turn_id, turn, text, calls })
        }
        Command::Look { lease } => lease::look(session, &lease, now),
        Command::Stop { lease, claim, request_id, reason } => {
            stopping::stop(session, now, lease.as_ref(), &claim, request_id, reason)
        }
        Command::Attach { run_id, epoch, enforced_by } => {
            running::attach(session, &run_id, epoch, enforced_by)
        }
        Command::Relaunch { run_id, epoch } => running::relaunch(session, &run_id, epoch),
        Command::WorktreeMade { run_id, epoch, worktree } => {
            isolation::made(session, &run_id, epoch, *worktree)
        }
        Command::WorktreeRemoved => isolation::removed(session),
        Command::OpenTurn(ask) => turns::open(session, now, ask),
        Command::Prepare { id, intent } => actions::prepare(session, &id, intent),
        Command::BeginUndo(claim, ask) => operating::begin_undo(session, &claim, ask),
        Command::BeginResolve(claim, ask) => operating::begin_resolve(session, &claim, ask),
        Command::Settle { id, receipt } => actions::settle(session, now, &id, receipt),
        Command::EndRun { run_id, epoch, outcome } => running::end(session, now, &run_id, epoch, outcome),
        Command::Interrupt { run_id, epoch, why } => {
            Ok(running::interrupt(session, now, &run_id, epoch, &why))
        }
        Command::RunnerGone { run_id, epoch, why } => Ok(running::gone(session, now, &run_id, epoch, &why)),
        Command::MarkUncertain { id, why } => operating::mark_uncertain(session, now, &id, why),
        Command::Resolve(resolution) => operating::resolve(session, *resolution),
        Command::CheckLease => Ok(lease::check(session, now)),
        Command::ClockMoved { millis } => Ok(lease::clock_moved(session, millis)),
        Command::Restarted => Ok(restarted(session, now)),
        // Decided before.
        Command::StartSubagent(_)
        | Command::StopSubagent { .. }
        | Command::BeginRequest { .. }
        | Command::SubagentAnswer(_)
        | Command::SubagentFailed { .. }
        | Command::CheckSubagent => Err(Refusal::NotAuthorised),
    }
}

struct NextRun {
    run_id: RunId,
    prompt: String,
    root: RootStanding,
}

fn continue_with(
    mut session: Session,
    now: Timestamp,
    lease: &LeaseId,
    claim: &Claim,
    next: NextRun,
) -> Result<Step, Refusal> {
    lease::admit(&mut session, lease, now)?;
    if let Some(step) = replayed(&session, claim)? {
        return Ok(step);
    }
    match &session.state {
        State::Idle | State::Failed(_)
            if session.ending.is_none()
                && session.subagent.is_none()
                && session.finishing.is_empty()
                && session.undoing.is_none() => {}
        State::Stopped(_) => return Err(Refusal::SessionStopped),
        State::LeaseExpired => return Err(Refusal::LeaseExpired),
        State::RecoveryRequired(action) => return Err(Refusal::RecoveryBlocked(action.clone())),
        State::Starting(_)
        | State::Waiting(..)
        | State::Running(_)
        | State::Stopping
        | State::Idle
        | State::Failed(_) => {
            return Err(Refusal::SessionBusy(session.state.status()));
        }
    }
    root_refusal(next.root)?;
    let effects = open_run(&mut session, next.run_id, next.prompt, now);
    Ok(done(session, effects))
}

fn open_run(session: &mut Session, run_id: RunId, prompt: String, now: Timestamp) -> Vec<Effect> {
    session.runs += 1;
    let run = Run::new(run_id.clone(), session.runs, now);
    let (ordinal, epoch) = (run.ordinal, run.epoch);
    session.state = State::Starting(run);
    session.enforced_by.clear();
    vec![
        Effect::RunOpened { run_id: run_id.clone(), prompt, ordinal, epoch },
        Effect::Launch { run_id, epoch },
    ]
}

/// Nothing of the old executor is in flight: every live run has to be heard of again.
fn restarted(mut session: Session, now: Timestamp) -> Step {
    if session.state.status().is_live() {
        lease::grace_after_restart(&mut session, now);
    }
    if let Some(run) = session.state.run_mut() {
        run.attachment = Attachment::Reattaching;
    }
    if let Some(subagent) = &mut session.subagent {
        subagent.run.attachment = Attachment::Reattaching;
    }
    done(session, Vec::new())
}

/// A yes without a special answer.
pub(super) const fn done(session: Session, effects: Vec<Effect>) -> Step {
    Step { session, effects, answer: Answer::Done }
}

/// The step of a call that was made before; a refusal if its id was used for something else.
pub(super) fn replayed(session: &Session, claim: &Claim) -> Result<Option<Step>, Refusal> {
    match claim {
        Claim::Replay(_) => {
            Ok(Some(Step { session: session.clone(), effects: Vec::new(), answer: Answer::Replayed }))
        }
        Claim::Fresh => Ok(None),
        Claim::Conflict => Err(Refusal::IdempotencyConflict),
    }
}

/// Refuses an id that was used for something else.
pub(super) const fn claimed(claim: &Claim) -> Result<(), Refusal> {
    match claim {
        Claim::Conflict => Err(Refusal::IdempotencyConflict),
        Claim::Fresh | Claim::Replay(_) => Ok(()),
    }
}

pub(super) fn root_refusal(root: RootStanding) -> Result<(), Refusal> {
    match root {
        RootStanding::Same => Ok(()),
        RootStanding::Changed(found) => Err(Refusal::RootChanged(found)),
    }
}
