//! Subagents: what may begin one, what it locks, and in which order things end.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::ids::SubagentId;

use super::*;

fn in_worktree() -> Session {
    let mut session = waiting();
    (session.profile, session.subagents) = (Profile::WorktreeWrite, SubagentPolicy::DeepseekExplicit);
    session
}

fn reply_with(session: &Session, names: &[&str]) -> Command {
    let Command::Reply { lease, claim, reply_id, turn_id, turn, .. } = reply(session, 0) else {
        unreachable!()
    };
    let calls = Ok(names.iter().map(|name| call_request(name)).collect());
    Command::Reply { lease, claim, reply_id, turn_id, turn, text: "text".into(), calls }
}

pub(super) fn start_of(session: &Session) -> Option<SubagentStart> {
    let call = session.state.run()?.calls.iter().find(|call| call.name == SUBAGENT_START)?;
    Some(SubagentStart {
        id: SubagentId::mint(),
        action: call.id.clone(),
        receipt: receipt(true),
        run_id: RunId::mint(),
        claude_session_id: "s".into(),
        grade: Grade::Sonnet,
        prompt: "p".into(),
        deadline: at(600),
        limits: SubagentLimits { turns: 3, output_tokens: 100 },
    })
}

/// The main session waits, and its subagent's Claude Code is being launched.
fn begun() -> Session {
    let session = in_worktree();
    let session = step(&session, reply_with(&session, &[SUBAGENT_START])).session;
    let start = start_of(&session).unwrap();
    let session = step(&session, Command::StartSubagent(Box::new(start))).session;
    let ids = session.state.run().unwrap().calls.iter().map(|call| call.id.clone()).collect();
    step(&session, Command::OpenTurn(ask(&session, TurnKey::Results(ids)))).session
}

pub(super) fn ask_of(session: &Session, key: TurnKey) -> TurnAsk {
    ask_for(&session.subagent.as_ref().expect("a subagent").run, key)
}

fn asking() -> Session {
    let session = begun();
    step(&session, Command::OpenTurn(ask_of(&session, TurnKey::First))).session
}

fn turn_of(session: &Session) -> TurnId {
    match &session.subagent.as_ref().unwrap().state {
        SubagentState::Asking { turn, .. } => turn.clone(),
        other => panic!("{other:?}"),
    }
}

pub(super) fn answer_of(session: &Session, turn_id: TurnId, calls: usize) -> Command {
    Command::SubagentAnswer(Box::new(SubagentAnswer {
        id: session.subagent.as_ref().unwrap().id.clone(),
        turn_id,
        reply_id: key("msg"),
        text: "done".into(),
        calls: (0..calls).map(|_| call_request("Write")).collect(),
        refused: Vec::new(),
        content: "[]".into(),
        model: "m".into(),
        usage: Usage { input_tokens: 5, output_tokens: 40 },
    }))
}

fn working(calls: usize) -> Session {
    let session = asking();
    step(&session, answer_of(&session, turn_of(&session), calls)).session
}

fn its_run(session: &Session) -> (RunId, u32) {
    let run = &session.subagent.as_ref().unwrap().run;
    (run.id.clone(), run.epoch)
}

fn gone_of(session: &Session) -> Command {
    let (run_id, epoch) = its_run(session);
    Command::RunnerGone { run_id, epoch, why: "gone".into() }
}

fn end_of(session: &Session) -> SubagentEnd {
    match &session.subagent.as_ref().unwrap().state {
        SubagentState::Stopping { end, .. } => end.clone(),
        other => panic!("{other:?}"),
    }
}

