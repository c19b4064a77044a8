//! How runs and sessions end, and in which order.

use super::*;

fn gone(session: &Session) -> Command {
    let (run_id, epoch) = session
        .ending
        .as_ref()
        .map_or_else(|| run_of(session), |ending| (ending.run_id.clone(), ending.epoch));
    Command::RunnerGone { run_id, epoch, why: "killed".into() }
}

fn words() -> LaunchFailure {
    LaunchFailure { code: "claude_error".into(), message: "m".into(), what_to_do: "w".into() }
}

#[test]
fn a_final_text_is_the_runs_result_however_its_process_ends() {
    let session = running(0);
    let answered = session.state.run().unwrap().answered.clone().unwrap();
    let (run_id, epoch) = run_of(&session);
    let ends = [
        gone(&session),
        stop(&session),
        Command::EndRun { run_id: run_id.clone(), epoch, outcome: RunOutcome::Finished },
        Command::EndRun { run_id: run_id.clone(), epoch, outcome: RunOutcome::Failed(words()) },
        Command::Interrupt { run_id, epoch, why: "shut down".into() },
    ];
    for end in ends {
        let text = format!("{end:?}");
        let next = step(&session, end);
        let last = next.session.last_result.unwrap();
        assert!(last.ok, "{text}");
        assert_eq!(last.text, ResultText::ReplyTo(answered.clone()), "{text}");
        assert!(
            next.effects.iter().any(|e| matches!(e, Effect::RunClosed { ok: true, why: None, .. })),
            "{text}"
        );
    }
    let late = apply(&session, at(4000), Command::CheckLease).unwrap().session;
    assert_eq!((late.state.status(), late.last_result.unwrap().ok), (Status::LeaseExpired, true));
}

#[test]
fn a_final_text_that_claude_code_contradicts_is_not_the_result() {
    let session = running(0);
    let (run_id, epoch) = run_of(&session);
    let erred = step(&session, Command::EndRun { run_id, epoch, outcome: RunOutcome::Erred(words()) });
    assert_eq!(erred.session.last_result.unwrap().text, ResultText::Message("m".into()));
    let asked_again = step(&session, Command::OpenTurn(ask(&session, TurnKey::First))).session;
    assert!(!asked_again.last_result.unwrap().ok);
}

#[test]
fn after_a_reply_with_calls_a_run_that_ends_has_no_result() {
    let session = running(1);
    assert!(!step(&session, gone(&session)).session.last_result.unwrap().ok);
    let (run_id, epoch) = run_of(&session);
    let end = Command::EndRun { run_id, epoch, outcome: RunOutcome::Finished };
    assert!(!step(&session, end).session.last_result.unwrap().ok);
}

#[test]
fn a_stop_says_stopped_only_when_the_process_is_gone_and_every_action_has_its_receipt() {
    let session = running(1);
    let id = session.state.run().unwrap().calls[0].id.clone();
    let session = step(&session, Command::Prepare { id: id.clone(), intent: None }).session;
    let asked = step(&session, stop(&session));
    let order: Vec<_> = asked.effects.iter().filter_map(Effect::kind).collect();
    assert_eq!(order, ["stop.requested", "run.closed"]);
    assert!(matches!(asked.effects.last(), Some(Effect::EndRunner { .. })), "{:?}", asked.effects);
    let settle =
        |session: &Session| step(session, Command::Settle { id: id.clone(), receipt: receipt(true) }).session;
    let by_process = step(&asked.session, gone(&asked.session)).session;
    assert_eq!(by_process.state.status(), Status::Stopping, "a receipt is still to come");
    assert_eq!(settle(&by_process).state.status(), Status::Stopped);
    let by_receipt = settle(&asked.session);
    assert_eq!(by_receipt.state.status(), Status::Stopping, "the process is still there");
    let over = step(&by_receipt, gone(&by_receipt));
    assert_eq!(over.session.state.status(), Status::Stopped);
    assert_eq!(over.effects, [Effect::Stopped]);
}

