//! The machine from outside: every cell of the state table, and what must hold over any sequence of commands.

mod ends;
mod invariants;
mod operating;
mod subagent;
mod subagent_moves;
mod table;
mod turns;

use std::time::Duration;

use gatehouse_proto::ids::{LeaseId, RequestKey, RunId, SessionId, ToolCallId, TurnId};

use super::*;
use crate::clock::Timestamp;
use crate::ledger::once::{Claim, OnceRow};
use crate::skill::{Skill, SkillFacts};

const TTL: Duration = Duration::from_secs(1800);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000_000 + seconds * 1000)
}

fn key(text: &str) -> RequestKey {
    RequestKey::try_from(text.to_owned()).unwrap()
}

fn skill() -> Skill {
    let skill_id = "personal:review".parse().unwrap();
    let body = "Look twice.".to_owned();
    Skill { facts: SkillFacts { skill_id, content_sha256: "0".repeat(64), bytes: 11 }, body }
}

fn new_session() -> NewSession {
    NewSession {
        isolation: None,
        id: SessionId::mint(),
        label: None,
        profile: Profile::ReadOnly,
        subagents: SubagentPolicy::None,
        root: RootBinding { path: "/w".into(), device: 1, inode: 2 },
        source_directory: "/w".into(),
        claude_session_id: "c".into(),
        lease_id: LeaseId::mint(),
        lease_ttl: TTL,
        recovery_hash: "h".into(),
        run_id: RunId::mint(),
        prompt: "p".into(),
        skills: vec![skill()],
    }
}

fn fresh() -> Session {
    create(new_session(), at(0)).session
}

fn step(session: &Session, command: Command) -> Step {
    apply(session, at(1), command)
        .unwrap_or_else(|refusal| panic!("{refusal:?} in {:?}", session.state.status()))
}

fn ask(session: &Session, key: TurnKey) -> TurnAsk {
    ask_for(session.state.run().expect("a run"), key)
}

fn ask_for(run: &Run, key: TurnKey) -> TurnAsk {
    TurnAsk {
        run_id: run.id.clone(),
        epoch: run.epoch,
        turn_id: TurnId::mint(),
        marker: (key == TurnKey::First).then_some(run.ordinal),
        key: Ok(key),
        known: None,
        seen: Vec::new(),
        request_hash: String::new(),
        performing: Vec::new(),
    }
}

fn waiting() -> Session {
    let session = fresh();
    step(&session, Command::OpenTurn(ask(&session, TurnKey::First))).session
}

fn pending(session: &Session) -> TurnId {
    match &session.state {
        State::Waiting(_, turn) => turn.id.clone(),
        other => panic!("{other:?}"),
    }
}

fn call_request(name: &str) -> CallRequest {
    CallRequest {
        id: ToolCallId::mint(),
        name: name.into(),
        client_id: None,
        input: "{}".into(),
        input_sha256: "d".into(),
    }
}

fn reply(session: &Session, calls: usize) -> Command {
    Command::Reply {
        lease: session.lease.id.clone(),
        claim: Claim::Fresh,
        reply_id: key("r"),
        turn_id: pending(session),
        turn: Some(TurnStanding::Pending),
        text: "text".into(),
        calls: Ok((0..calls).map(|_| call_request("Read")).collect()),
    }
}

fn running(calls: usize) -> Session {
    let session = waiting();
    step(&session, reply(&session, calls)).session
}

fn receipt(ok: bool) -> Receipt {
    Receipt { ok, code: None, json: "{}".into() }
}

fn run_of(session: &Session) -> (RunId, u32) {
    let run = session.state.run().expect("a run");
    (run.id.clone(), run.epoch)
}

fn idle() -> Session {
    let session = running(0);
    let (run_id, epoch) = run_of(&session);
    step(&session, Command::EndRun { run_id, epoch, outcome: RunOutcome::Finished }).session
}

fn failed() -> Session {
    let session = fresh();
    let (run_id, epoch) = run_of(&session);
    let failure = LaunchFailure { code: "x".into(), message: "m".into(), what_to_do: "w".into() };
    step(&session, Command::EndRun { run_id, epoch, outcome: RunOutcome::Failed(failure) }).session
}

fn stop(session: &Session) -> Command {
    Command::Stop {
        lease: Some(session.lease.id.clone()),
        claim: Claim::Fresh,
        request_id: key("s"),
        reason: "done".into(),
    }
}

fn stopping() -> Session {
    let session = waiting();
    step(&session, stop(&session)).session
}

fn stopped() -> Session {
    let session = idle();
    step(&session, stop(&session)).session
}

fn expired() -> Session {
    let session = idle();
    apply(&session, at(4000), Command::CheckLease).unwrap().session
}

fn blocked() -> Session {
    let session = running(1);
    let id = session.state.run().unwrap().calls[0].id.clone();
    let session = step(&session, Command::Prepare { id: id.clone(), intent: None }).session;
    step(&session, Command::MarkUncertain { id, why: "neither".into() }).session
}

fn continue_with(session: &Session) -> Command {
    Command::Continue {
        lease: session.lease.id.clone(),
        claim: Claim::Fresh,
        run_id: RunId::mint(),
        prompt: "next".into(),
        root: RootStanding::Same,
    }
}

fn recover() -> Command {
    Command::Recover {
        token: TokenStanding::Right,
        claim: Claim::Fresh,
        lease_id: LeaseId::mint(),
        root: RootStanding::Same,
    }
}

fn replay_row(session: &Session, lease: Option<LeaseId>) -> Claim {
    Claim::Replay(OnceRow { session_id: session.id.clone(), lease_id: lease })
}
