//! Runs that are ended.

use std::path::Path;

use gatehouse_proto::ids::LinkToken;
use gatehouse_sandbox::process::Signal;

use crate::executor::Executor;
use crate::proxy::{Proxy, send};
use crate::shim::{Setting, wait_gone};

#[tokio::test]
async fn a_signal_to_the_shim_ends_claude_code_and_is_told() {
    let setting = Setting::new();
    let mut shim = setting.start();
    shim.executor.turn(0).await;
    let claude = shim.claude();
    shim.signal(Signal::SIGTERM);
    assert_eq!(shim.executor.failed().await.code, "run_stopped");
    shim.gone().await;
    wait_gone(&claude).await;
    assert_eq!(std::fs::read_dir(&setting.plan.run_dir).unwrap().count(), 0, "no secret is left behind");
}

#[tokio::test]
async fn an_order_in_a_heartbeat_ends_the_run() {
    let mut shim = Setting::new().start();
    shim.executor.turn(0).await;
    let claude = shim.claude();
    shim.executor.with(|ledger| ledger.end_run = true);
    assert_eq!(shim.executor.failed().await.code, "run_stopped");
    shim.gone().await;
    wait_gone(&claude).await;
}

#[tokio::test]
async fn a_closed_turn_ends_the_run() {
    let mut shim = Setting::new().start();
    let turn = shim.executor.turn(0).await;
    let claude = shim.claude();
    shim.executor.close(&turn, "the lease has expired");
    let failed = shim.executor.failed().await;
    assert_eq!((failed.code.as_str(), failed.message.as_str()), ("run_closed", "the lease has expired"));
    shim.gone().await;
    wait_gone(&claude).await;
}

#[tokio::test]
async fn a_link_that_is_no_longer_accepted_ends_the_run() {
    let mut shim = Setting::new().start();
    shim.executor.turn(0).await;
    let claude = shim.claude();
    shim.executor.forget_link();
    shim.gone().await;
    wait_gone(&claude).await;
    shim.executor.with(|ledger| assert!(ledger.ended.is_none()));
}

#[tokio::test]
async fn a_shim_with_a_token_of_nobody_starts_nothing() {
    let setting = Setting::new();
    let executor = Executor::new(&setting.runtime_dir(), &LinkToken::mint().unwrap(), setting.plan.clone());
    let mut shim = setting.start_with(executor, &LinkToken::mint().unwrap().to_hex());
    shim.gone().await;
    shim.executor.with(|ledger| assert_eq!(ledger.attaches, 0));
    assert!(!Path::new(&setting.plan.home_dir).exists());
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_claude_code_with_it() {
    let mut shim = Setting::new().start();
    shim.executor.turn(0).await;
    let claude = shim.claude();
    shim.signal(Signal::SIGKILL);
    shim.gone().await;
    wait_gone(&claude).await;
}

#[tokio::test]
async fn a_request_that_fits_no_turn_is_refused_and_ends_the_run() {
    let proxy = Proxy::start(&[]).await;
    let mut setting = Setting::new();
    setting.relay().through(&proxy);
    let mut shim = setting.start();
    shim.executor.turn(0).await;
    let claude = shim.claude();
    let foreign =
        String::from_utf8(proxy.request(0)).unwrap().replace("[gatehouse run 1]", "[gatehouse run 9]");
    let answer = send(proxy.upstream(), foreign.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("invalid_request_error"), "{answer}");
    let failed = shim.executor.failed().await;
    assert_eq!(failed.code, "claude_protocol");
    shim.executor.with(|ledger| assert_eq!((ledger.no_keys.len(), ledger.turns.len()), (1, 1)));
    shim.gone().await;
    wait_gone(&claude).await;
}
