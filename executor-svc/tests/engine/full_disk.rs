//! A ledger that cannot be written: nothing is acknowledged, nothing is lost, and who only looks is answered.

use std::time::Duration;

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::SessionStatus;
use rusqlite::Connection;
use serde_json::json;

use super::caller::Caller;
use super::house::*;

#[tokio::test]
async fn while_nothing_can_be_written_status_answers_and_afterwards_the_same_ids_go_through() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, shim, turn) = house.waiting("start-key-0123456789").await;
    let ledger = Connection::open(ground.path("state/ledger.db")).unwrap();
    // As SQLite itself does when the disk is full: the whole transaction goes, not the statement alone.
    let full = "BEGIN SELECT RAISE (ROLLBACK, 'database or disk is full'); END";
    ledger
        .execute_batch(&format!(
            "CREATE TRIGGER full_1 BEFORE UPDATE ON session {full};
             CREATE TRIGGER full_2 BEFORE INSERT ON session {full};"
        ))
        .unwrap();
    // Long enough for a look to be worth a renewal.
    ground.clock.advance(Duration::from_secs(600));

    let seen = house.status(&started).await.unwrap();
    assert_eq!(shown(&seen), SessionStatus::WaitingForGpt);
    assert_eq!(
        seen.lease_expires_at_ms, started.lease_expires_at_ms,
        "what could not be written is not told"
    );
    let reply = reply_request(&started, &turn, "r", "Done.");
    for _ in 0..3 {
        let refused = house.front().reply_and_wait(reply.clone()).await.unwrap_err();
        let refused = Refusal::from_status(&refused).unwrap();
        assert!(refused.code == ErrorCode::Internal && refused.retryable, "{refused:?}");
    }
    let other = house.start_request("other-key-0123456789");
    assert_eq!(code(house.front().start(other.clone()).await), ErrorCode::Internal);

    ledger.execute_batch("DROP TRIGGER full_1; DROP TRIGGER full_2;").unwrap();
    assert!(!house.front().reply_and_wait(reply).await.unwrap().into_inner().replay, "it was never taken");
    assert!(!house.front().start(other).await.unwrap().into_inner().replay);
    shim.finish().await;
    assert_eq!(shown(&house.status(&started).await.unwrap()), SessionStatus::Idle);
    house.close().await;
}

#[tokio::test]
async fn a_write_whose_contents_cannot_be_recorded_is_not_made_and_goes_through_afterwards() {
    let ground = Ground::new("");
    let mut caller = Caller::writing(&ground).await;
    let file = ground.path("project/a.txt");
    std::fs::write(&file, "one\n").unwrap();
    let input = json!({"file_path": file, "old_string": "one", "new_string": "two"});
    let call = caller.authorise_tool("Edit", &input).await;
    let ledger = Connection::open(ground.path("state/ledger.db")).unwrap();
    let full = "SELECT RAISE (ROLLBACK, 'database or disk is full')";
    ledger.execute_batch(&format!("CREATE TRIGGER full BEFORE INSERT ON content BEGIN {full}; END")).unwrap();

    let refused = caller.shim.invoke(&call).await.unwrap_err();
    assert_eq!(Refusal::from_status(&refused).unwrap().code, ErrorCode::Internal);
    let intent: Option<String> = ledger
        .query_row("SELECT intent FROM action WHERE state = 'authorised'", [], |row| row.get(0))
        .unwrap();
    assert_eq!((intent, std::fs::read_to_string(&file).unwrap().as_str()), (None, "one\n"));
    assert_eq!(std::fs::read_dir(ground.path("project")).unwrap().count(), 1, "nothing else is there");

    ledger.execute_batch("DROP TRIGGER full").unwrap();
    assert!(caller.shim.invoke(&call).await.unwrap().ok);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
    assert_eq!(caller.house.count("content").await, 2);
    caller.house.close().await;
}
