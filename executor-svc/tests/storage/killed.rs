//! The executor killed while many write: every acknowledged commit is there afterwards.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatehouse_proto::v1;

use super::world::*;

/// How often it is killed; `KILLS` asks for more.
fn rounds() -> u64 {
    std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// What somebody was told.
#[derive(Debug, Clone)]
struct Told {
    key: String,
    reply: v1::SessionReply,
    stopped: bool,
}

/// What callers were told, and whether they are to come to an end.
#[derive(Debug, Default)]
struct Book {
    told: Mutex<Vec<Told>>,
    over: AtomicBool,
}

impl Book {
    fn begun(&self, key: &str, reply: &v1::SessionReply) {
        let told = Told { key: key.to_owned(), reply: reply.clone(), stopped: false };
        self.told.lock().unwrap().push(told);
    }

    fn stopped(&self, key: &str) {
        let mut told = self.told.lock().unwrap();
        told.iter_mut().filter(|told| told.key == key).for_each(|told| told.stopped = true);
    }
}

/// Starts and stops sessions until the executor is gone, or it is over.
async fn call(running: Arc<Running>, book: Arc<Book>, name: String) {
    let mut front = running.front();
    for number in 0.. {
        let key = format!("{name}-n{number}");
        let Ok(begun) = front.start(running.start_request(&key)).await else { break };
        let reply = begun.into_inner();
        book.begun(&key, &reply);
        let stop = v1::StopRequest {
            native_session_id: id(&reply),
            lease_id: reply.lease_id.clone(),
            request_id: format!("stop-{key}"),
            reason: None,
        };
        if front.stop(stop).await.is_err() {
            break;
        }
        book.stopped(&key);
        if book.over.load(Ordering::Relaxed) {
            break;
        }
    }
}

/// Kills an executor in the midst of its work, at another place each round; gives what was acknowledged.
async fn kill_under_load(running: Running, round: u64) -> Vec<Told> {
    let (running, book) = (Arc::new(running), Arc::new(Book::default()));
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        callers.spawn(call(running.clone(), book.clone(), format!("r{round}-c{caller}")));
    }
    let wanted = usize::try_from(10 + 7 * round).unwrap();
    until("enough was acknowledged", async || (book.told.lock().unwrap().len() > wanted).then_some(())).await;
    tokio::time::sleep(Duration::from_micros(311 * (round % 13))).await;
    let pid = nix::unistd::Pid::from_raw(running.pid().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    book.over.store(true, Ordering::Relaxed);
    callers.join_all().await;
    Arc::into_inner(running).unwrap().kill();
    std::mem::take(&mut *book.told.lock().unwrap())
}

/// Every session that the ledger has.
async fn listed(running: &Running) -> HashMap<String, v1::SessionStatus> {
    let (mut all, mut after) = (HashMap::new(), None);
    loop {
        let ask = v1::ListSessionsRequest { live_only: false, limit: 1000, after };
        let page = running.operator().list_sessions(ask).await.unwrap().into_inner();
        all.extend(page.sessions.iter().map(|session| (session.native_session_id.clone(), session.status())));
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_however_the_executor_ends() {
    let ground = Ground::with("live_sessions = 1000");
    let mut all: Vec<Told> = Vec::new();
    for round in 0..rounds() {
        all.append(&mut kill_under_load(ground.start().await, round).await);
        let running = ground.start().await;
        let listed = listed(&running).await;
        for Told { key, reply, stopped } in &all {
            let status =
                listed.get(&id(reply)).unwrap_or_else(|| panic!("{key} was acknowledged and is gone"));
            assert!(
                !stopped || *status == v1::SessionStatus::Stopped,
                "{key} was stopped, and is {status:?}"
            );
        }
        let again = all.last().unwrap();
        let replayed = running.begin(&again.key).await.unwrap();
        assert!(replayed.replay && id(&replayed) == id(&again.reply), "the same call is the same session");
        let verified = running.verified().await;
        assert!(verified.ok, "{verified:?}");
        running.kill();
    }
    // And as it lies there, after one more kill, without an executor.
    let found = ground.verify();
    assert_eq!(found["ok"], true, "{found}");
}
