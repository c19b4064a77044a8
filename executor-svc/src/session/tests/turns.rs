//! Turns, replies, results, replays.

use super::*;

fn results(session: &Session) -> TurnKey {
    TurnKey::Results(session.state.run().unwrap().calls.iter().map(|call| call.id.clone()).collect())
}

fn settle_all(session: &Session) -> Session {
    let ids: Vec<_> = session.state.run().unwrap().calls.iter().map(|call| call.id.clone()).collect();
    ids.into_iter()
        .fold(session.clone(), |s, id| step(&s, Command::Settle { id, receipt: receipt(true) }).session)
}

#[test]
fn a_repeated_request_joins_the_turn_it_belongs_to() {
    let session = waiting();
    let mut again = ask(&session, TurnKey::First);
    again.known = Some(KnownTurn { id: pending(&session) });
    let step = step(&session, Command::OpenTurn(again));
    assert_eq!(step.answer, Answer::Turn(pending(&session)));
    assert!(step.effects.is_empty());
}

#[test]
fn the_results_of_exactly_the_authorised_calls_open_the_next_turn() {
    let session = settle_all(&running(2));
    let next = step(&session, Command::OpenTurn(ask(&session, results(&session))));
    assert!(
        matches!(&next.session.state, State::Waiting(_, turn) if turn.kind == TurnKind::ToolResults && turn.ordinal == 2)
    );
    assert_eq!(next.effects.len(), 1);
}

#[test]
fn results_of_other_calls_break_the_protocol_and_open_nothing() {
    let session = settle_all(&running(2));
    let one = TurnKey::Results(
        session.state.run().unwrap().calls.iter().take(1).map(|call| call.id.clone()).collect(),
    );
    for key in [
        Ok(one),
        Ok(TurnKey::Results([ToolCallId::mint()].into())),
        Ok(TurnKey::First),
        Err("neither".to_owned()),
    ] {
        let mut wrong = ask(&session, TurnKey::First);
        wrong.key = key;
        let step = step(&session, Command::OpenTurn(wrong));
        assert!(matches!(step.answer, Answer::ProtocolBroken(_)));
        assert!(matches!(&step.session.state, State::Failed(failure) if failure.code == "protocol"));
        assert!(!step.effects.iter().any(|e| matches!(e, Effect::TurnOpened { .. })));
        assert!(step.effects.iter().any(|e| matches!(e, Effect::EndRunner { .. })));
    }
}

#[test]
fn after_a_reply_without_calls_no_further_request_fits() {
    let session = running(0);
    let opened = step(&session, Command::OpenTurn(ask(&session, results(&session))));
    assert!(matches!(opened.answer, Answer::ProtocolBroken(_)));
}

#[test]
fn the_marker_of_another_run_breaks_the_protocol() {
    let session = fresh();
    let mut wrong = ask(&session, TurnKey::First);
    wrong.marker = Some(7);
    assert!(matches!(step(&session, Command::OpenTurn(wrong)).answer, Answer::ProtocolBroken(_)));
}

#[test]
fn a_turn_waits_for_receipts_that_are_being_made_and_cancels_calls_that_were_not() {
    let session = running(2);
    let calls: Vec<_> = session.state.run().unwrap().calls.iter().map(|call| call.id.clone()).collect();
    let mut early = ask(&session, results(&session));
    early.performing = vec![calls[0].clone()];
    assert_eq!(step(&session, Command::OpenTurn(early)).answer, Answer::ReceiptsAwaited);

    let session = step(&session, Command::Settle { id: calls[0].clone(), receipt: receipt(true) }).session;
    let mut then = ask(&session, results(&session));
    then.seen = vec![SeenResult { id: calls[1].clone(), text: "<tool_use_error>no".into() }];
    let opened = step(&session, Command::OpenTurn(then));
    let cancelled: Vec<_> = opened
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::ActionCancelled { id, why, .. } => Some((id.clone(), why.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0].0, calls[1]);
    assert!(cancelled[0].1.contains("<tool_use_error>no"));
}

#[test]
fn replies_replay_conflict_and_are_refused_when_answered() {
    let session = running(1);
    let turn_id = session.state.run().unwrap().answered.clone().unwrap();
    let again = |claim| Command::Reply {
        lease: session.lease.id.clone(),
        claim,
        reply_id: key("r"),
        turn_id: turn_id.clone(),
        turn: Some(TurnStanding::Answered),
        text: "text".into(),
        calls: Ok(Vec::new()),
    };
    let replay = step(&session, again(replay_row(&session, None)));
    assert_eq!((replay.answer, replay.effects.len()), (Answer::Replayed, 0));
    assert_eq!(apply(&session, at(1), again(Claim::Conflict)), Err(Refusal::IdempotencyConflict));
    assert_eq!(apply(&session, at(1), again(Claim::Fresh)), Err(Refusal::TurnAlreadyAnswered));
}

