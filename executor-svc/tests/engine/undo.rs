//! Writes that the operator undoes.

use std::path::{Path, PathBuf};

use executor_svc::files::replace::Intent;
use executor_svc::ledger::once::Claim;
use executor_svc::session::{Command, Status, UndoAsk};
use gatehouse_proto::codes::{ActionCode, ErrorCode};
use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::ids::{RequestKey, ToolCallId};
use gatehouse_proto::v1;
use serde_json::{Value, json};

use super::asking::*;
use super::caller::Caller;
use super::house::*;

async fn edit(caller: &mut Caller, file: &Path, old: &str, new: &str) -> String {
    let input = json!({"file_path": file, "old_string": old, "new_string": new});
    let receipt = caller.call("Edit", input).await;
    assert_eq!(receipt["ok"], true, "{receipt}");
    call_id(&receipt)
}

async fn create(caller: &mut Caller, file: &Path, content: &str) -> String {
    let input = json!({"file_path": file, "content": content, "create_only": true});
    let receipt = caller.call("Write", input).await;
    assert_eq!(receipt["ok"], true, "{receipt}");
    call_id(&receipt)
}

/// A session that has edited `a.txt` from "one" to "two".
async fn edited(ground: &Ground) -> (Caller, PathBuf, String) {
    let mut caller = Caller::writing(ground).await;
    let file = ground.path("project/a.txt");
    std::fs::write(&file, "one\r\n").unwrap();
    let action = edit(&mut caller, &file, "one", "two").await;
    (caller, file, action)
}

fn names(ground: &Ground) -> Vec<String> {
    let entries = std::fs::read_dir(ground.path("project")).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn an_edit_is_undone_and_the_undo_too_and_each_is_told() {
    let ground = Ground::new("");
    let (mut caller, file, action) = edited(&ground).await;
    let asking = Asking::of(&caller);
    let undo = asking.undo(&action, "u1").await.unwrap();
    assert_eq!((undo.name.as_str(), undo.ok, undo.undoes.as_deref()), ("Undo", Some(true), Some(&*action)));
    assert_eq!(std::fs::read(&file).unwrap(), b"one\r\n", "byte for byte");
    let told = receipt(&undo);
    assert_eq!((&told["undoes"], &told["how"]), (&json!(action), &json!("exchanged")), "{told}");
    assert_eq!(told["before_sha256"], sha256_hex(b"two\r\n"));
    assert_eq!(told["after_sha256"], sha256_hex(b"one\r\n"));
    assert!(told["diff"].as_str().unwrap().contains("-two\n+one"), "{told}");
    assert!(told["foreign_writer_check"].is_string() && told["file_path"].is_string(), "{told}");

    let again = asking.undo(&undo.tool_call_id, "u2").await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"two\r\n", "the undo is undone");
    let third = asking.undo(&action, "u3").await.unwrap();
    assert_eq!((again.ok, third.ok), (Some(true), Some(true)));
    assert_eq!(std::fs::read(&file).unwrap(), b"one\r\n", "the edit is there again, so it is undone again");

    let seen = caller.house.status(&caller.started).await.unwrap();
    let turn = seen.session.unwrap().pending_turn.unwrap();
    let told: Vec<_> = turn.unreported.iter().map(|result| result.name.as_str()).collect();
    assert_eq!(told, ["Undo"; 3], "ChatGPT is told");
    caller.sh("true").await;
    let seen = caller.house.status(&caller.started).await.unwrap();
    let turn = seen.session.unwrap().pending_turn.unwrap();
    assert_eq!(turn.unreported.len(), 3, "also in the turn after the one that was pending");
    caller.sh("true").await;
    let seen = caller.house.status(&caller.started).await.unwrap();
    assert!(seen.session.unwrap().pending_turn.unwrap().unreported.is_empty());
    assert!(Asking::of(&caller).verify().await.ok);
    caller.house.close().await;
}

#[tokio::test]
async fn the_same_request_is_one_undo_also_after_a_restart() {
    let ground = Ground::new("");
    let (caller, file, action) = edited(&ground).await;
    let asking = Asking::of(&caller);
    let (one, two) = tokio::join!(asking.undo(&action, "u1"), asking.undo(&action, "u1"));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one, two);
    let other = create_elsewhere(&asking, &action).await;
    assert_eq!(other, ErrorCode::IdempotencyConflict);
    let session = asking.session.clone();
    caller.house.close().await;
    let house = ground.open();
    house.actions.reconcile().await.unwrap();
    let asking = Asking { house: &house, session };
    assert_eq!(asking.undo(&action, "u1").await.unwrap(), one);
    assert_eq!(std::fs::read(&file).unwrap(), b"one\r\n");
    house.close().await;
}

