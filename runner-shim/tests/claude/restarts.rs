//! The executor goes away and comes back, or does not.

use serde_json::json;

use crate::shim::{Setting, wait_gone};

#[tokio::test]
async fn a_pending_turn_outlives_a_restart_of_the_executor() {
    let shim = Setting::new().start();
    let turn = shim.executor.turn(0).await;
    let claude = shim.claude();
    for _ in 0..2 {
        let before = shim.executor.with(|ledger| ledger.attaches);
        shim.executor.stop();
        shim.executor.start();
        shim.executor.until("the shim is back", |ledger| (ledger.attaches > before).then_some(())).await;
    }
    let ids = shim.executor.reply(&turn, "still here", &[("Read", json!({}))]);
    let next = shim.executor.turn(1).await;
    assert_eq!(next.name.1, ids.into_iter().collect());
    assert_eq!(shim.claude(), claude);
    shim.executor.reply(&next, "done", &[]);
    assert_eq!(shim.executor.finished().await.result_text, "done");
}

#[tokio::test]
async fn a_reply_that_was_committed_while_the_shim_was_not_heard_reaches_it() {
    let shim = Setting::new().start();
    let turn = shim.executor.turn(0).await;
    shim.executor.stop();
    shim.executor.reply(&turn, "committed", &[]);
    shim.executor.start();
    assert_eq!(shim.executor.finished().await.result_text, "committed");
}

#[tokio::test]
async fn a_call_in_progress_outlives_a_restart_and_is_performed_once() {
    let shim = Setting::new().start();
    shim.executor.slow_down("Slow", 4);
    let turn = shim.executor.turn(0).await;
    let ids = shim.executor.reply(&turn, "", &[("Slow", json!({"a": [1]}))]);
    shim.executor.until("the call", |ledger| (ledger.effects_of(&ids[0]) == 1).then_some(())).await;
    shim.executor.stop();
    shim.executor.start();
    let next = shim.executor.turn(1).await;
    assert_eq!(next.seen[0].text, format!("result of {}", ids[0]));
    assert_eq!(shim.executor.effects(&ids[0]), 1);
    shim.executor.reply(&next, "done", &[]);
    shim.executor.finished().await;
}

#[tokio::test]
async fn a_long_call_is_kept_alive() {
    let shim = Setting::new().start();
    shim.executor.slow_down("Slow", 35);
    let turn = shim.executor.turn(0).await;
    let ids = shim.executor.reply(&turn, "", &[("Slow", json!({}))]);
    let next = shim.executor.turn(1).await;
    assert_eq!(next.seen[0].text, format!("result of {}", ids[0]));
    shim.executor.reply(&next, "done", &[]);
    assert!(!shim.executor.finished().await.is_error);
}

#[tokio::test]
async fn the_end_of_a_run_is_told_until_it_is_heard() {
    let shim = Setting::new().start();
    let turn = shim.executor.turn(0).await;
    shim.executor.with(|ledger| ledger.deaf_to_ends = 3);
    shim.executor.reply(&turn, "last words", &[]);
    shim.executor.until("a lost end", |ledger| (ledger.deaf_to_ends < 3).then_some(())).await;
    shim.executor.stop();
    shim.executor.start();
    assert_eq!(shim.executor.finished().await.exit_code, 0);
}

#[tokio::test]
async fn an_executor_that_stays_away_for_longer_than_the_lease_ends_the_run() {
    let mut shim = Setting::new().start();
    shim.executor.turn(0).await;
    shim.executor.with(|ledger| ledger.lease_seconds = 1);
    let claude = shim.claude();
    let heard = shim.executor.with(|ledger| ledger.heartbeats);
    shim.executor.until("a heartbeat", |ledger| (ledger.heartbeats > heard).then_some(())).await;
    shim.executor.stop();
    shim.gone().await;
    wait_gone(&claude).await;
}
