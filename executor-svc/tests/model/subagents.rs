//! Subagents: what starts and ends them, what the broker does, and how a gateway is wrong about them.

use executor_svc::session::{
    CallRequest, Command, Effect, Grade, Receipt, Refusal, Session, Step, SubagentAnswer, SubagentFailure,
    SubagentLimits, SubagentStart, SubagentState, Usage, apply,
};

use super::Gateway;
use super::callers::{calls, tool_of};
use super::commit::{Asker, receipt};
use super::faults::Fault;
use super::ids;
use super::moves::{Shape, count};
use super::world::{Asking, Fact, Launch, NOW, RunRow, STEP, Standing, SubagentRow, Tool, World};

/// A turn is asked about so often at most.
const REQUESTS_PER_TURN: u8 = 2;

/// The action room.
impl Gateway {
    pub fn start_subagent(&self, world: &mut World, action: u8) {
        let start = SubagentStart {
            id: ids::subagent(count(world.ledger.subagents.len())),
            action: ids::call(action),
            receipt: receipt(true),
            run_id: ids::run(count(world.ledger.runs.len())),
            claude_session_id: String::new(),
            grade: Grade::Sonnet,
            prompt: String::new(),
            deadline: NOW.moved(STEP),
            limits: SubagentLimits { turns: u32::MAX, output_tokens: u64::MAX },
        };
        let _ = self.submit(world, Asker::House, None, |_| Command::StartSubagent(Box::new(start)));
    }

    pub fn stop_subagent(&self, world: &mut World, action: u8) {
        let id = ids::subagent(world.ledger.actions[usize::from(action)].about);
        let _ = self.submit(world, Asker::House, None, |_| Command::StopSubagent { id, why: String::new() });
    }

    /// Its time is over, and the reaper looks.
    pub fn time_out(&self, world: &mut World) {
        let mut session = Session::clone(&world.session);
        if let Some(subagent) = &mut session.subagent {
            subagent.deadline = NOW;
        }
        world.session = session.into();
        let _ = self.submit(world, Asker::House, None, |_| Command::CheckSubagent);
    }

    /// What a new executor does for the subagent that it finds.
    pub fn adopt_subagent(&self, world: &mut World) {
        let (Some(subagent), Some((run, epoch))) = (world.session.subagent.clone(), world.subagent_run())
        else {
            return;
        };
        let noted = self.hold_again(world, run, epoch);
        if self.fault == Some(Fault::ForgetsTheSubagent) {
            return;
        }
        let executor = &mut world.executor;
        match &subagent.state {
            SubagentState::Starting if !noted => {
                executor.launches.insert(run, Launch::Ordered(epoch));
            }
            SubagentState::Asking { turn, .. } => {
                executor.asks.insert(ids::number(turn.as_str()), Asking::Ordered);
            }
            SubagentState::Stopping { .. } => {
                executor.ends.insert(run);
            }
            SubagentState::Starting | SubagentState::Working => {}
        }
    }
}

/// The broker.
impl Gateway {
    /// The next step of the way to an answer. Between any two of them the executor may crash.
    pub fn step_ask(&self, world: &mut World, turn: u8, answer: Option<Shape>) {
        let asking = world.executor.asks.remove(&turn).expect("asked for");
        match (asking, answer) {
            (Asking::Ordered, _) => {
                let begin = |_| Command::BeginRequest { turn_id: ids::turn(turn) };
                let begun = self.fault == Some(Fault::AsksUncounted)
                    || self.submit(world, Asker::House, None, begin).is_ok();
                // A limit may have ended it.
                if begun && asks(world, turn) {
                    made(world, turn);
                    world.executor.asks.insert(turn, Asking::Begun);
                }
            }
            (Asking::Begun, Some(shape)) => self.answered(world, turn, shape),
            (Asking::Begun, None) => {
                let failure = SubagentFailure::new("kind", "message");
                let turn_id = ids::turn(turn);
                let _ =
                    self.submit(world, Asker::House, None, |_| Command::SubagentFailed { turn_id, failure });
            }
        }
    }

    fn answered(&self, world: &mut World, turn: u8, shape: Shape) {
        if self.fault == Some(Fault::ReleasesFirst) {
            release(world, turn);
        }
        let run = world.ledger.turns[usize::from(turn)].run;
        let answer = SubagentAnswer {
            id: ids::subagent(world.ledger.runs[usize::from(run)].of.expect("the broker asks for subagents")),
            turn_id: ids::turn(turn),
            reply_id: ids::key(turn),
            text: String::new(),
            calls: calls(world, shape.calls()),
            refused: Vec::<(_, Receipt)>::new(),
            content: String::new(),
            model: String::new(),
            usage: Usage::default(),
        };
        let told = self.submit(world, Asker::House, None, |_| Command::SubagentAnswer(Box::new(answer)));
        if told.is_ok() {
            release(world, turn);
        }
    }
}

