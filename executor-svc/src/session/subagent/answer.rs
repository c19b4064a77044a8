//! What the broker does for a subagent's turn: begins a request, and brings the answer or says why there is none.

use gatehouse_proto::ids::{RequestKey, SubagentId, ToolCallId, TurnId};

use super::close;
use super::state::{Subagent, SubagentEnd, SubagentFailure, SubagentState, Usage};
use crate::session::Refusal;
use crate::session::command::{CallRequest, Receipt, Step};
use crate::session::effect::Effect;
use crate::session::machine::done;
use crate::session::reply::receipt_budget;
use crate::session::state::{CallState, Session};

/// A request that was cut off by a crash of the gateway is made once more, and no more often: each one may cost money.
const REQUESTS_PER_TURN: u32 = 2;

/// A verified answer of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentAnswer {
    /// Whose.
    pub id: SubagentId,
    /// The turn that it answers.
    pub turn_id: TurnId,
    /// The provider's id of it.
    pub reply_id: RequestKey,
    /// Its text.
    pub text: String,
    /// Its calls, under ids of ours.
    pub calls: Vec<CallRequest>,
    /// Those of them that cannot be performed as they are, with the receipt that says why.
    pub refused: Vec<(ToolCallId, Receipt)>,
    /// Its blocks as they go into the next request, JSON.
    pub content: String,
    /// The model that answered.
    pub model: String,
    /// What it took.
    pub usage: Usage,
}

/// The subagent whose turn this is, if it still waits.
fn asking<'a>(session: &'a mut Session, turn_id: &TurnId) -> Result<&'a mut Subagent, Refusal> {
    session.subagent.as_mut().filter(|subagent| subagent.asks(turn_id)).ok_or(Refusal::StaleRunner)
}

/// A request is about to be made. Durable before it is: whatever it costs is accounted for. One that may not be made ends
/// the subagent.
pub(in crate::session) fn begin_request(mut session: Session, turn_id: &TurnId) -> Result<Step, Refusal> {
    let subagent = asking(&mut session, turn_id)?;
    if let Some(failure) = over_a_limit(subagent) {
        let mut effects = Vec::new();
        close(&mut session, SubagentEnd::Failed(failure), &mut effects);
        return Ok(done(session, effects));
    }
    subagent.requests += 1;
    if let SubagentState::Asking { requests, .. } = &mut subagent.state {
        *requests += 1;
    }
    let effect = Effect::SubagentRequested {
        id: subagent.id.clone(),
        turn_id: turn_id.clone(),
        requests: subagent.requests,
    };
    Ok(done(session, vec![effect]))
}

fn over_a_limit(subagent: &Subagent) -> Option<SubagentFailure> {
    let Subagent { run, limits, usage, state, .. } = subagent;
    if run.turns > limits.turns {
        let message = format!("the subagent has made {} model requests, as many as it may", limits.turns);
        return Some(SubagentFailure::new("turn_limit", message));
    }
    if usage.output_tokens >= limits.output_tokens {
        let message = format!("the subagent was answered with {} tokens", usage.output_tokens);
        return Some(SubagentFailure::new("output_limit", message));
    }
    let again = matches!(state, SubagentState::Asking { requests, .. } if *requests >= REQUESTS_PER_TURN);
    again.then(|| {
        SubagentFailure::new(
            "interrupted",
            "the gateway was restarted twice while the provider was answering",
        )
    })
}

/// The answer and every call that it authorises are committed before anything of it is released.
pub(in crate::session) fn answer(mut session: Session, answer: SubagentAnswer) -> Result<Step, Refusal> {
    let subagent = asking(&mut session, &answer.turn_id)?;
    let SubagentAnswer { id, turn_id, reply_id, text, calls, refused, content, model, usage } = answer;
    let state_of = |call: &CallRequest| {
        let is_refused = refused.iter().any(|(id, _)| *id == call.id);
        if is_refused { CallState::Settled } else { CallState::Authorised }
    };
    let standing = calls.iter().map(|call| call.standing(state_of(call))).collect();
    subagent.run.answered_with(turn_id.clone(), standing);
    subagent.usage = subagent.usage.and(usage);
    subagent.state = SubagentState::Working;
    let committed = Effect::ReplyCommitted {
        turn_id: turn_id.clone(),
        run_id: subagent.run.id.clone(),
        reply_id,
        text,
        budget: receipt_budget(calls.len()),
        calls,
    };
    let answered = Effect::SubagentAnswered {
        id,
        turn_id,
        ordinal: subagent.run.turns,
        content,
        model,
        usage: subagent.usage,
    };
    let settled = refused.into_iter().map(|(id, receipt)| Effect::ActionSettled { id, receipt });
    let effects = [committed, answered].into_iter().chain(settled).collect();
    Ok(done(session, effects))
}

/// There is no answer, and nothing else is tried.
pub(in crate::session) fn fail(
    mut session: Session,
    turn_id: &TurnId,
    failure: SubagentFailure,
) -> Result<Step, Refusal> {
    asking(&mut session, turn_id)?;
    let mut effects = Vec::new();
    close(&mut session, SubagentEnd::Failed(failure), &mut effects);
    Ok(done(session, effects))
}
