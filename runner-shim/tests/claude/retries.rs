//! Whatever Claude Code repeats, and however: one turn, one reply.

use serde_json::json;

use crate::proxy::{Cut, Proxy, send};
use crate::shim::{Setting, Shim};

async fn started(cuts: &[Cut], change: impl FnOnce(&mut Setting)) -> (Shim, Proxy) {
    let proxy = Proxy::start(cuts).await;
    let mut setting = Setting::new();
    setting.relay().through(&proxy);
    change(&mut setting);
    (setting.start(), proxy)
}

/// Waits for that many questions for a turn, then goes through a call to the end, and checks what was opened.
async fn goes_on_after(shim: &Shim, asked: usize) {
    let first = shim.executor.turn(0).await;
    shim.executor.until("the repeated request", |ledger| (ledger.opens >= asked).then_some(())).await;
    let ids = shim.executor.reply(&first, "once", &[("Read", json!({"a": 1})), ("Slow", json!({}))]);
    let second = shim.executor.turn(1).await;
    assert_eq!(second.name.1, ids.iter().cloned().collect());
    for id in &ids {
        assert_eq!(shim.executor.effects(id), 1, "{:?}", second.seen);
    }
    shim.executor.reply(&second, "done", &[]);
    assert_eq!(shim.executor.finished().await.result_text, "done");
    shim.executor.with(|ledger| assert_eq!(ledger.turns.len(), 2));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_joins_the_same_turn() {
    let (shim, proxy) = started(&[Cut::BeforeAnswer], |_| {}).await;
    goes_on_after(&shim, 2).await;
    assert_eq!(proxy.bodies().len(), 3);
}

#[tokio::test]
async fn a_stream_that_breaks_after_its_start_joins_the_same_turn() {
    let (shim, proxy) = started(&[Cut::AfterStart], |_| {}).await;
    goes_on_after(&shim, 2).await;
    assert_eq!(forms(&proxy)[..2], [true, true]);
}

#[tokio::test]
async fn a_stream_that_ends_after_its_start_is_asked_again_as_one_message_and_gets_one() {
    let (shim, proxy) = started(&[Cut::EndAfterStart], |_| {}).await;
    goes_on_after(&shim, 2).await;
    assert_eq!(forms(&proxy)[..2], [true, false]);
}

/// Which of the requests asked for a stream.
fn forms(proxy: &Proxy) -> Vec<bool> {
    proxy.bodies().iter().map(|body| body["stream"] == true).collect()
}

#[tokio::test]
async fn a_watchdog_that_fires_while_chatgpt_thinks_opens_no_second_turn() {
    // The watchdog over events cannot be set below 300 s, the one over bytes to no less than 10 s.
    let proxy = Proxy::start(&[]).await;
    let mut setting = Setting::new();
    let relay = setting.relay();
    relay.through(&proxy);
    for (name, value) in
        [("CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS", "10000"), ("CLAUDE_ENABLE_BYTE_WATCHDOG", "1")]
    {
        relay.environment.insert(name.to_owned(), value.to_owned());
    }
    setting.plan.ping_seconds = 60;
    let shim = setting.start();
    goes_on_after(&shim, 2).await;
    assert!(proxy.bodies().len() >= 3);
}

#[tokio::test]
async fn copies_of_a_request_at_once_and_later_and_on_another_day_get_the_same_reply() {
    let (shim, proxy) = started(&[], |_| {}).await;
    let turn = shim.executor.turn(0).await;
    let request = proxy.request(0);
    let date = today(&request);
    let other_day = String::from_utf8(request.clone()).unwrap().replace(&date, "2031-01-02").into_bytes();
    let port = proxy.upstream();
    let copies = [request.clone(), request.clone(), other_day]
        .map(|copy| tokio::spawn(async move { send(port, &copy).await }));
    shim.executor.until("the copies", |ledger| (ledger.opens >= 4).then_some(())).await;
    let ids = shim.executor.reply(&turn, "one", &[("Read", json!({"x": "y"}))]);
    shim.executor.turn(1).await;

    let late = send(port, &request).await;
    let mut answers = vec![late];
    for copy in copies {
        answers.push(copy.await.unwrap());
    }
    for answer in answers {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(&ids[0]) && answer.contains("message_stop"), "{answer}");
    }
    assert_eq!(shim.executor.effects(&ids[0]), 1);
    shim.executor.with(|ledger| assert_eq!(ledger.turns.len(), 2));
}

/// The date that Claude Code put into a request.
fn today(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    let at = text.find("date is ").expect("a date") + "date is ".len();
    text[at..at + 10].to_owned()
}
