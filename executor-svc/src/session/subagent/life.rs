//! A subagent from its start to the end of its run, as its shim tells it.

use gatehouse_proto::ids::{RunId, SubagentId, ToolCallId};

use super::rules::START;
use super::state::{
    Grade, Process, Subagent, SubagentEnd, SubagentFailure, SubagentLimits, SubagentState, Usage,
};
use super::{close, finish_if_over};
use crate::clock::Timestamp;
use crate::session::Refusal;
use crate::session::command::{Answer, Receipt, RunOutcome, Step, TurnAsk};
use crate::session::effect::Effect;
use crate::session::machine::done;
use crate::session::state::{Attachment, CallState, Run, Session, State, SubagentPolicy, TurnKey, TurnKind};
use crate::session::turns::{awaits_receipt, call_ids, cancel_uncalled};

/// A subagent that is to begin. Every id is minted by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentStart {
    /// Its id.
    pub id: SubagentId,
    /// The action that asks for it.
    pub action: ToolCallId,
    /// That action's receipt.
    pub receipt: Receipt,
    /// Its run.
    pub run_id: RunId,
    /// The id of its Claude Code session.
    pub claude_session_id: String,
    /// What was asked for.
    pub grade: Grade,
    /// What it is asked.
    pub prompt: String,
    /// When it is ended at the latest.
    pub deadline: Timestamp,
    /// What it may take.
    pub limits: SubagentLimits,
}

/// Whether that launch is the subagent's, and it is not on its way out.
pub(in crate::session) fn serves(session: &Session, run_id: &RunId, epoch: u32) -> bool {
    let is_its = |subagent: &Subagent| {
        subagent.run.id == *run_id && subagent.run.epoch == epoch && !subagent.is_ending()
    };
    session.subagent.as_ref().is_some_and(is_its)
}

/// The subagent is durable, its launch is ordered, and the action that asked for it has its receipt: in one step.
pub(in crate::session) fn start(
    mut session: Session,
    now: Timestamp,
    ask: SubagentStart,
) -> Result<Step, Refusal> {
    if session.subagents != SubagentPolicy::DeepseekExplicit || session.subagent.is_some() {
        return Err(Refusal::NotAuthorised);
    }
    let State::Running(run) = &mut session.state else { return Err(Refusal::NotAuthorised) };
    let call = run.calls.iter_mut().find(|call| call.id == ask.action && call.name == START);
    match call {
        Some(call) if call.state == CallState::Authorised => call.state = CallState::Settled,
        _ => return Err(Refusal::NotAuthorised),
    }
    session.subsessions += 1;
    session.subagent = Some(Subagent {
        id: ask.id.clone(),
        grade: ask.grade,
        claude_session_id: ask.claude_session_id.clone(),
        run: Run::new(ask.run_id.clone(), 1, now),
        state: SubagentState::Starting,
        deadline: ask.deadline,
        limits: ask.limits,
        requests: 0,
        usage: Usage::default(),
        enforced_by: Vec::new(),
    });
    let launch = Effect::Launch { run_id: ask.run_id.clone(), epoch: 1 };
    let settled = Effect::ActionSettled { id: ask.action.clone(), receipt: ask.receipt.clone() };
    Ok(done(session, vec![Effect::SubagentStarted(Box::new(ask)), settled, launch]))
}

pub(in crate::session) fn attach(mut session: Session, enforced_by: Vec<String>) -> Result<Step, Refusal> {
    let Some(subagent) = &mut session.subagent else { return Err(Refusal::StaleRunner) };
    let news = subagent.run.attachment != Attachment::Attached || subagent.enforced_by != enforced_by;
    subagent.run.attachment = Attachment::Attached;
    subagent.enforced_by.clone_from(&enforced_by);
    let effect = Effect::SubagentAttached { id: subagent.id.clone(), enforced_by };
    Ok(done(session, if news { vec![effect] } else { Vec::new() }))
}

/// Its Claude Code asks, perhaps not for the first time. The same rules as for the main session's.
pub(in crate::session) fn open_turn(mut session: Session, ask: TurnAsk) -> Result<Step, Refusal> {
    let Some(subagent) = &mut session.subagent else { return Err(Refusal::StaleRunner) };
    if let Some(known) = ask.known {
        return Ok(Step { session, effects: Vec::new(), answer: Answer::Turn(known.id) });
    }
    let key = match fitting(subagent, &ask) {
        Ok(key) => key,
        Err(why) => {
            let mut effects = Vec::new();
            let failure = SubagentFailure::new("claude_protocol", why.clone());
            close(&mut session, SubagentEnd::Failed(failure), &mut effects);
            return Ok(Step { answer: Answer::ProtocolBroken(why), ..done(session, effects) });
        }
    };
    if awaits_receipt(&subagent.run, &ask.performing) {
        return Ok(Step { session, effects: Vec::new(), answer: Answer::ReceiptsAwaited });
    }
    let mut effects = Vec::new();
    cancel_uncalled(&mut subagent.run, &ask.seen, &mut effects);
    subagent.run.turns += 1;
    subagent.state = SubagentState::Asking { turn: ask.turn_id.clone(), requests: 0 };
    effects.push(Effect::TurnOpened {
        turn_id: ask.turn_id.clone(),
        run_id: subagent.run.id.clone(),
        ordinal: subagent.run.turns,
        kind: if key == TurnKey::First { TurnKind::Prompt } else { TurnKind::ToolResults },
        key,
        request_hash: ask.request_hash,
    });
    effects.push(Effect::AskModel { turn_id: ask.turn_id.clone() });
    Ok(Step { session, effects, answer: Answer::Turn(ask.turn_id) })
}

/// The key, if this is a request that can come now; else why it cannot.
fn fitting(subagent: &Subagent, ask: &TurnAsk) -> Result<TurnKey, String> {
    let key = ask.key.clone()?;
    let run = &subagent.run;
    match (&subagent.state, &key) {
        (SubagentState::Starting, TurnKey::First) if ask.marker == Some(run.ordinal) => Ok(key),
        (SubagentState::Working, TurnKey::Results(ids)) if !ids.is_empty() && *ids == call_ids(run) => {
            Ok(key)
        }
        _ => Err("the subagent's Claude Code sent a model request that fits no turn of its run".to_owned()),
    }
}

/// The shim says how the run ended; it goes by itself after this. Said of a subagent that is being ended it changes
/// nothing: there the process decides.
pub(in crate::session) fn end(
    mut session: Session,
    now: Timestamp,
    run_id: &RunId,
    outcome: RunOutcome,
) -> Step {
    let Some(subagent) = &mut session.subagent else { return done(session, Vec::new()) };
    let answered = subagent.has_answered();
    let end = match outcome {
        // Its model has said it and the ledger has it; how the process ends takes nothing back.
        RunOutcome::Finished | RunOutcome::Failed(_) if answered => SubagentEnd::Finished,
        RunOutcome::Finished => SubagentEnd::Failed(SubagentFailure::new(
            "claude_exited",
            "the subagent's Claude Code ended in the middle of its work",
        )),
        RunOutcome::Failed(failure) | RunOutcome::Erred(failure) => {
            SubagentEnd::Failed(SubagentFailure::new(&failure.code, failure.message))
        }
    };
    let mut effects = Vec::new();
    close(&mut session, end, &mut effects);
    effects.retain(|effect| !matches!(effect, Effect::EndRunner { run_id: of, .. } if of == run_id));
    if let Some(Subagent { state: SubagentState::Stopping { process, .. }, .. }) = &mut session.subagent {
        *process = Process::Gone;
    }
    effects.extend(finish_if_over(&mut session, now));
    done(session, effects)
}