#[test]
fn a_stop_that_is_asked_for_again_is_one_stop() {
    let session = waiting();
    let asked = step(&session, stop(&session)).session;
    let again = |session: &Session| Command::Stop {
        lease: Some(session.lease.id.clone()),
        claim: replay_row(session, None),
        request_id: key("s"),
        reason: "done".into(),
    };
    let replay = step(&asked, again(&asked));
    assert_eq!((replay.answer, replay.effects.len()), (Answer::Replayed, 0));
    assert_eq!(apply(&asked, at(1), stop(&asked)), Err(Refusal::SessionBusy(Status::Stopping)));
    let over = step(&asked, gone(&asked)).session;
    let replay = step(&over, again(&over));
    assert_eq!((replay.answer, &replay.session.state), (Answer::Replayed, &over.state));
    assert_eq!(step(&over, gone(&session)).session, over, "an end that is seen twice is one end");
}

#[test]
fn a_relaunch_is_a_new_epoch_and_what_the_old_one_says_changes_nothing() {
    let session = fresh();
    let (run_id, epoch) = run_of(&session);
    let again = step(&session, Command::Relaunch { run_id: run_id.clone(), epoch });
    let next = run_of(&again.session);
    assert_eq!(next, (run_id.clone(), epoch + 1));
    assert_eq!(
        again.effects,
        [
            Effect::RunRelaunched { run_id: run_id.clone(), epoch: epoch + 1 },
            Effect::Launch { run_id: run_id.clone(), epoch: epoch + 1 }
        ]
    );
    let session = again.session;
    assert_eq!(
        apply(&session, at(1), Command::Relaunch { run_id: run_id.clone(), epoch }),
        Err(Refusal::StaleRunner)
    );
    let attach = Command::Attach { run_id: run_id.clone(), epoch, enforced_by: Vec::new() };
    assert_eq!(apply(&session, at(1), attach), Err(Refusal::StaleRunner));
    let stale = TurnAsk { epoch, ..ask(&session, TurnKey::First) };
    assert_eq!(apply(&session, at(1), Command::OpenTurn(stale)), Err(Refusal::StaleRunner));
    for command in [
        Command::EndRun { run_id: run_id.clone(), epoch, outcome: RunOutcome::Finished },
        Command::RunnerGone { run_id: run_id.clone(), epoch, why: String::new() },
        Command::Interrupt { run_id: run_id.clone(), epoch, why: String::new() },
    ] {
        assert_eq!(step(&session, command).session, session);
    }
    let waiting = step(&session, Command::OpenTurn(ask(&session, TurnKey::First))).session;
    let late = Command::Relaunch { run_id, epoch: epoch + 1 };
    assert_eq!(apply(&waiting, at(1), late), Err(Refusal::StaleRunner), "it has asked, so it lives");
}

#[test]
fn a_clock_that_moves_takes_the_lease_with_it() {
    for millis in [-7_200_000, 7_200_000] {
        let session = waiting();
        let moved = step(&session, Command::ClockMoved { millis }).session;
        let then = at(1).moved(millis);
        assert_eq!(moved.lease.left(then), session.lease.left(at(1)));
        assert!(apply(&moved, then, Command::Look { lease: moved.lease.id.clone() }).is_ok());
        assert_eq!(apply(&moved, then, Command::CheckLease).unwrap().session.state, session.state);
    }
    let over = expired();
    assert_eq!(step(&over, Command::ClockMoved { millis: 5 }).session, over, "what has expired stays so");
}

#[test]
fn a_restart_gives_at_least_a_minute_and_at_most_a_whole_lease() {
    let session = waiting();
    let left = |now: Timestamp| {
        let session = apply(&session, now, Command::Restarted).unwrap().session;
        session.lease.left(now)
    };
    assert_eq!(left(at(10_000)), RESTART_GRACE, "the clock was set forward meanwhile");
    assert_eq!(left(Timestamp::from_millis(0)), TTL, "the clock was set back meanwhile");
}
