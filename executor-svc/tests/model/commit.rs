//! Where a command meets the ledger: the machine decides, and what it says is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use executor_svc::ledger::once::{Claim, OnceRow};
use executor_svc::session::{
    Answer, CallRequest, Command, Effect, LastResult, Receipt, Refusal, ResultText, Session, State, Step,
    Subagent, SubagentEnd, SubagentFailure, SubagentState, Turn, TurnKey, TurnKind, TurnStanding, apply,
};

use super::Gateway;
use super::faults::Fault;
use super::ids;
use super::moves::count;
use super::world::{
    ActionRow, ActionState, Fact, File, Launch, Meaning, NOW, RunRow, Scope, Standing, TurnRow, World,
};

/// An id of the caller's, and what it stands for.
#[derive(Debug, Clone, Copy)]
pub struct Once {
    pub scope: Scope,
    pub key: u8,
    pub content: u8,
    pub mints: Option<u8>,
}

/// In whose name something is asked.
#[derive(Debug, Clone, Copy)]
pub enum Asker {
    /// Of a caller with this lease.
    Holder(u8),
    /// Of the process of a run, with the token of a launch.
    Shim(u8, u8),
    /// Of the executor, or of the person at the machine.
    House,
}

impl Gateway {
    /// Decides on a command with the product's own machine and commits what it says.
    pub fn submit(
        &self,
        world: &mut World,
        asker: Asker,
        once: Option<Once>,
        make: impl FnOnce(Claim) -> Command,
    ) -> Result<Answer, Refusal> {
        let claim = once.map_or(Claim::Fresh, |once| claim(world, once));
        let told = if self.fault == Some(Fault::ForgetsIds) { Claim::Fresh } else { claim.clone() };
        let decided = self.decide(&world.session, make(told));
        check(world, asker, &claim, &decided);
        let step = decided?;
        for effect in &step.effects {
            record(world, effect);
        }
        if let (Some(Once { scope, key, content, mints }), Claim::Fresh) = (once, claim) {
            world.ledger.once.insert((scope, key), Meaning { content, mints });
        }
        let next = plain(step.session);
        if next != *world.session {
            world.session = Arc::new(next);
        }
        Ok(step.answer)
    }

    fn decide(&self, session: &Session, command: Command) -> Result<Step, Refusal> {
        match (self.fault, command) {
            (Some(Fault::ChecksNoLease), command) => apply(session, NOW, with_lease(command, session)),
            (
                Some(Fault::AnswersTwice),
                Command::Reply { lease, claim, reply_id, turn_id, text, calls, .. },
            ) => {
                let open = reopened(session, turn_id.clone());
                let turn = Some(TurnStanding::Pending);
                apply(&open, NOW, Command::Reply { lease, claim, reply_id, turn_id, turn, text, calls })
            }
            (Some(Fault::ForgetsTheProcess), command) => {
                let mut step = apply(session, NOW, command)?;
                step.session.ending = None;
                step.effects.retain(|effect| !matches!(effect, Effect::EndRunner { .. }));
                Ok(step)
            }
            (Some(Fault::LeavesTurnsOpen), command) => {
                let mut step = apply(session, NOW, command)?;
                step.effects.retain(|effect| !matches!(effect, Effect::TurnAbandoned { .. }));
                Ok(step)
            }
            (Some(fault), command) => super::subagents::decide(fault, session, command),
            (None, command) => apply(session, NOW, command),
        }
    }
}

/// The command as the holder of the current lease would give it.
fn with_lease(command: Command, session: &Session) -> Command {
    let current = session.lease.id.clone();
    match command {
        Command::Reply { claim, reply_id, turn_id, turn, text, calls, .. } => {
            Command::Reply { lease: current, claim, reply_id, turn_id, turn, text, calls }
        }
        Command::Stop { claim, request_id, reason, .. } => {
            Command::Stop { lease: None, claim, request_id, reason }
        }
        other => other,
    }
}

/// The session as if this turn were still pending.
fn reopened(session: &Session, turn: gatehouse_proto::ids::TurnId) -> Session {
    let mut session = session.clone();
    if let State::Running(run) = &session.state {
        let turn = Turn { id: turn, ordinal: 1, opened_at: NOW, kind: TurnKind::Prompt };
        session.state = State::Waiting(run.clone(), turn);
    }
    session
}

fn claim(world: &World, once: Once) -> Claim {
    match world.ledger.once.get(&(once.scope, once.key)) {
        None => Claim::Fresh,
        Some(meaning) if meaning.content == once.content => Claim::Replay(OnceRow {
            session_id: world.session.id.clone(),
            lease_id: meaning.mints.map(ids::lease),
        }),
        Some(_) => Claim::Conflict,
    }
}

/// What must hold of a decision, whatever it is.
fn check(world: &mut World, asker: Asker, claim: &Claim, decided: &Result<Step, Refusal>) {
    let before: &Session = &world.session;
    let changes = decided.as_ref().is_ok_and(|step| !step.effects.is_empty() || step.session != *before);
    let mut broken = BTreeSet::new();
    match asker {
        Asker::Holder(lease) => {
            let live = before.state.status().is_live();
            let dead = before.state == State::LeaseExpired || (live && before.lease.expired(NOW));
            let former = lease != world.lease();
            if (former && decided.is_ok()) || (dead && changes) {
                broken.insert(Fact::OldLeasesChangeNothing);
            }
        }
        Asker::Shim(run, token) => {
            if changes && !world.serves(run, token) {
                broken.insert(Fact::OldLaunchesChangeNothing);
            }
            if decided.as_ref().is_ok_and(|step| !stays_apart(world, run, step)) {
                broken.insert(Fact::Apart);
            }
        }
        Asker::House => {}
    }
    let same_meaning = match (claim, decided) {
        (Claim::Replay(_), Ok(step)) => step.answer == Answer::Replayed && step.effects.is_empty(),
        (Claim::Conflict, Ok(_)) => false,
        _ => true,
    };
    if !same_meaning {
        broken.insert(Fact::OneMeaningPerId);
    }
    world.broken.extend(broken);
}