/// The same id for another action.
async fn create_elsewhere(asking: &Asking<'_>, action: &str) -> ErrorCode {
    let other = ToolCallId::mint().to_string();
    assert_ne!(other, action);
    denied(asking.undo(&other, "u1").await).code
}

#[tokio::test]
async fn a_file_that_was_changed_since_is_not_undone() {
    let ground = Ground::new("");
    let (mut caller, file, first) = edited(&ground).await;
    let second = edit(&mut caller, &file, "two", "three").await;
    let asking = Asking::of(&caller);
    let refusal = refused(asking.undo(&first, "u1").await);
    assert_eq!(refusal.code, ActionCode::ChangedMeanwhile);
    assert!(refusal.message.contains(&sha256_hex(b"three\r\n")), "{refusal}");
    asking.undo(&second, "u2").await.unwrap();
    asking.undo(&first, "u3").await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"one\r\n", "newest first, everything is undone");

    std::fs::write(&file, "by hand").unwrap();
    let last = asking.undo(&first, "u3").await.unwrap();
    assert_eq!(last.ok, Some(true), "a repeat is an answer, not another undo");
    let refusal = refused(asking.undo(&last.tool_call_id, "u4").await);
    assert_eq!(refusal.code, ActionCode::ChangedMeanwhile);
    std::fs::remove_file(&file).unwrap();
    let refusal = refused(asking.undo(&last.tool_call_id, "u5").await);
    assert!(refusal.message.contains("gone"), "{refusal}");
    assert_eq!(caller.house.session(&caller.started).await.undoing, None);
    caller.house.close().await;
}

#[tokio::test]
async fn a_creation_is_undone_with_its_empty_directories_and_comes_back() {
    let ground = Ground::new("");
    let mut caller = Caller::writing(&ground).await;
    std::fs::create_dir(ground.path("project/kept")).unwrap();
    let deep = ground.path("project/kept/new/er/a.txt");
    let action = create(&mut caller, &deep, "x\n").await;
    let asking = Asking::of(&caller);
    let undo = asking.undo(&action, "u1").await.unwrap();
    let told = receipt(&undo);
    assert_eq!((&told["after_sha256"], &told["how"]), (&Value::Null, &json!("removed")), "{told}");
    assert_eq!(told["removed_directories"].as_array().unwrap().len(), 2, "{told}");
    assert!(ground.path("project/kept").is_dir() && !ground.path("project/kept/new").exists());

    let back = asking.undo(&undo.tool_call_id, "u2").await.unwrap();
    assert_eq!(std::fs::read(&deep).unwrap(), b"x\n");
    assert_eq!(receipt(&back)["created_directories"].as_array().unwrap().len(), 2);
    std::fs::write(ground.path("project/kept/new/other"), "").unwrap();
    let undo = asking.undo(&back.tool_call_id, "u3").await.unwrap();
    assert_eq!(receipt(&undo)["removed_directories"].as_array().unwrap().len(), 1, "one is not empty");
    assert!(ground.path("project/kept/new/other").exists());

    let back = asking.undo(&undo.tool_call_id, "u4").await.unwrap();
    std::fs::write(&deep, "somebody's\n").unwrap();
    let refusal = refused(asking.undo(&back.tool_call_id, "u5").await);
    assert_eq!((refusal.code, deep.exists()), (ActionCode::ChangedMeanwhile, true));
    caller.house.close().await;
}