fn asks(world: &World, turn: u8) -> bool {
    world.session.subagent.as_ref().is_some_and(|subagent| subagent.asks(&ids::turn(turn)))
}

/// The provider hears of it.
fn made(world: &mut World, turn: u8) {
    let row = &mut world.ledger.turns[usize::from(turn)];
    row.made += 1;
    if row.made > row.counted || row.made > REQUESTS_PER_TURN {
        world.broken.insert(Fact::CountedBeforeAsked);
    }
}

/// The sub-session hears of it.
fn release(world: &mut World, turn: u8) {
    if world.ledger.turns[usize::from(turn)].standing != Standing::Answered {
        world.broken.insert(Fact::CommittedBeforeReleased);
    }
}

/// What must hold of an effect, given what was before.
pub fn check(world: &mut World, effect: &Effect) {
    let (run_id, calls) = match effect {
        Effect::ReplyCommitted { run_id, calls, .. } => (run_id, Some(calls)),
        Effect::Launch { run_id, .. } | Effect::TurnOpened { run_id, .. } => (run_id, None),
        _ => return,
    };
    let run = ids::number(run_id.as_str());
    if world.is_over(run) {
        world.broken.insert(Fact::OverForGood);
    }
    let own = world.ledger.runs.get(usize::from(run)).is_some_and(|row| row.of.is_none());
    let Some(calls) = calls.filter(|_| own) else { return };
    if calls.is_empty() && world.session.subagent.is_some() {
        world.broken.insert(Fact::NoEndBesideASubagent);
    }
    if calls.len() > 1 && calls.iter().any(|call| tool_of(&call.name) == Tool::Start) {
        world.broken.insert(Fact::StartsAlone);
    }
}

/// Keeps what belongs to a step.
pub fn record(world: &mut World, effect: &Effect) {
    match effect {
        Effect::SubagentStarted(ask) => {
            let (number, run) = (count(world.ledger.subagents.len()), ids::number(ask.run_id.as_str()));
            world.ledger.runs.push(RunRow::opened(1, Some(number)));
            world.ledger.subagents.push(SubagentRow { run, over: false });
        }
        Effect::SubagentRequested { turn_id, .. } => {
            world.ledger.turns[usize::from(ids::number(turn_id.as_str()))].counted += 1;
        }
        Effect::SubagentOver { id, run_id, .. } => {
            world.ledger.runs[usize::from(ids::number(run_id.as_str()))].open = false;
            let row = &mut world.ledger.subagents[usize::from(ids::number(id.as_str()))];
            if std::mem::replace(&mut row.over, true) {
                world.broken.insert(Fact::OverForGood);
            }
        }
        Effect::AskModel { turn_id } => {
            world.executor.asks.entry(ids::number(turn_id.as_str())).or_insert(Asking::Ordered);
        }
        _ => {}
    }
}

/// The decision of a gateway that is wrong about subagents.
pub fn decide(fault: Fault, session: &Session, command: Command) -> Result<Step, Refusal> {
    match (fault, command) {
        (Fault::ForgetsTheLock | Fault::StartsAnother, command @ Command::Reply { .. }) => {
            let mut step = apply(&Session { subagent: None, ..session.clone() }, NOW, command)?;
            step.session.subagent.clone_from(&session.subagent);
            Ok(step)
        }
        (Fault::StartsAnother, command @ Command::StartSubagent(_)) => {
            apply(&Session { subagent: None, ..session.clone() }, NOW, command)
        }
        (
            Fault::LooksAtOneCall,
            Command::Reply { lease, claim, reply_id, turn_id, turn, text, calls: Ok(mut calls) },
        ) => {
            let rest = calls.split_off(calls.len().min(1));
            let calls = Ok(calls);
            let reply = Command::Reply { lease, claim, reply_id, turn_id, turn, text, calls };
            let mut step = apply(session, NOW, reply)?;
            step.effects.iter_mut().for_each(|effect| append(effect, &rest));
            Ok(step)
        }
        (Fault::ForgetsItsProcess, command) => {
            let mut step = apply(session, NOW, command)?;
            if let Some(subagent) = step.session.subagent.take_if(|subagent| subagent.is_ending()) {
                let of_it = |effect: &Effect| matches!(effect, Effect::EndRunner { run_id, .. } if *run_id == subagent.run.id);
                step.effects.retain(|effect| !of_it(effect));
            }
            Ok(step)
        }
        (_, command) => apply(session, NOW, command),
    }
}

fn append(effect: &mut Effect, rest: &[CallRequest]) {
    if let Effect::ReplyCommitted { calls, .. } = effect {
        calls.extend_from_slice(rest);
    }
}
