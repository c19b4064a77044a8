//! Removing what sessions left that ended long ago, and finding what is missing without that.

use std::path::PathBuf;
use std::time::Duration;

use executor_svc::ledger::journal;
use gatehouse_proto::codes::{ActionCode, ErrorCode};
use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::v1;
use serde_json::{Value, json};

use super::asking::*;
use super::caller::Caller;
use super::house::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Starts a session below a directory of its own, has it make a file of each of these contents, and ends its run.
async fn session(
    house: House,
    ground: &Ground,
    name: &str,
    contents: &[&str],
) -> (House, String, Vec<String>) {
    let directory = ground.path("project").join(name);
    std::fs::create_dir(&directory).unwrap();
    let mut ask = house.start_request(&format!("start-key-{name:-<20}"));
    ask.working_directory = directory.display().to_string();
    ask.set_capability_profile(v1::CapabilityProfile::DirectWrite);
    let mut caller = Caller::started(house, ask).await;
    let mut actions = Vec::new();
    for (number, content) in contents.iter().enumerate() {
        let file = directory.join(number.to_string());
        let input = json!({"file_path": file, "content": content, "create_only": true});
        actions.push(call_id(&caller.call("Write", input).await));
    }
    let id = id(&caller.started);
    (caller.house, id, actions)
}

async fn stop(house: &House, session: &str) {
    let id = session.to_owned().try_into().unwrap();
    let stop = v1::StopSessionRequest {
        native_session_id: session.into(),
        request_id: "s".into(),
        reason: String::new(),
    };
    let mut operator = house.operator();
    let asked = tokio::spawn(async move { operator.stop_session(stop).await });
    let ending = house.engine.wait_until(&id, DAY, |s| s.ending.is_some()).await.unwrap().ending.unwrap();
    let gone = executor_svc::session::Command::RunnerGone {
        run_id: ending.run_id,
        epoch: ending.epoch,
        why: "x".into(),
    };
    house.engine.submit(&id, None, |_, _| Ok(gone)).await.unwrap();
    asked.await.unwrap().unwrap();
}

async fn prune(house: &House, older_than: Duration, dry_run: bool) -> Vec<v1::PruneProgress> {
    let ask = v1::PruneRequest { older_than_seconds: older_than.as_secs(), dry_run };
    let mut stream = house.operator().prune(ask).await.unwrap().into_inner();
    let mut all = Vec::new();
    while let Some(step) = stream.message().await.unwrap() {
        all.push(step);
    }
    assert!(all.last().is_some_and(|last| last.done) && all.iter().filter(|step| step.done).count() == 1);
    all
}

fn removed(steps: &[v1::PruneProgress]) -> (u64, u64, u64) {
    let last = steps.last().unwrap();
    (last.sessions, last.contents_removed, last.bytes_removed)
}