#[tokio::test]
async fn what_wrote_nothing_cannot_be_undone() {
    let ground = Ground::new("");
    let (mut caller, file, _) = edited(&ground).await;
    let read = call_id(&caller.call("Read", json!({"file_path": file})).await);
    let same =
        caller.call("Edit", json!({"file_path": file, "old_string": "two", "new_string": "two"})).await;
    let failed = caller.call("Edit", json!({"file_path": file, "old_string": "x", "new_string": "y"})).await;
    let asking = Asking::of(&caller);
    for action in [read, call_id(&same), call_id(&failed)] {
        let refusal = denied(asking.undo(&action, &format!("u-{action}")).await);
        assert_eq!(refusal.code, ErrorCode::InvalidArgument);
        assert!(refusal.message.contains("changed no file"), "{refusal}");
    }
    let unknown = denied(asking.undo(ToolCallId::mint().as_str(), "u1").await);
    assert!(unknown.message.contains("no action"), "{unknown}");
    let elsewhere = Asking { house: &caller.house, session: format!("ns_{}", "0".repeat(32)) };
    let unknown = denied(elsewhere.undo(ToolCallId::mint().as_str(), "u1").await);
    assert_eq!(unknown.code, ErrorCode::UnknownSession);
    caller.house.close().await;
}

#[tokio::test]
async fn while_an_action_is_under_way_nothing_is_undone() {
    let ground = Ground::new("");
    let (mut caller, file, action) = edited(&ground).await;
    assert!(caller.house.has_launcher, "build the workspace's binaries first");
    let call = caller.authorise(&json!({"argv": ["sleep", "60"]})).await;
    let shim = caller.shim.clone();
    let running = tokio::spawn(async move { shim.invoke(&call).await });
    let session = session_id(&caller.started);
    while caller.house.engine.performing().of(&session).is_empty() {
        tokio::task::yield_now().await;
    }
    let asking = Asking::of(&caller);
    let refusal = denied(asking.undo(&action, "u1").await);
    assert_eq!((refusal.code, refusal.retryable), (ErrorCode::SessionBusy, true));
    assert_eq!(std::fs::read(&file).unwrap(), b"two\r\n");
    caller.house.front().stop(stop_request(&caller.started, "s1")).await.unwrap();
    let _ = running.await.unwrap();
    // Its receipt is there by now: the very same request goes through.
    assert_eq!(asking.undo(&action, "u1").await.unwrap().ok, Some(true));
    assert_eq!(std::fs::read(&file).unwrap(), b"one\r\n");
    caller.house.close().await;
}

#[tokio::test]
async fn sessions_that_have_ended_can_be_undone_and_stay_ended() {
    let ground = Ground::new("");
    let (mut caller, file, first) = edited(&ground).await;
    let second = edit(&mut caller, &file, "two", "three").await;
    ground.clock.advance(LEASE * 2);
    let check = |_: &_, _| Ok(Command::CheckLease);
    caller.house.engine.submit(&session_id(&caller.started), None, check).await.unwrap();
    let session = caller.house.session(&caller.started).await;
    assert_eq!(session.state.status(), Status::LeaseExpired);
    let asking = Asking::of(&caller);
    assert_eq!(asking.undo(&second, "u1").await.unwrap().ok, Some(true));
    let stop = v1::StopSessionRequest {
        native_session_id: asking.session.clone(),
        request_id: "s".into(),
        reason: "over".into(),
    };
    let ending = session.ending.unwrap();
    let gone = Command::RunnerGone { run_id: ending.run_id, epoch: ending.epoch, why: "x".into() };
    caller.house.engine.submit(&session_id(&caller.started), None, |_, _| Ok(gone)).await.unwrap();
    caller.house.operator().stop_session(stop).await.unwrap();
    assert_eq!(asking.undo(&first, "u2").await.unwrap().ok, Some(true));
    assert_eq!(std::fs::read(&file).unwrap(), b"one\r\n");
    assert_eq!(caller.house.session(&caller.started).await.state.status(), Status::Stopped);
    caller.house.close().await;
}

#[tokio::test]
async fn another_directory_in_the_place_of_the_root_is_not_touched() {
    let ground = Ground::new("");
    let (caller, _, action) = edited(&ground).await;
    std::fs::rename(ground.path("project"), ground.path("moved")).unwrap();
    std::fs::create_dir(ground.path("project")).unwrap();
    std::fs::write(ground.path("project/a.txt"), "two\r\n").unwrap();
    let refusal = refused(Asking::of(&caller).undo(&action, "u1").await);
    assert_eq!(refusal.code, ActionCode::OutsideRoot);
    assert_eq!(std::fs::read(ground.path("project/a.txt")).unwrap(), b"two\r\n");
    caller.house.close().await;
}

