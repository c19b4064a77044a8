//! Undoing, and what becomes of uncertain actions.

use super::*;
use crate::files::replace::{After, Before, Intent};

fn intent() -> Intent {
    Intent {
        path: "/w/a".into(),
        before: Before::Absent,
        after: After::File { sha256: "ab".into(), bytes: 1 },
        temporary: ".gatehouse-x-0.tmp".into(),
        create_directories: Vec::new(),
    }
}

fn undo_ask() -> Box<UndoAsk> {
    Box::new(UndoAsk {
        id: ToolCallId::mint(),
        request_id: key("u"),
        reverts: ToolCallId::mint(),
        intent: intent(),
        performing: Vec::new(),
    })
}

fn resolve_ask(id: &ToolCallId) -> Box<ResolveAsk> {
    Box::new(ResolveAsk {
        id: ToolCallId::mint(),
        request_id: key("r"),
        resolves: id.clone(),
        decision: Decision::KeepDisk,
        intent: None,
    })
}

fn resolution(ask: &ResolveAsk) -> Command {
    Command::Resolve(Box::new(Resolution {
        by: ask.id.clone(),
        own: receipt(true),
        resolves: ask.resolves.clone(),
        receipt: receipt(false),
    }))
}

/// The session after its uncertain action was resolved.
fn resolved(session: &Session, id: &ToolCallId) -> Session {
    let ask = resolve_ask(id);
    let begun = step(session, Command::BeginResolve(Claim::Fresh, ask.clone()));
    assert_eq!(begun.session.state, session.state, "it is resolved with both receipts, not before");
    step(&begun.session, resolution(&ask)).session
}

fn begin_undo(session: &Session) -> Result<Session, Refusal> {
    apply(session, at(2), Command::BeginUndo(Claim::Fresh, undo_ask())).map(|step| step.session)
}

fn uncertain(session: &Session, id: &ToolCallId) -> Step {
    step(session, Command::MarkUncertain { id: id.clone(), why: "neither".into() })
}

#[test]
fn resolving_leads_from_blocked_to_idle_and_tells_both_receipts_later() {
    let session = blocked();
    let id = session.uncertain[0].clone();
    let ask = resolve_ask(&id);
    let begun = step(&session, Command::BeginResolve(Claim::Fresh, ask.clone())).session;
    let after = step(&begun, resolution(&ask)).session;
    assert_eq!(after.state, State::Idle);
    assert_eq!(after.unreported, [id.clone(), ask.id.clone()]);
    assert_eq!(apply(&after, at(3), resolution(&ask)), Err(Refusal::NotAuthorised), "once");
    let again = Command::BeginResolve(Claim::Fresh, resolve_ask(&id));
    assert_eq!(apply(&after, at(3), again), Err(Refusal::NotAuthorised));
}

#[test]
fn a_resolving_that_fails_leaves_the_session_blocked_and_can_be_tried_again() {
    let session = blocked();
    let id = session.uncertain[0].clone();
    let ask = resolve_ask(&id);
    let begun = step(&session, Command::BeginResolve(Claim::Fresh, ask.clone())).session;
    let second = Command::BeginResolve(Claim::Fresh, resolve_ask(&id));
    let busy = Refusal::SessionBusy(Status::RecoveryRequired);
    assert_eq!(apply(&begun, at(2), second), Err(busy), "one at a time");
    let failed = step(&begun, Command::Settle { id: ask.id.clone(), receipt: receipt(false) }).session;
    assert_eq!(failed.state, State::RecoveryRequired(id.clone()));
    assert_eq!(resolved(&failed, &id).state, State::Idle);
}

#[test]
fn of_several_uncertain_actions_each_has_to_be_resolved() {
    let session = running(2);
    let ids: Vec<_> = session.state.run().unwrap().calls.iter().map(|call| call.id.clone()).collect();
    let prepare = |session: &Session, id: &ToolCallId| {
        step(session, Command::Prepare { id: id.clone(), intent: None }).session
    };
    let session = prepare(&prepare(&session, &ids[0]), &ids[1]);
    let session = uncertain(&uncertain(&session, &ids[0]).session, &ids[1]).session;
    assert_eq!(session.state, State::RecoveryRequired(ids[0].clone()));
    assert!(uncertain(&session, &ids[0]).effects.is_empty(), "marked once");
    let session = resolved(&session, &ids[1]);
    assert_eq!(session.state, State::RecoveryRequired(ids[0].clone()));
    assert_eq!(resolved(&session, &ids[0]).state, State::Idle);
}

