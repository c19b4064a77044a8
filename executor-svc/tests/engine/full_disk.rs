//! A ledger that cannot be written: nothing is acknowledged, nothing is lost, and who only looks is answered.

use std::time::Duration;

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::SessionStatus;
use rusqlite::Connection;

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