#[tokio::test]
async fn a_difference_is_shown_whole_and_from_either_side() {
    let ground = Ground::new("");
    let mut caller = Caller::writing(&ground).await;
    let file = ground.path("project/a.txt");
    let long: String = (0..60_000).map(|n| format!("old {n}\n")).collect();
    std::fs::write(&file, &long).unwrap();
    let input = json!({"file_path": file, "old_string": "old", "new_string": "new", "replace_all": true});
    let all = call_id(&caller.call("Edit", input).await);
    let created = create(&mut caller, &ground.path("project/b.txt"), "b\n").await;
    std::fs::write(ground.path("project/binary"), b"\0\xff").unwrap();
    let hash = sha256_hex(b"\0\xff");
    let input =
        json!({"file_path": ground.path("project/binary"), "content": "text\n", "expected_sha256": hash});
    let binary = call_id(&caller.call("Write", input).await);
    let asking = Asking::of(&caller);

    let diff = asking.diff(&all).await.unwrap();
    assert_eq!((diff.lines_added, diff.lines_removed, diff.truncated), (60_000, 60_000, false));
    assert_eq!(diff.diff.unwrap().lines().count(), 120_001);
    let diff = asking.diff(&created).await.unwrap();
    assert_eq!((diff.before, diff.diff.as_deref()), (None, Some("@@ -0,0 +1 @@\n+b\n")));
    let diff = asking.diff(&binary).await.unwrap();
    assert_eq!((diff.diff, diff.before.unwrap().bytes, diff.after.unwrap().bytes), (None, 2, 5));
    assert!(diff.note.unwrap().contains("UTF-8"));
    let undo = asking.undo(&created, "u1").await.unwrap();
    let diff = asking.diff(&undo.tool_call_id).await.unwrap();
    assert_eq!((diff.after, diff.diff.as_deref()), (None, Some("@@ -1 +0,0 @@\n-b\n")));
    let view = asking.action(&created).await.write.unwrap();
    assert!(view.file_path.ends_with("/b.txt") && view.before_sha256.is_none());
    assert_eq!(view.after_sha256.unwrap(), sha256_hex(b"b\n"));
    caller.house.close().await;
}

/// A session whose executor died right after the intent of an undo of an edit was durable, and what the file was then.
async fn left_behind(ground: &Ground, on_disk: &str) -> (House, v1::SessionReply, ToolCallId) {
    let (caller, file, action) = edited(ground).await;
    let found = file.metadata().unwrap();
    let (device, inode) =
        (std::os::unix::fs::MetadataExt::dev(&found), std::os::unix::fs::MetadataExt::ino(&found));
    let temporary = ".gatehouse-toolu_x-0011223344556677.tmp";
    let intent: Intent = serde_json::from_value(json!({
        "path": file.canonicalize().unwrap(),
        "before": {"file": {"sha256": sha256_hex(b"two\r\n"), "bytes": 5, "device": device, "inode": inode}},
        "after": {"file": {"sha256": sha256_hex(b"one\r\n"), "bytes": 5}},
        "temporary": temporary,
        "create_directories": [],
    }))
    .unwrap();
    std::fs::write(file.with_file_name(temporary), "on").unwrap();
    let id = ToolCallId::mint();
    let ask = UndoAsk {
        id: id.clone(),
        request_id: RequestKey::try_from("u1".to_owned()).unwrap(),
        reverts: action.parse().unwrap(),
        intent,
        performing: Vec::new(),
    };
    let begin = move |_: &_, _| Ok(Command::BeginUndo(Claim::Fresh, Box::new(ask)));
    caller.house.engine.submit(&session_id(&caller.started), None, begin).await.unwrap();
    let started = caller.started.clone();
    caller.house.close().await;
    std::fs::write(&file, on_disk).unwrap();
    let house = ground.open();
    house.actions.reconcile().await.unwrap();
    (house, started, id)
}

#[tokio::test]
async fn an_undo_that_a_crash_kept_from_being_made_is_told_so_and_can_be_asked_for_again() {
    let ground = Ground::new("");
    let (house, started, undo) = left_behind(&ground, "two\r\n").await;
    let asking = Asking { house: &house, session: id(&started) };
    let told = receipt(&asking.action(undo.as_str()).await);
    assert_eq!((&told["ok"], &told["code"]), (&json!(false), &json!("cancelled")), "{told}");
    assert_eq!(names(&ground), ["a.txt"], "its temporary file is gone");
    assert_eq!(house.session(&started).await.unreported, [undo]);
    let action = told["undoes"].as_str().unwrap().to_owned();
    assert_eq!(asking.undo(&action, "u2").await.unwrap().ok, Some(true));
    assert_eq!(std::fs::read(ground.path("project/a.txt")).unwrap(), b"one\r\n");
    house.close().await;
}

