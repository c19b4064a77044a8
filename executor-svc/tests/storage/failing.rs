//! What keeps the ledger from being written is told as what it is; reads go on; nothing acknowledged is lost; and when
//! the cause is gone, work goes on without a restart.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::SessionReply;
use rusqlite::Connection;

use super::world::*;

/// The refusal of a ledger in this trouble.
#[track_caller]
fn assert_trouble(refused: &Refusal, word: &str) {
    assert_eq!(
        (refused.code, refused.details["ledger"].as_str()),
        (ErrorCode::Internal, Some(word)),
        "{refused:?}"
    );
    assert!(refused.retryable && !refused.what_to_do.is_empty(), "{refused:?}");
}

/// What holds while nothing can be written.
async fn assert_reads_go_on(running: &Running, word: &str, kept: &[SessionReply]) {
    for one in kept {
        let seen = running.status(one).await.unwrap();
        assert_eq!((id(&seen), &seen.lease_id), (id(one), &one.lease_id));
    }
    let mut listed = running.listed().await;
    let mut wanted: Vec<_> = kept.iter().map(id).collect();
    listed.sort();
    wanted.sort();
    assert_eq!(listed, wanted, "the operator sees what is there");
    let health = running.health().await;
    assert_eq!(health.ledger_trouble.as_deref(), Some(word));
    assert!(health.ledger_message.is_some() && health.what_to_do.is_some(), "{health:?}");
    assert_trouble(&running.ready().await.unwrap_err(), word);
}

/// Begins sessions until one is refused; gives its key, and why.
async fn until_refused(running: &Running, kept: &mut Vec<SessionReply>) -> Option<(String, Refusal)> {
    for number in 0..900 {
        let key = format!("while-{number}");
        match running.begin(&key).await {
            Ok(begun) => kept.push(begun),
            Err(refusal) => return Some((key, refusal)),
        }
    }
    None
}

/// What holds after the next start.
async fn assert_all_there(running: &Running, kept: &[SessionReply]) {
    for one in kept {
        running.status(one).await.unwrap();
    }
    let verified = running.verified().await;
    assert!(verified.ok, "{verified:?}");
}

/// What holds as soon as the cause is gone, and after the next crash.
async fn assert_goes_on(running: &Running, refused: &str, mut kept: Vec<SessionReply>) -> Vec<SessionReply> {
    until("it goes on by itself", async || running.ready().await.ok()).await;
    assert_eq!(running.health().await.ledger_trouble, None);
    let begun = running.begin(refused).await.unwrap();
    assert!(!begun.replay, "what was refused was not done");
    kept.push(begun);
    kept
}

#[tokio::test]
async fn a_full_disk_is_told_reads_go_on_and_so_does_everything_when_there_is_room() {
    let ground = Ground::with("live_sessions = 1000");
    let mut shell = Shell::new();
    let state = ground.state().display().to_string();
    shell.done(&format!("mount -t tmpfs -o size=4m,mode=700 none {state}"));
    let running = shell.start(&ground).await;
    let mut kept = vec![running.begin("first").await.unwrap()];
    // All but the room that the log has already.
    shell.run(&format!("cat /dev/zero > {state}/filler 2>/dev/null"));
    let (key, refusal) =
        until_refused(&running, &mut kept).await.expect("a disk without room takes no 900 sessions");
    assert_trouble(&refusal, "full");
    assert_reads_go_on(&running, "full", &kept).await;
    assert_trouble(&running.begin(&key).await.unwrap_err(), "full");

    shell.done(&format!("rm {state}/filler"));
    kept = assert_goes_on(&running, &key, kept).await;
    shell.kill();
    assert_all_there(&shell.start(&ground).await, &kept).await;
}

#[tokio::test]
async fn a_disk_that_gives_errors_is_told_and_work_goes_on_when_it_gives_none() {
    let ground = Ground::with("live_sessions = 1000");
    let mut shell = Shell::new();
    // The largest file that this process may write: past it the kernel answers EFBIG, an error like any other.
    let running = shell.start_after(&ground, "trap '' XFSZ; ulimit -S -f 600").await;
    let mut kept = vec![running.begin("first").await.unwrap()];
    let (key, refusal) = until_refused(&running, &mut kept).await.expect("the log cannot grow for ever");
    assert_trouble(&refusal, "io");
    assert_reads_go_on(&running, "io", &kept).await;
    shell.done("prlimit --pid $executor --fsize=unlimited:");
    kept = assert_goes_on(&running, &key, kept).await;
    shell.kill();
    assert_all_there(&shell.start(&ground).await, &kept).await;
}

#[tokio::test]
async fn a_lock_of_another_process_is_told_reads_go_on_and_so_does_everything_afterwards() {
    let ground = Ground::new();
    let running = ground.start().await;
    let kept = vec![running.begin("first").await.unwrap()];
    let other = Connection::open(ground.path("state/ledger.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let many = ["a", "b", "c", "d"].map(|key| running.begin(key));
    let [a, b, c, d] = many;
    for refused in <[_; 4]>::from(tokio::join!(a, b, c, d)) {
        assert_trouble(&refused.unwrap_err(), "locked");
    }
    assert_reads_go_on(&running, "locked", &kept).await;
    other.execute_batch("ROLLBACK").unwrap();
    assert_goes_on(&running, "a", kept).await;
    assert!(running.verified().await.ok);
}

#[tokio::test]
async fn the_log_is_cut_back_when_a_long_read_is_over() {
    let ground = Ground::with("live_sessions = 1000");
    let running = ground.start().await;
    let reader = Connection::open(ground.path("state/ledger.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM session;").unwrap();
    let log = ground.path("state/ledger.db-wal");
    let size = || log.metadata().unwrap().len();
    let front = running.front();
    let begin = async |from: u32, to: u32| {
        let mut tasks = tokio::task::JoinSet::new();
        for number in from..to {
            let mut front = front.clone();
            let request = running.start_request(&format!("session-{number}"));
            tasks.spawn(async move { front.start(request).await.map(drop) });
        }
        for done in tasks.join_all().await {
            done.unwrap();
        }
    };
    begin(0, 100).await;
    let grown = size();
    assert!(grown > 0, "nothing is taken from the log while somebody reads what was before");
    reader.execute_batch("COMMIT").unwrap();
    begin(100, 200).await;
    assert!(size() <= executor_svc::ledger::LOG_BYTES, "{}", size());
    assert!(running.verified().await.ok);
}