/// Whether a small content is in the ledger.
fn kept(ground: &Ground, content: &str) -> bool {
    let ledger = rusqlite::Connection::open(ground.path("state/ledger.db")).unwrap();
    let hash = hex::decode(sha256_hex(content.as_bytes())).unwrap();
    let mut statement = ledger.prepare("SELECT bytes FROM content WHERE sha256 = ?1").unwrap();
    let found: Vec<Vec<u8>> =
        statement.query_map([hash], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    found.iter().for_each(|bytes| assert_eq!(bytes, content.as_bytes()));
    !found.is_empty()
}

/// Where a large content stands, or a small one that an older Gatehouse kept.
fn kept_file(ground: &Ground, content: &str) -> Option<PathBuf> {
    let hash = sha256_hex(content.as_bytes());
    let path = ground.path("state/content").join(&hash[..2]).join(&hash);
    path.exists().then_some(path)
}

async fn entries(house: &House, kind: &'static str) -> Vec<(String, Value)> {
    let all = house.engine.read(|connection| journal::entries(connection, 1, None, 10_000)).await.unwrap();
    let of_kind = all.into_iter().filter(|entry| entry.kind == kind);
    of_kind.map(|entry| (entry.session_id, serde_json::from_str(&entry.body).unwrap())).collect()
}

#[tokio::test]
async fn only_contents_that_nobody_else_names_go_and_the_journal_says_so() {
    let ground = Ground::new("");
    let (house, old, actions) = session(ground.open(), &ground, "old", &["only old\n", "both\n"]).await;
    let (house, live, _) = session(house, &ground, "live", &["both\n", "only live\n"]).await;
    stop(&house, &old).await;
    let asking = Asking { house: &house, session: old.clone() };
    ground.clock.advance(DAY * 9);
    assert_eq!(removed(&prune(&house, DAY * 10, false).await), (0, 0, 0), "it ended too lately");
    ground.clock.advance(DAY * 2);
    assert_eq!(removed(&prune(&house, DAY * 10, true).await), (1, 1, 9), "a dry run only tells");
    assert!(kept(&ground, "only old\n") && entries(&house, "store.pruned").await.is_empty());

    let undone = asking.undo(&actions[0], "u1").await.unwrap();
    assert_eq!(removed(&prune(&house, DAY * 10, false).await), (0, 0, 0), "it was worked on lately");
    asking.undo(&undone.tool_call_id, "u2").await.unwrap();
    ground.clock.advance(DAY * 11);
    let steps = prune(&house, DAY * 10, false).await;
    assert_eq!((removed(&steps), steps.len()), ((1, 1, 9), 2));
    assert!(!kept(&ground, "only old\n"));
    assert!(kept(&ground, "both\n") && kept(&ground, "only live\n"));
    let told = entries(&house, "store.pruned").await;
    assert_eq!((told.len(), &told[0].1["contents"], &told[0].1["sessions"]), (1, &json!(1), &json!(1)));
    let told = entries(&house, "session.pruned").await;
    assert_eq!(told, [(old.clone(), json!({"contents": 1, "bytes": 9}))]);

    let refusal = refused(asking.diff(&actions[0]).await);
    assert_eq!(refusal.code, ActionCode::NotFound);
    assert!(refusal.what_to_do.contains("pruned"), "{refusal:?}");
    let verified = asking.verify().await;
    assert_eq!((verified.ok, verified.contents_pruned, verified.contents), (true, 1, 2), "{verified:?}");
    assert_eq!(removed(&prune(&house, DAY * 10, false).await), (0, 0, 0), "there is nothing left to do");
    assert_ne!(live, old);
    house.close().await;
}

#[tokio::test]
async fn sessions_whose_lease_ran_out_long_ago_are_pruned_too() {
    let ground = Ground::new("");
    let (house, expired, _) = session(ground.open(), &ground, "expired", &["expired\n"]).await;
    ground.clock.advance(LEASE * 2);
    let session_of = expired.clone().try_into().unwrap();
    let check = |_: &_, _| Ok(executor_svc::session::Command::CheckLease);
    house.engine.submit(&session_of, None, check).await.unwrap();
    ground.clock.advance(DAY * 11);
    let after = house.engine.load(&session_of).unwrap();
    assert_eq!(after.state.status(), executor_svc::session::Status::LeaseExpired);
    assert_eq!(removed(&prune(&house, DAY * 10, false).await), (1, 1, 8));
    house.close().await;
}

#[tokio::test]
async fn what_a_crash_left_unnamed_goes_too() {
    let ground = Ground::new("");
    let content = executor_svc::content::ContentStore::open(&ground.path("state/content"), 1 << 30).unwrap();
    drop(content.put(b"never named").unwrap());
    let house = ground.open();
    assert_eq!(removed(&prune(&house, DAY, false).await), (0, 1, 11));
    assert!(kept_file(&ground, "never named").is_none());
    house.close().await;
}

#[tokio::test]
async fn a_content_goes_wherever_it_is_kept() {
    let ground = Ground::new("");
    let large = "large\n".repeat(20_000);
    let (house, old, actions) = session(ground.open(), &ground, "old", &[&large, "small\n"]).await;
    assert!(kept_file(&ground, &large).is_some() && !kept(&ground, &large));
    assert!(kept_file(&ground, "small\n").is_none() && kept(&ground, "small\n"));
    // An older Gatehouse kept small ones as files too.
    let content = executor_svc::content::ContentStore::open(&ground.path("state/content"), 1 << 30).unwrap();
    drop(content.put(b"small\n").unwrap());
    let asking = Asking { house: &house, session: old.clone() };
    assert!(asking.diff(&actions[0]).await.unwrap().after.is_some());
    let verified = asking.verify().await;
    assert_eq!((verified.ok, verified.contents), (true, 2), "{verified:?}");
    stop(&house, &old).await;
    ground.clock.advance(DAY * 11);
    let bytes = large.len() as u64 + 6;
    assert_eq!(removed(&prune(&house, DAY * 10, false).await), (1, 2, bytes));
    assert!(kept_file(&ground, &large).is_none() && kept_file(&ground, "small\n").is_none());
    assert!(!kept(&ground, "small\n"));
    house.close().await;
}

#[tokio::test]
async fn much_is_removed_step_by_step() {
    let ground = Ground::new("");
    let content = executor_svc::content::ContentStore::open(&ground.path("state/content"), 1 << 30).unwrap();
    let bytes: Vec<Vec<u8>> = (0..200_u32).map(|n| n.to_be_bytes().to_vec()).collect();
    for some in bytes.chunks(25) {
        let some: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
        drop(content.put_all(&some).unwrap());
    }
    let house = ground.open();
    let steps = prune(&house, DAY, false).await;
    let seen: Vec<_> = steps.iter().map(|step| step.contents_seen).collect();
    assert_eq!(seen, [0, 64, 128, 192, 200]);
    assert_eq!(removed(&steps), (0, 200, 800));
    house.close().await;
}

#[tokio::test]
async fn a_content_that_is_missing_or_changed_is_found() {
    let ground = Ground::new("");
    let (house, session, actions) = session(ground.open(), &ground, "one", &["a\n", "b\n", "c\n"]).await;
    let asking = Asking { house: &house, session };
    let verified = asking.verify().await;
    assert_eq!((verified.ok, verified.contents, verified.content_faults), (true, 3, 0));
    let ledger = rusqlite::Connection::open(ground.path("state/ledger.db")).unwrap();
    for (sql, content) in [
        ("DELETE FROM content WHERE sha256 = ?1", "a\n"),
        ("UPDATE content SET bytes = x'780a' WHERE sha256 = ?1", "b\n"),
    ] {
        let hash = hex::decode(sha256_hex(content.as_bytes())).unwrap();
        assert_eq!(ledger.execute(sql, [hash]).unwrap(), 1);
    }
    drop(ledger);
    let verified = asking.verify().await;
    assert_eq!((verified.ok, verified.broken_at_seq, verified.content_faults), (false, None, 2));
    let told = verified.content_problems.join("\n");
    assert!(told.contains(&actions[0]) && told.contains(&actions[1]) && told.contains("damaged"), "{told}");
    assert_eq!(refused(asking.diff(&actions[1]).await).code, ActionCode::NotFound);
    house.close().await;

    let ledger = rusqlite::Connection::open(ground.path("state/ledger.db")).unwrap();
    ledger
        .execute("UPDATE action SET receipt = replace(receipt, 'lines_added\":1', 'lines_added\":2')", [])
        .unwrap();
    drop(ledger);
    let house = ground.open();
    let asking = Asking { house: &house, session: String::new() };
    assert_eq!(asking.verify().await.content_faults, 5, "three receipts are not what was recorded");
    house.close().await;
}

#[tokio::test]
async fn two_prunings_do_not_run_at_the_same_time() {
    let ground = Ground::new("");
    let house = ground.open();
    let (steps, mut told) = tokio::sync::mpsc::channel(1);
    let content = executor_svc::content::ContentStore::open(&ground.path("state/content"), 1 << 30).unwrap();
    for n in 0..200_u32 {
        drop(content.put(&n.to_be_bytes()).unwrap());
    }
    let ask =
        executor_svc::action::PruneAsk { older_than: DAY, mode: executor_svc::action::PruneMode::Remove };
    let actions = house.actions.clone();
    let first = tokio::spawn(async move { actions.prune(ask, steps).await });
    told.recv().await.unwrap();
    let second = house.operator().prune(v1::PruneRequest { older_than_seconds: 1, dry_run: false }).await;
    let second = second.unwrap().into_inner().message().await;
    assert_eq!(denied(second).code, ErrorCode::SessionBusy);
    drop(told);
    let first = first.await.unwrap().unwrap();
    assert!(first.removed < 200, "it ends when nobody listens any more: {first:?}");
    house.close().await;
}