#[test]
fn a_refused_reply_uses_up_neither_turn_nor_session() {
    let session = waiting();
    let fault = Refusal::Reply(ReplyFault {
        code: gatehouse_proto::codes::ErrorCode::ToolNotAllowed,
        message: "m".into(),
        what_to_do: "w".into(),
        calls: Vec::new(),
    });
    let Command::Reply { lease, claim, reply_id, turn_id, turn, text, .. } = reply(&session, 0) else {
        panic!()
    };
    let bad = Command::Reply { lease, claim, reply_id, turn_id, turn, text, calls: Err(fault.clone()) };
    assert_eq!(apply(&session, at(1), bad), Err(fault));
    assert_eq!(step(&session, reply(&session, 1)).session.state.status(), Status::Running);
}

#[test]
fn a_replay_of_recover_gives_out_only_the_lease_that_it_minted() {
    let session = waiting();
    let recovered = step(&session, recover()).session;
    let replay = |session: &Session, minted: LeaseId| Command::Recover {
        token: TokenStanding::Right,
        claim: replay_row(session, Some(minted)),
        lease_id: LeaseId::mint(),
        root: RootStanding::Same,
    };
    let again = step(&recovered, replay(&recovered, recovered.lease.id.clone()));
    assert_eq!(again.answer, Answer::Replayed);
    assert_eq!(again.session.lease.id, recovered.lease.id);
    let rotated = step(&recovered, recover()).session;
    let late = apply(&rotated, at(1), replay(&rotated, recovered.lease.id));
    assert_eq!(late, Err(Refusal::LeaseMismatch));
}

#[test]
fn a_wrong_token_is_denied_whatever_else_is_right() {
    for token in [TokenStanding::Wrong, TokenStanding::Locked] {
        let session = waiting();
        let command = Command::Recover {
            token,
            claim: Claim::Fresh,
            lease_id: LeaseId::mint(),
            root: RootStanding::Same,
        };
        assert!(matches!(apply(&session, at(1), command), Err(Refusal::RecoveryDenied { .. })));
    }
}

#[test]
fn what_a_dead_run_did_is_told_in_the_first_turn_of_the_next() {
    let session = settle_all(&running(2));
    let did: Vec<_> = session.state.run().unwrap().calls.iter().map(|call| call.id.clone()).collect();
    let (run_id, epoch) = run_of(&session);
    let dead = step(&session, Command::RunnerGone { run_id, epoch, why: "killed".into() }).session;
    assert_eq!(dead.unreported, did);
    let next = step(&dead, continue_with(&dead)).session;
    let waiting = step(&next, Command::OpenTurn(ask(&next, TurnKey::First))).session;
    assert!(matches!(&waiting.state, State::Waiting(_, turn) if turn.kind == TurnKind::Resumed));
    assert_eq!(waiting.unreported, did, "still untold until a reply is committed");
    assert!(step(&waiting, reply(&waiting, 0)).session.unreported.is_empty());
}

#[test]
fn a_changed_root_refuses_continue_and_recover_but_not_looking_or_stopping() {
    let session = idle();
    let changed = || RootStanding::Changed("gone".into());
    let Command::Continue { lease, claim, run_id, prompt, .. } = continue_with(&session) else { panic!() };
    let command = Command::Continue { lease, claim, run_id, prompt, root: changed() };
    assert!(matches!(apply(&session, at(1), command), Err(Refusal::RootChanged(_))));
    let command = Command::Recover {
        token: TokenStanding::Right,
        claim: Claim::Fresh,
        lease_id: LeaseId::mint(),
        root: changed(),
    };
    assert!(matches!(apply(&session, at(1), command), Err(Refusal::RootChanged(_))));
    assert!(apply(&session, at(1), stop(&session)).is_ok());
}

#[test]
fn what_a_stale_runner_says_changes_nothing() {
    let session = waiting();
    let (run_id, stale) = (RunId::mint(), 9);
    let mut foreign = ask(&session, TurnKey::First);
    foreign.run_id = run_id.clone();
    assert_eq!(apply(&session, at(1), Command::OpenTurn(foreign)), Err(Refusal::StaleRunner));
    let attach = Command::Attach { run_id: run_id.clone(), epoch: 1, enforced_by: Vec::new() };
    assert_eq!(apply(&session, at(1), attach), Err(Refusal::StaleRunner));
    let (current, _) = run_of(&session);
    for command in [
        Command::EndRun { run_id: current, epoch: stale, outcome: RunOutcome::Finished },
        Command::RunnerGone { run_id, epoch: 1, why: String::new() },
    ] {
        assert_eq!(step(&session, command).session, session);
    }
}

#[test]
fn a_session_that_carries_skills_freezes_them_before_its_first_run() {
    let step = create(new_session(), at(0));
    let kinds: Vec<_> = step.effects.iter().filter_map(Effect::kind).collect();
    assert_eq!(kinds, ["session.created", "skills.frozen", "run.opened"]);
    assert_eq!(step.session.skills, [skill().facts]);
    let none = create(NewSession { skills: Vec::new(), ..new_session() }, at(0));
    assert!(none.effects.iter().all(|effect| effect.kind() != Some("skills.frozen")));
}