fn refused(session: &Session, command: Command) -> ReplyFault {
    match apply(session, at(1), command) {
        Err(Refusal::Reply(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_start_is_the_only_call_of_its_reply() {
    let session = in_worktree();
    for names in [[SUBAGENT_START, "Read"], ["Read", SUBAGENT_START], [SUBAGENT_START, SUBAGENT_START]] {
        let fault = refused(&session, reply_with(&session, &names));
        assert_eq!(fault.code, ErrorCode::InvalidArgument);
        assert_eq!(fault.calls.len(), names.iter().filter(|name| **name == SUBAGENT_START).count());
    }
}

#[test]
fn a_start_settles_its_action_and_orders_the_launch_in_the_same_step() {
    let session = in_worktree();
    let session = step(&session, reply_with(&session, &[SUBAGENT_START])).session;
    let start = start_of(&session).unwrap();
    let begun = step(&session, Command::StartSubagent(Box::new(start.clone())));
    let kinds: Vec<_> = begun.effects.iter().map(Effect::kind).collect();
    assert_eq!(kinds, [Some("subagent.started"), Some("action.settled"), None]);
    let again = apply(&begun.session, at(1), Command::StartSubagent(Box::new(start.clone())));
    assert_eq!(again.unwrap_err(), Refusal::NotAuthorised);
    let mut without = session;
    without.subagents = SubagentPolicy::None;
    let forbidden = apply(&without, at(1), Command::StartSubagent(Box::new(start)));
    assert_eq!(forbidden.unwrap_err(), Refusal::NotAuthorised);
}

#[test]
fn while_it_is_active_the_main_session_only_looks_and_does_not_finish() {
    let stopping = {
        let session = begun();
        let id = session.subagent.as_ref().unwrap().id.clone();
        step(&session, Command::StopSubagent { id, why: "enough".into() }).session
    };
    for session in [begun(), asking(), working(1), stopping] {
        for name in ["Edit", "Write", "NotebookEdit", "RunCommand", SUBAGENT_START] {
            let fault = refused(&session, reply_with(&session, &[name]));
            assert_eq!((fault.code, fault.calls.len()), (ErrorCode::SubagentActive, 1), "{name}");
        }
        let fault = refused(&session, reply_with(&session, &["Read", "Edit", "Write"]));
        assert_eq!(fault.calls.iter().map(|call| call.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(refused(&session, reply_with(&session, &[])).code, ErrorCode::SubagentActive);
        for name in ["Read", "FindFiles", "SearchText", SUBAGENT_GET, SUBAGENT_STOP] {
            step(&session, reply_with(&session, &[name]));
        }
    }
}

#[test]
fn an_answer_without_calls_and_the_end_of_its_run_finish_it() {
    let session = working(0);
    let (run_id, epoch) = its_run(&session);
    let over = step(&session, Command::EndRun { run_id, epoch, outcome: RunOutcome::Finished });
    assert!(over.session.subagent.is_none());
    let ends = over.effects.iter().filter_map(Effect::kind).collect::<Vec<_>>();
    assert_eq!(ends, ["subagent.finished"]);
    assert!(over.session.state.run().is_some(), "the main run goes on");
    step(&over.session, reply_with(&over.session, &["Edit"]));
}

#[test]
fn its_turns_are_opened_by_key_like_any_other() {
    let session = working(2);
    let ids: std::collections::BTreeSet<_> =
        session.subagent.as_ref().unwrap().run.calls.iter().map(|call| call.id.clone()).collect();
    for id in &ids {
        assert!(apply(&session, at(1), Command::Prepare { id: id.clone(), intent: None }).is_ok());
    }
    let mut settled = session;
    for id in &ids {
        settled = step(&settled, Command::Settle { id: id.clone(), receipt: receipt(true) }).session;
    }
    let next = step(&settled, Command::OpenTurn(ask_of(&settled, TurnKey::Results(ids.clone()))));
    assert!(matches!(next.effects.last(), Some(Effect::AskModel { .. })));
    let wrong = TurnKey::Results(ids.into_iter().skip(1).collect());
    let broken = step(&settled, Command::OpenTurn(ask_of(&settled, wrong)));
    assert!(matches!(broken.answer, Answer::ProtocolBroken(_)));
    assert!(
        matches!(end_of(&broken.session), SubagentEnd::Failed(failure) if failure.kind == "claude_protocol")
    );
    assert!(broken.session.state.run().is_some(), "the main run goes on");
}

#[test]
fn a_request_is_counted_before_it_is_made_and_repeated_once_after_a_crash() {
    let session = asking();
    let turn_id = turn_of(&session);
    let begin = || Command::BeginRequest { turn_id: turn_id.clone() };
    let once = step(&session, begin()).session;
    let twice = step(&once, begin()).session;
    assert_eq!(twice.subagent.as_ref().unwrap().requests, 2);
    let over = step(&twice, begin()).session;
    assert!(matches!(end_of(&over), SubagentEnd::Failed(failure) if failure.kind == "interrupted"));
    assert_eq!(apply(&over, at(1), begin()).unwrap_err(), Refusal::StaleRunner);
}

#[test]
fn its_limits_end_it_before_the_next_request() {
    let with = |change: fn(&mut Subagent)| {
        let mut session = asking();
        change(session.subagent.as_mut().unwrap());
        let turn_id = turn_of(&session);
        match end_of(&step(&session, Command::BeginRequest { turn_id }).session) {
            SubagentEnd::Failed(failure) => failure.kind,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(with(|subagent| subagent.run.turns = 4), "turn_limit");
    assert_eq!(with(|subagent| subagent.usage.output_tokens = 100), "output_limit");
    let session = asking();
    let early = apply(&session, at(599), Command::CheckSubagent).unwrap();
    assert!(early.effects.is_empty());
    let late = apply(&session, at(600), Command::CheckSubagent).unwrap().session;
    assert!(matches!(end_of(&late), SubagentEnd::Failed(failure) if failure.kind == "timed_out"));
}

#[test]
fn an_answer_that_comes_too_late_or_twice_authorises_nothing() {
    let session = asking();
    let turn = turn_of(&session);
    let answered = step(&session, answer_of(&session, turn.clone(), 1)).session;
    let again = apply(&answered, at(1), answer_of(&answered, turn.clone(), 1));
    assert_eq!(again.unwrap_err(), Refusal::StaleRunner);
    let failure = SubagentFailure::new("x", "y");
    let failed = step(&session, Command::SubagentFailed { turn_id: turn.clone(), failure }).session;
    assert_eq!(apply(&failed, at(1), answer_of(&failed, turn, 1)).unwrap_err(), Refusal::StaleRunner);
}

#[test]
fn a_call_that_was_refused_with_its_answer_is_settled_from_the_beginning() {
    let session = asking();
    let Command::SubagentAnswer(mut answer) = answer_of(&session, turn_of(&session), 2) else {
        unreachable!()
    };
    answer.refused = vec![(answer.calls[0].id.clone(), receipt(false))];
    let answered = step(&session, Command::SubagentAnswer(answer.clone()));
    assert!(
        answered
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::ActionSettled { id, .. } if *id == answer.calls[0].id))
    );
    let prepare = |at_place: usize| Command::Prepare { id: answer.calls[at_place].id.clone(), intent: None };
    assert_eq!(apply(&answered.session, at(1), prepare(0)).unwrap_err(), Refusal::NotAuthorised);
    step(&answered.session, prepare(1));
}

#[test]
fn a_stop_of_the_session_ends_the_subagent_first_and_waits_for_both() {
    let session = working(1);
    let (main_run, _) = run_of(&session);
    let ended = step(&session, stop(&session));
    let orders: Vec<_> = ended
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::EndRunner { run_id, .. } => Some(run_id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(orders, [its_run(&session).0, main_run.clone()]);
    let main_gone = Command::RunnerGone { run_id: main_run, epoch: 1, why: "gone".into() };
    let half = step(&ended.session, main_gone).session;
    assert_eq!(half.state, State::Stopping, "the subagent still lives");
    let over = step(&half, gone_of(&half)).session;
    assert!(matches!(over.state, State::Stopped(_)) && over.subagent.is_none());
}

#[test]
fn a_write_that_has_begun_is_waited_for_before_it_is_over() {
    let session = working(1);
    let id = session.subagent.as_ref().unwrap().run.calls[0].id.clone();
    let session = step(&session, Command::Prepare { id: id.clone(), intent: None }).session;
    let subagent = session.subagent.as_ref().unwrap().id.clone();
    let session = step(&session, Command::StopSubagent { id: subagent, why: "enough".into() }).session;
    let session = step(&session, gone_of(&session)).session;
    assert!(session.subagent.is_some(), "its write is in flight");
    let over = step(&session, Command::Settle { id, receipt: receipt(true) });
    assert!(over.session.subagent.is_none());
    assert_eq!(over.effects.last().and_then(Effect::kind), Some("subagent.stopped"));
}

#[test]
fn an_uncertain_write_of_it_stops_the_session() {
    let session = working(1);
    let id = session.subagent.as_ref().unwrap().run.calls[0].id.clone();
    let session = step(&session, Command::Prepare { id: id.clone(), intent: None }).session;
    let session = step(&session, Command::MarkUncertain { id: id.clone(), why: "neither".into() }).session;
    assert_eq!(session.state, State::RecoveryRequired(id));
    let over = step(&session, gone_of(&session)).session;
    assert!(over.subagent.is_none() && matches!(over.state, State::RecoveryRequired(_)));
}

#[test]
fn the_end_of_the_main_run_ends_it_and_the_next_run_waits_for_that() {
    let session = asking();
    let (run_id, epoch) = run_of(&session);
    let session = step(&session, Command::RunnerGone { run_id, epoch, why: "gone".into() }).session;
    assert_eq!(session.state, State::Idle);
    assert!(matches!(end_of(&session), SubagentEnd::Stopped(_)));
    let busy = apply(&session, at(1), continue_with(&session));
    assert_eq!(busy.unwrap_err(), Refusal::SessionBusy(Status::Idle));
    let session = step(&session, gone_of(&session)).session;
    step(&session, continue_with(&session));
}

#[test]
fn an_expired_lease_ends_it_and_a_stop_of_another_one_does_not() {
    let session = asking();
    let other = step(&session, Command::StopSubagent { id: SubagentId::mint(), why: "x".into() });
    assert!(other.effects.is_empty());
    let expired = apply(&session, at(4000), Command::CheckLease).unwrap().session;
    assert_eq!(expired.state, State::LeaseExpired);
    assert!(expired.subagent.as_ref().is_some_and(Subagent::is_ending));
    assert!(step(&expired, gone_of(&expired)).session.subagent.is_none());
}

#[test]
fn an_undo_waits_for_what_it_has_begun() {
    let session = working(1);
    let id = session.subagent.as_ref().unwrap().run.calls[0].id.clone();
    let prepared = step(&session, Command::Prepare { id, intent: None }).session;
    assert!(super::operating::undo_is_busy(&prepared));
    assert!(!super::operating::undo_is_busy(&session));
}

#[test]
fn a_clock_that_is_set_neither_ends_it_nor_gives_it_time() {
    for millis in [3_600_000, -3_600_000_i64] {
        let session = asking();
        let (deadline, now) = (session.subagent.as_ref().unwrap().deadline, at(599).moved(millis));
        let moved = step(&session, Command::ClockMoved { millis }).session;
        assert_eq!(moved.subagent.as_ref().unwrap().deadline, deadline.moved(millis));
        let looked = apply(&moved, now, Command::CheckSubagent).unwrap();
        assert!(looked.effects.is_empty(), "a second is left of its time");
        let looked = apply(&moved, deadline.moved(millis), Command::CheckSubagent).unwrap();
        assert!(looked.session.subagent.unwrap().is_ending());
    }
}
