//! What a subagent, its broker and its processes may do in a random sequence.

use gatehouse_proto::ids::SubagentId;
use proptest::prelude::*;

use super::subagent::{answer_of, ask_of, start_of};
use super::*;

#[derive(Debug, Clone)]
pub(super) enum SubMove {
    Start,
    OpenTurn { all_results: bool },
    BeginRequest,
    Answer { calls: usize },
    Fail,
    Stop { other: bool },
    EndRun { ok: bool },
    Gone,
    Check,
}

pub(super) fn sub_moves() -> impl Strategy<Value = SubMove> {
    prop_oneof![
        4 => Just(SubMove::Start),
        4 => proptest::bool::weighted(0.8).prop_map(|all_results| SubMove::OpenTurn { all_results }),
        3 => Just(SubMove::BeginRequest),
        4 => (0..3usize).prop_map(|calls| SubMove::Answer { calls }),
        1 => Just(SubMove::Fail),
        1 => any::<bool>().prop_map(|other| SubMove::Stop { other }),
        2 => any::<bool>().prop_map(|ok| SubMove::EndRun { ok }),
        2 => Just(SubMove::Gone),
        1 => Just(SubMove::Check),
    ]
}

/// The command of a move, where it can be made at all.
pub(super) fn sub_command(session: &Session, next: &SubMove) -> Option<Command> {
    if let SubMove::Start = next {
        return start_of(session).map(|start| Command::StartSubagent(Box::new(start)));
    }
    let subagent = session.subagent.as_ref()?;
    let (run_id, epoch) = (subagent.run.id.clone(), subagent.run.epoch);
    let turn = match &subagent.state {
        SubagentState::Asking { turn, .. } => turn.clone(),
        // An answer that nobody waits for.
        _ => TurnId::mint(),
    };
    Some(match next {
        SubMove::Start => return None,
        SubMove::OpenTurn { all_results } => {
            let ids = subagent.run.calls.iter().map(|call| call.id.clone());
            let key = match (&subagent.run.answered, all_results) {
                (None, _) => TurnKey::First,
                (Some(_), true) => TurnKey::Results(ids.collect()),
                (Some(_), false) => TurnKey::Results(ids.skip(1).collect()),
            };
            // The ledger knows a turn that waits, and a repeat joins it.
            let mut ask = ask_of(session, key);
            ask.known = subagent.asks(&turn).then_some(KnownTurn { id: turn.clone() });
            Command::OpenTurn(ask)
        }
        SubMove::BeginRequest => Command::BeginRequest { turn_id: turn },
        SubMove::Answer { calls } => answer_of(session, turn, *calls),
        SubMove::Fail => Command::SubagentFailed { turn_id: turn, failure: SubagentFailure::new("x", "y") },
        SubMove::Stop { other } => {
            let id = if *other { SubagentId::mint() } else { subagent.id.clone() };
            Command::StopSubagent { id, why: "enough".into() }
        }
        SubMove::EndRun { ok } => {
            let failure = LaunchFailure { code: "c".into(), message: "m".into(), what_to_do: "w".into() };
            let outcome = if *ok { RunOutcome::Finished } else { RunOutcome::Failed(failure) };
            Command::EndRun { run_id, epoch, outcome }
        }
        SubMove::Gone => Command::RunnerGone { run_id, epoch, why: "gone".into() },
        SubMove::Check => Command::CheckSubagent,
    })
}

/// What was seen of subagents so far.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    started: std::collections::HashSet<SubagentId>,
    over: std::collections::HashSet<SubagentId>,
    requests: std::collections::HashMap<TurnId, u32>,
}

impl Subagents {
    /// Holds an effect against what must be so.
    pub(super) fn note(&mut self, before: &Session, effect: &Effect) -> Result<(), TestCaseError> {
        match effect {
            Effect::SubagentStarted(ask) => {
                prop_assert!(before.subagent.is_none(), "one at a time");
                prop_assert!(self.started.insert(ask.id.clone()), "it starts once");
            }
            Effect::SubagentOver { id, .. } => {
                prop_assert!(self.started.contains(id) && self.over.insert(id.clone()), "it is over once");
            }
            Effect::SubagentRequested { turn_id, .. } => {
                let requests = self.requests.entry(turn_id.clone()).or_default();
                *requests += 1;
                prop_assert!(*requests <= 2, "a turn is asked about twice at most");
            }
            Effect::ReplyCommitted { run_id, calls, .. } => {
                let of_main = before.state.run().is_some_and(|run| run.id == *run_id);
                let locked = ["Edit", "Write", "NotebookEdit", "RunCommand", SUBAGENT_START];
                if of_main && before.subagent.is_some() {
                    prop_assert!(!calls.is_empty(), "no run ends beside a subagent");
                    prop_assert!(calls.iter().all(|call| !locked.contains(&call.name.as_str())), "the lock");
                }
            }
            Effect::Stopped => {
                prop_assert_eq!(self.started.len(), self.over.len(), "stopped after its subagent");
            }
            _ => {}
        }
        Ok(())
    }

    /// Holds a state against it.
    pub(super) fn check(&self, session: &Session) -> Result<(), TestCaseError> {
        let active = session.subagent.as_ref().map(|subagent| &subagent.id);
        let open: Vec<_> = self.started.difference(&self.over).collect();
        prop_assert_eq!(
            open,
            active.into_iter().collect::<Vec<_>>(),
            "the active one is the one that is not over"
        );
        if let Some(subagent) = &session.subagent
            && !subagent.is_ending()
        {
            prop_assert!(session.state.run().is_some(), "a subagent works beside a run, or is being ended");
        }
        if matches!(session.state, State::Starting(_)) {
            prop_assert!(session.subagent.is_none(), "no run begins beside a subagent");
        }
        Ok(())
    }
}
