//! Writes that an executor left behind, at each place where it can have died.

use executor_svc::files::replace::Intent;
use executor_svc::ledger::actions;
use executor_svc::session::{Command, Status};
use gatehouse_proto::digest::sha256_hex;

use super::*;

/// A session whose executor died right after the intent of an edit was durable, and what the file was then.
async fn left_behind(ground: &Ground, on_disk: &str) -> (House, gatehouse_proto::v1::SessionReply, Value) {
    let mut caller = Caller::writing(ground).await;
    let file = ground.path("project/a.txt");
    std::fs::write(&file, "one\n").unwrap();
    let call = caller
        .authorise_tool("Edit", &json!({"file_path": file, "old_string": "one", "new_string": "two"}))
        .await;
    let content = executor_svc::content::ContentStore::open(&ground.path("state/content"), 1 << 30).unwrap();
    content.put_all(&[b"one\n", b"two\n"]).unwrap();
    let found = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
    let device = std::os::unix::fs::MetadataExt::dev(&file.metadata().unwrap());
    let intent: Intent = serde_json::from_value(json!({
        "path": file.canonicalize().unwrap(),
        "before": {"file": {"sha256": sha256_hex(b"one\n"), "bytes": 4, "device": device, "inode": found}},
        "after": {"file": {"sha256": sha256_hex(b"two\n"), "bytes": 4}},
        "temporary": ".gatehouse-toolu_x-0011223344556677.tmp",
        "create_directories": [],
    }))
    .unwrap();
    std::fs::write(file.with_file_name(".gatehouse-toolu_x-0011223344556677.tmp"), "tw").unwrap();
    let session = session_id(&caller.started);
    let (id, boxed) = (call.id.clone(), Some(Box::new(intent)));
    let prepare = move |_: &_, _| Ok(Command::Prepare { id, intent: boxed });
    caller.house.engine.submit(&session, None, prepare).await.unwrap();
    let started = caller.started.clone();
    caller.house.close().await;
    std::fs::write(&file, on_disk).unwrap();

    let house = ground.open();
    house.actions.reconcile().await.unwrap();
    let id = call.id.clone();
    let row = house.engine.read(move |connection| actions::load(connection, &id)).await.unwrap().unwrap();
    let receipt = row.receipt.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
    (house, started, receipt)
}

fn nothing_else_is_left(ground: &Ground) {
    let names: Vec<_> =
        std::fs::read_dir(ground.path("project")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["a.txt"]);
}

#[tokio::test]
async fn a_write_that_was_not_made_is_told_so_and_its_temporary_file_removed() {
    let ground = Ground::new("");
    let (house, _, receipt) = left_behind(&ground, "one\n").await;
    assert_eq!((code(&receipt), &receipt["ok"]), (Some("cancelled"), &json!(false)), "{receipt}");
    assert_eq!(std::fs::read(ground.path("project/a.txt")).unwrap(), b"one\n", "it is not made blindly");
    nothing_else_is_left(&ground);
    house.close().await;
}

#[tokio::test]
async fn a_write_that_was_made_gets_the_receipt_that_it_would_have_had() {
    let ground = Ground::new("");
    let (house, _, receipt) = left_behind(&ground, "two\n").await;
    assert_eq!((&receipt["ok"], &receipt["replacements"]), (&json!(true), &json!(1)), "{receipt}");
    assert_eq!(receipt["after_sha256"], sha256(&ground.path("project/a.txt")));
    assert!(receipt["diff"].as_str().unwrap().contains("-one\n+two"), "{receipt}");
    house.close().await;
}

#[tokio::test]
async fn a_file_that_is_neither_stops_the_session_until_a_person_decides() {
    let ground = Ground::new("");
    let (house, started, receipt) = left_behind(&ground, "three\n").await;
    assert!(receipt.is_null(), "{receipt}");
    let session = house.session(&started).await;
    assert_eq!(session.state.status(), Status::RecoveryRequired);
    assert_eq!(std::fs::read(ground.path("project/a.txt")).unwrap(), b"three\n");
    let refused = house.front().r#continue(continue_request(&started, "c1")).await;
    assert_eq!(super::super::house::code(refused), gatehouse_proto::codes::ErrorCode::RecoveryBlocked);
    house.close().await;
}
