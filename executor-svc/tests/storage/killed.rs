//! The executor killed while many write: every acknowledged commit is there afterwards.

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

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_however_the_executor_ends() {
    let ground = Ground::with("live_sessions = 1000");
    let mut all: Vec<Told> = Vec::new();
    for round in 0..rounds() {
        let running = Arc::new(ground.start().await);
        let (told, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..8 {
            let (running, told, over) = (running.clone(), told.clone(), over.clone());
            callers.spawn(async move {
                let mut front = running.front();
                for number in 0.. {
                    let key = format!("r{round}-c{caller}-n{number}");
                    let Ok(begun) = front.start(running.start_request(&key)).await else { break };
                    let reply = begun.into_inner();
                    told.lock().unwrap().push(Told {
                        key: key.clone(),
                        reply: reply.clone(),
                        stopped: false,
                    });
                    let stop = v1::StopRequest {
                        native_session_id: id(&reply),
                        lease_id: reply.lease_id.clone(),
                        request_id: format!("stop-{key}"),
                        reason: None,
                    };
                    if front.stop(stop).await.is_err() {
                        break;
                    }
                    told.lock()
                        .unwrap()
                        .iter_mut()
                        .filter(|told| told.key == key)
                        .for_each(|told| told.stopped = true);
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        // In the midst of it, at another place each round.
        let wanted = usize::try_from(10 + 7 * round).unwrap();
        until("enough was acknowledged", async || (told.lock().unwrap().len() > wanted).then_some(())).await;
        tokio::time::sleep(Duration::from_micros(311 * (round % 13))).await;
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(running.pid().try_into().unwrap()),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
        over.store(true, Ordering::Relaxed);
        callers.join_all().await;
        Arc::into_inner(running).unwrap().kill();
        all.append(&mut told.lock().unwrap());

        let running = ground.start().await;
        let mut listed = std::collections::HashSet::new();
        let mut after = None;
        loop {
            let ask = v1::ListSessionsRequest { live_only: false, limit: 1000, after };
            let page = running.operator().list_sessions(ask).await.unwrap().into_inner();
            listed.extend(
                page.sessions
                    .into_iter()
                    .map(|session| (session.native_session_id.clone(), session.status())),
            );
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        for Told { key, reply, stopped } in &all {
            let found = listed.iter().find(|(session, _)| *session == id(reply));
            let status = found.unwrap_or_else(|| panic!("{key} was acknowledged and is gone")).1;
            assert!(!stopped || status == v1::SessionStatus::Stopped, "{key} was stopped, and is {status:?}");
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
