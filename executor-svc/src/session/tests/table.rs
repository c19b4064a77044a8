//! One test per column of the state table, over all its rows.

use super::*;

/// Every state, by the name it has outside.
fn rows() -> Vec<(Status, Session)> {
    let rows = vec![
        (Status::Starting, fresh()),
        (Status::WaitingForGpt, waiting()),
        (Status::Running, running(1)),
        (Status::Idle, idle()),
        (Status::Failed, failed()),
        (Status::Stopping, stopping()),
        (Status::Stopped, stopped()),
        (Status::LeaseExpired, expired()),
        (Status::RecoveryRequired, blocked()),
    ];
    for (status, session) in &rows {
        assert_eq!(session.state.status(), *status);
    }
    rows
}

/// The outcome of a command in each row: the status it leads to, or the refusal.
fn outcomes(command: impl Fn(&Session) -> Command) -> Vec<(Status, Result<Status, Refusal>)> {
    rows()
        .into_iter()
        .map(|(status, session)| {
            let outcome = apply(&session, at(2), command(&session)).map(|step| step.session.state.status());
            (status, outcome)
        })
        .collect()
}

fn uncertain_action(session: &Session) -> ToolCallId {
    session.uncertain[0].clone()
}

#[test]
fn continue_begins_a_run_only_where_there_is_none() {
    for (status, outcome) in outcomes(continue_with) {
        match status {
            Status::Idle | Status::Failed => assert_eq!(outcome, Ok(Status::Starting)),
            Status::Starting | Status::WaitingForGpt | Status::Running | Status::Stopping => {
                assert_eq!(outcome, Err(Refusal::SessionBusy(status)));
            }
            Status::Stopped => assert_eq!(outcome, Err(Refusal::SessionStopped)),
            Status::LeaseExpired => assert_eq!(outcome, Err(Refusal::LeaseExpired)),
            Status::RecoveryRequired => assert!(matches!(outcome, Err(Refusal::RecoveryBlocked(_)))),
        }
    }
}

#[test]
fn recover_keeps_the_state_except_that_an_expired_session_becomes_idle() {
    for (status, outcome) in outcomes(|_| recover()) {
        match status {
            Status::LeaseExpired => assert_eq!(outcome, Ok(Status::Idle)),
            Status::Stopping => assert_eq!(outcome, Err(Refusal::SessionBusy(status))),
            Status::RecoveryRequired => assert!(matches!(outcome, Err(Refusal::RecoveryBlocked(_)))),
            other => assert_eq!(outcome, Ok(other)),
        }
    }
}

#[test]
fn recover_of_a_blocked_session_names_the_action() {
    let session = blocked();
    let id = uncertain_action(&session);
    assert_eq!(apply(&session, at(2), recover()), Err(Refusal::RecoveryBlocked(id)));
}

#[test]
fn stop_ends_everything_that_has_not_ended() {
    for (status, outcome) in outcomes(stop) {
        match status {
            Status::Starting | Status::WaitingForGpt | Status::Running => {
                assert_eq!(outcome, Ok(Status::Stopping));
            }
            Status::Idle | Status::Failed => assert_eq!(outcome, Ok(Status::Stopped)),
            // The process of the run that was closed is still being ended.
            Status::RecoveryRequired => assert_eq!(outcome, Ok(Status::Stopping)),
            Status::Stopping => assert_eq!(outcome, Err(Refusal::SessionBusy(status))),
            Status::Stopped => assert_eq!(outcome, Err(Refusal::SessionStopped)),
            Status::LeaseExpired => assert_eq!(outcome, Err(Refusal::LeaseExpired)),
        }
    }
}

#[test]
fn looking_is_allowed_in_every_state_and_changes_none() {
    for (status, outcome) in outcomes(|session| Command::Look { lease: session.lease.id.clone() }) {
        assert_eq!(outcome, Ok(status));
    }
}