#[tokio::test]
async fn an_undo_that_was_made_before_a_crash_gets_its_receipt() {
    let ground = Ground::new("");
    let (house, started, undo) = left_behind(&ground, "one\r\n").await;
    let asking = Asking { house: &house, session: id(&started) };
    let told = receipt(&asking.action(undo.as_str()).await);
    assert_eq!((&told["ok"], &told["name"]), (&json!(true), &json!("Undo")), "{told}");
    assert!(told["diff"].as_str().unwrap().contains("-two\n+one"), "{told}");
    assert_eq!(told["after_sha256"], sha256_hex(b"one\r\n"));
    assert!(asking.verify().await.ok);
    house.close().await;
}

#[tokio::test]
async fn an_undo_that_nobody_can_tell_the_end_of_stops_the_session_until_it_is_resolved() {
    let ground = Ground::new("");
    let (house, started, undo) = left_behind(&ground, "three\r\n").await;
    let asking = Asking { house: &house, session: id(&started) };
    assert_eq!(house.session(&started).await.state.status(), Status::RecoveryRequired);
    let view = asking.action(undo.as_str()).await;
    assert_eq!((view.state.as_str(), view.receipt_json), ("uncertain", None));
    let resolved = asking.resolve(undo.as_str(), "r1", v1::Decision::RestoreAfter).await.unwrap();
    assert_eq!(resolved.ok, Some(true), "{resolved:?}");
    assert_eq!(std::fs::read(ground.path("project/a.txt")).unwrap(), b"one\r\n");
    let told = receipt(&asking.action(undo.as_str()).await);
    assert_eq!((&told["ok"], &told["name"]), (&json!(true), &json!("Undo")), "{told}");
    assert_eq!(house.session(&started).await.state.status(), Status::Idle);
    let back = asking.undo(&resolved.tool_call_id, "u9").await.unwrap();
    assert_eq!(back.ok, Some(true), "what was there before the decision is kept");
    assert_eq!(std::fs::read(ground.path("project/a.txt")).unwrap(), b"three\r\n");
    assert!(asking.verify().await.ok);
    house.close().await;
}

#[tokio::test]
async fn the_removal_of_directories_goes_on_after_a_crash() {
    let ground = Ground::new("");
    let mut caller = Caller::writing(&ground).await;
    let deep = ground.path("project/new/er/a.txt");
    let action = create(&mut caller, &deep, "x\n").await;
    let found = deep.metadata().unwrap();
    let (device, inode) =
        (std::os::unix::fs::MetadataExt::dev(&found), std::os::unix::fs::MetadataExt::ino(&found));
    let intent: Intent = serde_json::from_value(json!({
        "path": deep.canonicalize().unwrap(),
        "before": {"file": {"sha256": sha256_hex(b"x\n"), "bytes": 2, "device": device, "inode": inode}},
        "after": "absent",
        "temporary": ".gatehouse-toolu_x-0011223344556677.tmp",
        "create_directories": [],
    }))
    .unwrap();
    let undo = ToolCallId::mint();
    let ask = UndoAsk {
        id: undo.clone(),
        request_id: RequestKey::try_from("u1".to_owned()).unwrap(),
        reverts: action.parse().unwrap(),
        intent,
        performing: Vec::new(),
    };
    let begin = move |_: &_, _| Ok(Command::BeginUndo(Claim::Fresh, Box::new(ask)));
    caller.house.engine.submit(&session_id(&caller.started), None, begin).await.unwrap();
    let session = id(&caller.started);
    caller.house.close().await;
    std::fs::remove_file(&deep).unwrap();
    let house = ground.open();
    house.actions.reconcile().await.unwrap();
    let told = receipt(&Asking { house: &house, session }.action(undo.as_str()).await);
    assert_eq!(told["ok"], true, "{told}");
    assert_eq!(told["removed_directories"].as_array().unwrap().len(), 2, "{told}");
    assert!(names(&ground).is_empty());
    house.close().await;
}