/// What a subagent's process says is about the subagent; what the session's own says can end the subagent at most.
fn stays_apart(world: &World, run: u8, after: &Step) -> bool {
    let (before, after) = (&world.session, &after.session);
    match world.ledger.runs[usize::from(run)].of {
        Some(_) => after.state == before.state,
        None => after.subagent == before.subagent || after.subagent.as_ref().is_some_and(Subagent::is_ending),
    }
}

/// The value without what nothing is decided by: its revision, which only grows, and words.
pub fn plain(mut session: Session) -> Session {
    session.revision = 0;
    if let Some(LastResult { text: ResultText::Message(words), .. }) = &mut session.last_result {
        words.clear();
    }
    let state = session.subagent.as_mut().map(|subagent| &mut subagent.state);
    match state {
        Some(SubagentState::Stopping { end: SubagentEnd::Failed(failure), .. }) => {
            *failure = SubagentFailure::default();
        }
        Some(SubagentState::Stopping { end: SubagentEnd::Stopped(why), .. }) => why.clear(),
        _ => {}
    }
    session
}

/// Keeps what belongs to a step.
pub fn record(world: &mut World, effect: &Effect) {
    let number = |id: &str| ids::number(id);
    super::subagents::check(world, effect);
    match effect {
        Effect::RunOpened { ordinal, .. } => {
            world.ledger.runs.push(RunRow::opened(u8::try_from(*ordinal).expect("few runs"), None));
        }
        Effect::RunRelaunched { run_id, .. } => {
            let run = &mut world.ledger.runs[usize::from(number(run_id.as_str()))];
            (run.link, run.noted) = (None, false);
        }
        Effect::RunClosed { run_id, .. } => {
            world.ledger.runs[usize::from(number(run_id.as_str()))].open = false;
        }
        Effect::Launch { run_id, epoch } => {
            let epoch = u8::try_from(*epoch).expect("few launches");
            world.executor.launches.insert(number(run_id.as_str()), Launch::Ordered(epoch));
        }
        Effect::EndRunner { run_id, .. } => {
            world.executor.ends.insert(number(run_id.as_str()));
        }
        Effect::TurnOpened { run_id, key, .. } => open_turn(world, number(run_id.as_str()), key),
        Effect::TurnAbandoned { turn_id, .. } => {
            world.ledger.turns[usize::from(number(turn_id.as_str()))].standing = Standing::Abandoned;
        }
        Effect::ReplyCommitted { turn_id, run_id, calls, .. } => {
            answer(world, number(turn_id.as_str()), number(run_id.as_str()), calls);
        }
        Effect::ActionPrepared { id, .. } => set_action(world, id.as_str(), ActionState::Prepared),
        Effect::ActionUncertain { id, .. } => set_action(world, id.as_str(), ActionState::Uncertain),
        Effect::ActionSettled { id, receipt } => {
            set_action(world, id.as_str(), ActionState::Done(receipt.ok));
        }
        Effect::ActionCancelled { id, .. } => set_action(world, id.as_str(), ActionState::Done(false)),
        Effect::LeaseRotated => world.ledger.leases += 1,
        effect => super::subagents::record(world, effect),
    }
}

fn open_turn(world: &mut World, run: u8, key: &TurnKey) {
    let results: BTreeSet<u8> = match key {
        TurnKey::First => BTreeSet::new(),
        TurnKey::Results(calls) => calls.iter().map(|id| ids::number(id.as_str())).collect(),
    };
    if world.ledger.turns.iter().any(|turn| turn.run == run && turn.results == results) {
        world.broken.insert(Fact::OneReplyPerTurn);
    }
    let standing = Standing::Pending;
    world.ledger.turns.push(TurnRow { run, results, standing, replies: 0, counted: 0, made: 0 });
}

fn answer(world: &mut World, turn: u8, run: u8, calls: &[CallRequest]) {
    let row = &mut world.ledger.turns[usize::from(turn)];
    row.replies += 1;
    if row.standing != Standing::Pending {
        world.broken.insert(Fact::OneReplyPerTurn);
    }
    row.standing = Standing::Answered;
    for call in calls {
        assert_eq!(ids::number(call.id.as_str()), count(world.ledger.actions.len()), "in order");
        let (tool, state) = (super::callers::tool_of(&call.name), ActionState::Authorised);
        let about = count(world.ledger.subagents.len()).saturating_sub(1);
        world.ledger.actions.push(ActionRow {
            run,
            turn,
            tool,
            state,
            effects: 0,
            file: File::Before,
            about,
        });
    }
}

/// An action's way has one direction, and its first receipt is the one that stays.
fn set_action(world: &mut World, id: &str, next: ActionState) {
    let number = ids::number(id);
    if number >= ids::OPERATIONS {
        return;
    }
    let row = &mut world.ledger.actions[usize::from(number)];
    let next = match (row.state, next) {
        (ActionState::Uncertain, ActionState::Done(_)) => ActionState::Resolved,
        (ActionState::Authorised, _)
        | (ActionState::Prepared, ActionState::Done(_) | ActionState::Uncertain) => next,
        _ => {
            world.broken.insert(Fact::ReceiptsStay);
            next
        }
    };
    row.state = next;
}

pub fn receipt(ok: bool) -> Receipt {
    Receipt { ok, code: None, json: String::new() }
}
