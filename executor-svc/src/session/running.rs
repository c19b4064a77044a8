//! A run as its shim and the process table report it.

use gatehouse_proto::ids::RunId;

use super::command::{LaunchFailure, RunOutcome, Step};
use super::effect::Effect;
use super::machine::done;
use super::state::{Attachment, Ending, Session, State};
use super::{Refusal, stopping};
use crate::clock::Timestamp;

/// Whether that launch is the one the session has at present.
pub(super) fn serves(session: &Session, run_id: &RunId, epoch: u32) -> bool {
    session.state.run().is_some_and(|run| run.id == *run_id && run.epoch == epoch)
}

pub(super) fn attach(
    mut session: Session,
    run_id: &RunId,
    epoch: u32,
    enforced_by: Vec<String>,
) -> Result<Step, Refusal> {
    if !serves(&session, run_id, epoch) {
        return Err(Refusal::StaleRunner);
    }
    let Some(run) = session.state.run_mut() else { return Err(Refusal::StaleRunner) };
    let news = run.attachment != Attachment::Attached || session.enforced_by != enforced_by;
    run.attachment = Attachment::Attached;
    session.enforced_by = enforced_by;
    Ok(done(session, if news { vec![Effect::Attached] } else { Vec::new() }))
}

/// What an executor left behind that ended between the order to launch and the note of a process: a launch that got no
/// link token, and so has ended or will. The next one is another epoch.
pub(super) fn relaunch(mut session: Session, run_id: &RunId, epoch: u32) -> Result<Step, Refusal> {
    match &mut session.state {
        State::Starting(run) if run.id == *run_id && run.epoch == epoch => run.epoch += 1,
        _ => return Err(Refusal::StaleRunner),
    }
    let (run_id, epoch) = (run_id.clone(), epoch + 1);
    let effects =
        vec![Effect::RunRelaunched { run_id: run_id.clone(), epoch }, Effect::Launch { run_id, epoch }];
    Ok(done(session, effects))
}

/// The shim says how the run ended. Said twice, or about a run that is over, it changes nothing.
pub(super) fn end(
    mut session: Session,
    now: Timestamp,
    run_id: &RunId,
    epoch: u32,
    outcome: RunOutcome,
) -> Result<Step, Refusal> {
    if !serves(&session, run_id, epoch) {
        return Ok(done(session, Vec::new()));
    }
    let mut effects = Vec::new();
    let starting = matches!(session.state, State::Starting(_));
    let failure = match outcome {
        RunOutcome::Finished => {
            stopping::close_run(&mut session, now, "Claude Code ended without a final answer", &mut effects);
            never_asked()
        }
        RunOutcome::Failed(failure) => {
            stopping::close_run(&mut session, now, &failure.message, &mut effects);
            failure
        }
        RunOutcome::Erred(failure) => {
            stopping::fail_run(&mut session, now, &failure.message, &mut effects);
            failure
        }
    };
    session.state = if starting { State::Failed(failure) } else { State::Idle };
    // The shim goes by itself after this; nothing is left to end.
    effects.retain(|effect| !ends(effect, run_id));
    session.ending = None;
    Ok(done(session, effects))
}

/// Whether this is the order to end the process of that run.
fn ends(effect: &Effect, run: &RunId) -> bool {
    matches!(effect, Effect::EndRunner { run_id, .. } if run_id == run)
}

fn never_asked() -> LaunchFailure {
    LaunchFailure {
        code: "claude_exited".to_owned(),
        message: "Claude Code ended before it asked for an answer.".to_owned(),
        what_to_do:
            "Call native_session_continue to try again; if it happens again, look at the executor's log."
                .to_owned(),
    }
}

/// The run is ended from outside; the session stays and can go on.
pub(super) fn interrupt(mut session: Session, now: Timestamp, run_id: &RunId, epoch: u32, why: &str) -> Step {
    let mut effects = Vec::new();
    if serves(&session, run_id, epoch) {
        stopping::close_run(&mut session, now, why, &mut effects);
        session.state = State::Idle;
    }
    done(session, effects)
}

/// The process is seen to be gone.
pub(super) fn gone(mut session: Session, now: Timestamp, run_id: &RunId, epoch: u32, why: &str) -> Step {
    if session.ending.as_ref() == Some(&(Ending { run_id: run_id.clone(), epoch })) {
        session.ending = None;
        let effects = stopping::finish_if_over(&mut session, now);
        return done(session, effects);
    }
    if !serves(&session, run_id, epoch) {
        return done(session, Vec::new());
    }
    let mut effects = Vec::new();
    let starting = matches!(session.state, State::Starting(_));
    stopping::close_run(&mut session, now, why, &mut effects);
    effects.retain(|effect| !ends(effect, run_id));
    session.ending = None;
    session.state = if starting {
        State::Failed(LaunchFailure {
            code: "runner_gone".to_owned(),
            message: format!("The runner ended before Claude Code asked for an answer: {why}."),
            what_to_do: "Call native_session_continue to try again.".to_owned(),
        })
    } else {
        State::Idle
    };
    done(session, effects)
}