#[test]
fn a_reply_is_taken_only_while_its_turn_is_pending() {
    for (status, session) in rows() {
        let command = Command::Reply {
            lease: session.lease.id.clone(),
            claim: Claim::Fresh,
            reply_id: key("r2"),
            turn_id: if status == Status::WaitingForGpt { pending(&session) } else { TurnId::mint() },
            turn: Some(if status == Status::WaitingForGpt {
                TurnStanding::Pending
            } else {
                TurnStanding::Abandoned
            }),
            text: "t".into(),
            calls: Ok(Vec::new()),
        };
        let outcome = apply(&session, at(2), command).map(|step| step.session.state.status());
        match status {
            Status::WaitingForGpt => assert_eq!(outcome, Ok(Status::Running)),
            Status::Stopping | Status::Stopped => assert_eq!(outcome, Err(Refusal::SessionStopped)),
            Status::LeaseExpired => assert_eq!(outcome, Err(Refusal::LeaseExpired)),
            _ => assert_eq!(outcome, Err(Refusal::RunnerGone)),
        }
    }
}

#[test]
fn the_wrong_lease_is_refused_in_every_state_by_every_call_that_takes_one() {
    let other = LeaseId::mint();
    let commands: [fn(&Session, LeaseId) -> Command; 4] = [
        |_, lease| Command::Look { lease },
        |_, lease| Command::Stop {
            lease: Some(lease),
            claim: Claim::Fresh,
            request_id: key("s"),
            reason: String::new(),
        },
        |_, lease| Command::Continue {
            lease,
            claim: Claim::Fresh,
            run_id: RunId::mint(),
            prompt: "p".into(),
            root: RootStanding::Same,
        },
        |_, lease| Command::Reply {
            lease,
            claim: Claim::Fresh,
            reply_id: key("r"),
            turn_id: TurnId::mint(),
            turn: None,
            text: "t".into(),
            calls: Ok(Vec::new()),
        },
    ];
    for command in commands {
        for (_, outcome) in outcomes(|session| command(session, other.clone())) {
            assert_eq!(outcome, Err(Refusal::LeaseMismatch));
        }
    }
}

#[test]
fn a_runner_that_dies_leads_where_the_table_says() {
    for (status, session) in rows() {
        let (run_id, epoch) = match (session.state.run(), &session.ending) {
            (Some(run), _) => (run.id.clone(), run.epoch),
            (None, Some(ending)) => (ending.run_id.clone(), ending.epoch),
            (None, None) => continue,
        };
        let after = step(&session, Command::RunnerGone { run_id, epoch, why: "gone".into() }).session;
        let expected = match status {
            Status::Starting => Status::Failed,
            Status::WaitingForGpt | Status::Running => Status::Idle,
            Status::Stopping => Status::Stopped,
            other => other,
        };
        assert_eq!(after.state.status(), expected);
        assert_eq!(after.ending, None);
        if matches!(status, Status::WaitingForGpt | Status::Running) {
            assert!(!after.last_result.unwrap().ok);
        }
    }
}

#[test]
fn an_expired_lease_ends_every_live_state_but_a_blocked_one() {
    for (status, session) in rows() {
        let step = apply(&session, at(100_000), Command::CheckLease).unwrap();
        let expected = match status {
            Status::Stopping | Status::Stopped | Status::RecoveryRequired => status,
            _ => Status::LeaseExpired,
        };
        assert_eq!(step.session.state.status(), expected, "from {status:?}");
        let had_run = session.state.run().is_some();
        assert_eq!(step.effects.iter().any(|e| matches!(e, Effect::EndRunner { .. })), had_run);
    }
}

#[test]
fn a_restart_gives_every_live_session_a_minute_and_reattaches_its_run() {
    for (status, session) in rows() {
        let now = at(1_000_000);
        let after = apply(&session, now, Command::Restarted).unwrap().session;
        assert_eq!(after.state.status(), status);
        if status.is_live() {
            assert!(!after.lease.expired(now.after(Duration::from_secs(59))));
        }
        if let Some(run) = after.state.run() {
            assert_eq!(run.attachment, Attachment::Reattaching);
        }
    }
}

#[test]
fn an_interrupted_run_leaves_an_idle_session_whose_process_is_ended() {
    let session = waiting();
    let (run_id, epoch) = run_of(&session);
    let step = step(&session, Command::Interrupt { run_id, epoch, why: "shut down".into() });
    assert_eq!(step.session.state, State::Idle);
    assert!(step.session.ending.is_some());
    assert!(step.effects.iter().any(|e| matches!(e, Effect::TurnAbandoned { .. })));
    // Not before the old process is gone.
    assert_eq!(
        apply(&step.session, at(2), continue_with(&step.session)),
        Err(Refusal::SessionBusy(Status::Idle))
    );
}