#[test]
fn a_stopped_session_stays_stopped_whatever_is_uncertain_and_resolved() {
    let blocked = blocked();
    let id = blocked.uncertain[0].clone();
    let stopping = step(&blocked, stop(&blocked)).session;
    assert_eq!(stopping.state, State::Stopping, "its process is still being ended");
    let ending = stopping.ending.clone().unwrap();
    let gone = Command::RunnerGone { run_id: ending.run_id, epoch: ending.epoch, why: "x".into() };
    let ended = step(&stopping, gone).session;
    assert_eq!(ended.state.status(), Status::Stopped, "an uncertain action does not keep it from ending");
    let after = resolved(&ended, &id);
    assert_eq!((after.state.status(), after.uncertain.len()), (Status::Stopped, 0));

    let undoing = begin_undo(&after).unwrap();
    let undo = undoing.undoing.clone().unwrap();
    let after = uncertain(&undoing, &undo).session;
    assert_eq!((after.state.status(), after.undoing.as_ref()), (Status::Stopped, None));
    assert_eq!(begin_undo(&after), Err(Refusal::RecoveryBlocked(undo.clone())));
    assert_eq!(resolved(&after, &undo).state.status(), Status::Stopped);
}

#[test]
fn a_write_of_a_stopping_session_that_turns_out_uncertain_lets_it_stop() {
    let session = running(1);
    let id = session.state.run().unwrap().calls[0].id.clone();
    let session = step(&session, Command::Prepare { id: id.clone(), intent: None }).session;
    let session = step(&session, stop(&session)).session;
    let ending = session.ending.clone().unwrap();
    let gone = Command::RunnerGone { run_id: ending.run_id, epoch: ending.epoch, why: "x".into() };
    let session = step(&session, gone).session;
    assert_eq!(session.state, State::Stopping, "the write has begun");
    let marked = uncertain(&session, &id);
    assert_eq!(marked.session.state.status(), Status::Stopped);
    assert!(marked.effects.contains(&Effect::Stopped));
}

#[test]
fn an_undo_begins_only_while_no_action_is_under_way() {
    for session in [idle(), waiting(), running(1), failed(), stopped(), expired()] {
        let status = session.state.status();
        let undoing = begin_undo(&session).unwrap();
        assert_eq!(undoing.state, session.state);
        assert_eq!(begin_undo(&undoing), Err(Refusal::SessionBusy(status)), "one at a time");
        let id = undoing.undoing.clone().unwrap();
        let settled = step(&undoing, Command::Settle { id: id.clone(), receipt: receipt(true) }).session;
        assert_eq!((settled.state.status(), settled.unreported.last()), (status, Some(&id)));
    }
    let session = running(1);
    let id = session.state.run().unwrap().calls[0].id.clone();
    let busy = Err(Refusal::SessionBusy(Status::Running));
    let performing = Box::new(UndoAsk { performing: vec![id.clone()], ..*undo_ask() });
    let begun = apply(&session, at(2), Command::BeginUndo(Claim::Fresh, performing));
    assert_eq!(begun.map(|step| step.session), busy);
    let prepared = step(&session, Command::Prepare { id, intent: None }).session;
    assert_eq!(begin_undo(&prepared), busy);
    let blocked = blocked();
    assert_eq!(begin_undo(&blocked), Err(Refusal::RecoveryBlocked(blocked.uncertain[0].clone())));
}

#[test]
fn what_is_undone_while_a_turn_waits_is_told_in_the_next_turn_too() {
    let session = begin_undo(&waiting()).unwrap();
    let id = session.undoing.clone().unwrap();
    let session = step(&session, Command::Settle { id: id.clone(), receipt: receipt(true) }).session;
    assert_eq!(session.unreported, std::slice::from_ref(&id), "who looks now sees it");
    let session = step(&session, reply(&session, 1)).session;
    assert_eq!(session.unreported, [id], "who answered may have looked before");
    let call = session.state.run().unwrap().calls[0].id.clone();
    let session = step(&session, Command::Settle { id: call.clone(), receipt: receipt(true) }).session;
    let next = ask(&session, TurnKey::Results([call].into()));
    let session = step(&session, Command::OpenTurn(next)).session;
    let session = step(&session, reply(&session, 0)).session;
    assert!(session.unreported.is_empty());
}

#[test]
fn a_repeated_request_has_no_effect_and_another_under_its_id_is_refused() {
    let session = idle();
    let replay = Command::BeginUndo(replay_row(&session, None), undo_ask());
    let replayed = step(&session, replay);
    assert_eq!((replayed.answer, replayed.effects.len()), (Answer::Replayed, 0));
    let conflict = Command::BeginUndo(Claim::Conflict, undo_ask());
    assert_eq!(apply(&session, at(2), conflict), Err(Refusal::IdempotencyConflict));
}

/// Whether an undo cannot begin now.
pub(super) fn undo_is_busy(session: &Session) -> bool {
    matches!(begin_undo(session), Err(Refusal::SessionBusy(_)))
}
