//! Uncertain writes that the operator decides about.

use std::path::PathBuf;

use executor_svc::files::replace::Intent;
use executor_svc::ledger::once::Claim;
use executor_svc::session::{Command, Decision, ResolveAsk, Status};
use gatehouse_proto::codes::{ActionCode, ErrorCode};
use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::ids::{RequestKey, ToolCallId};
use gatehouse_proto::v1;
use serde_json::{Value, json};

use super::asking::*;
use super::caller::Caller;
use super::house::*;

/// A session that waits for a person: an edit from "one" to "two" was interrupted, and the file is "three".
struct Blocked {
    ground: Ground,
    house: House,
    started: v1::SessionReply,
    action: String,
    file: PathBuf,
}

const TEMPORARY: &str = ".gatehouse-toolu_x-0011223344556677.tmp";

impl Blocked {
    async fn new() -> Self {
        Self::with_left("tw").await
    }

    /// The same with other bytes in the temporary file that was left.
    async fn with_left(left: &str) -> Self {
        let ground = Ground::new("");
        let mut caller = Caller::writing(&ground).await;
        let file = ground.path("project/a.txt");
        std::fs::write(&file, "one\n").unwrap();
        let input = json!({"file_path": file, "old_string": "one", "new_string": "two"});
        let call = caller.authorise_tool("Edit", &input).await;
        let content =
            executor_svc::content::ContentStore::open(&ground.path("state/content"), 1 << 30).unwrap();
        content.put_all(&[b"one\n", b"two\n"]).unwrap();
        let found = file.metadata().unwrap();
        let intent: Intent = serde_json::from_value(json!({
            "path": file.canonicalize().unwrap(),
            "before": {"file": {
                "sha256": sha256_hex(b"one\n"), "bytes": 4,
                "device": std::os::unix::fs::MetadataExt::dev(&found),
                "inode": std::os::unix::fs::MetadataExt::ino(&found),
            }},
            "after": {"file": {"sha256": sha256_hex(b"two\n"), "bytes": 4}},
            "temporary": TEMPORARY,
            "create_directories": [],
        }))
        .unwrap();
        let session = session_id(&caller.started);
        let (prepared, boxed) = (call.id.clone(), Some(Box::new(intent)));
        let prepare = move |_: &_, _| Ok(Command::Prepare { id: prepared, intent: boxed });
        caller.house.engine.submit(&session, None, prepare).await.unwrap();
        let (marked, why) = (call.id.clone(), "nobody knows".to_owned());
        let mark = move |_: &_, _| Ok(Command::MarkUncertain { id: marked, why });
        let ending = caller.house.engine.submit(&session, None, mark).await.unwrap().session.ending.unwrap();
        let gone = Command::RunnerGone { run_id: ending.run_id, epoch: ending.epoch, why: "x".into() };
        caller.house.engine.submit(&session, None, |_, _| Ok(gone)).await.unwrap();
        std::fs::write(&file, "three\n").unwrap();
        std::fs::write(file.with_file_name(TEMPORARY), left).unwrap();
        let Caller { house, started, .. } = caller;
        Self { ground, house, started, action: call.id.to_string(), file }
    }

    fn asking(&self) -> Asking<'_> {
        Asking { house: &self.house, session: id(&self.started) }
    }

    async fn status(&self) -> Status {
        self.house.session(&self.started).await.state.status()
    }

    async fn told(&self) -> Value {
        receipt(&self.asking().action(&self.action).await)
    }

    fn on_disk(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    fn has_left(&self) -> bool {
        self.file.with_file_name(TEMPORARY).exists()
    }

    async fn restart(self) -> Self {
        let Self { ground, house, started, action, file } = self;
        house.close().await;
        let house = ground.open();
        house.actions.reconcile().await.unwrap();
        Self { ground, house, started, action, file }
    }
}

#[tokio::test]
async fn what_is_on_disk_is_kept_and_told_by_its_hash() {
    let blocked = Blocked::new().await;
    let asking = blocked.asking();
    let resolve = asking.resolve(&blocked.action, "r1", v1::Decision::KeepDisk).await.unwrap();
    let own = receipt(&resolve);
    assert_eq!((&own["resolves"], &own["decision"]), (&json!(blocked.action), &json!("keep_disk")), "{own}");
    let hash = sha256_hex(b"three\n");
    assert_eq!((&own["before_sha256"], &own["after_sha256"]), (&json!(hash), &json!(hash)));
    let told = blocked.told().await;
    assert_eq!((&told["ok"], &told["code"]), (&json!(false), &json!("uncertain")), "{told}");
    assert_eq!(
        (&told["disk_sha256"], &told["intended_sha256"]),
        (&json!(hash), &json!(sha256_hex(b"two\n")))
    );
    assert_eq!(told["resolved_by"], resolve.tool_call_id);
    assert_eq!((blocked.on_disk().as_str(), blocked.has_left()), ("three\n", false));

    assert_eq!(blocked.status().await, Status::Idle);
    let again = asking.resolve(&blocked.action, "r1", v1::Decision::KeepDisk).await.unwrap();
    assert_eq!(again, resolve, "the same request");
    let other = denied(asking.resolve(&blocked.action, "r1", v1::Decision::RestoreAfter).await);
    assert_eq!(other.code, ErrorCode::IdempotencyConflict);
    let second = denied(asking.resolve(&blocked.action, "r2", v1::Decision::RestoreAfter).await);
    assert!(second.message.contains("not uncertain"), "{second}");

    let next = blocked.house.front().r#continue(continue_request(&blocked.started, "c1")).await.unwrap();
    let next = next.into_inner();
    blocked.house.shim(&next).await.open_first().await;
    let seen = blocked.house.status(&blocked.started).await.unwrap();
    let turn = seen.session.unwrap().pending_turn.unwrap();
    let told: Vec<_> = turn.unreported.iter().map(|result| result.name.as_str()).collect();
    assert_eq!(told, ["Edit", "Resolve"], "ChatGPT is told of both");
    assert!(asking.verify().await.ok);
    blocked.house.close().await;
}

#[tokio::test]
async fn what_was_there_before_is_restored_and_what_was_found_is_kept() {
    let blocked = Blocked::new().await;
    let asking = blocked.asking();
    let diff = asking.diff(&blocked.action).await.unwrap();
    assert_eq!((diff.state.as_str(), diff.diff.as_deref()), ("uncertain", Some("@@ -1 +1 @@\n-one\n+two\n")));
    let undo = denied(asking.undo(&blocked.action, "u1").await);
    assert!(undo.message.contains("Nobody can tell") && undo.what_to_do.contains("resolve"), "{undo}");

    let resolve = asking.resolve(&blocked.action, "r1", v1::Decision::RestoreBefore).await.unwrap();
    let own = receipt(&resolve);
    assert_eq!((&own["ok"], &own["how"]), (&json!(true), &json!("exchanged")), "{own}");
    assert!(own["diff"].as_str().unwrap().contains("-three\n+one"), "{own}");
    assert_eq!((blocked.on_disk().as_str(), blocked.has_left()), ("one\n", false));
    let told = blocked.told().await;
    assert_eq!((&told["ok"], &told["code"]), (&json!(false), &json!("cancelled")), "{told}");
    assert_eq!(blocked.status().await, Status::Idle);
    let back = asking.undo(&resolve.tool_call_id, "u2").await.unwrap();
    assert_eq!((back.ok, blocked.on_disk().as_str()), (Some(true), "three\n"), "a decision can be undone");
    assert!(asking.verify().await.ok);
    blocked.house.close().await;
}

#[tokio::test]
async fn what_should_be_there_after_is_made_and_the_edit_is_told_as_made() {
    let blocked = Blocked::new().await;
    let asking = blocked.asking();
    asking.resolve(&blocked.action, "r1", v1::Decision::RestoreAfter).await.unwrap();
    assert_eq!(blocked.on_disk(), "two\n");
    let told = blocked.told().await;
    assert_eq!((&told["ok"], &told["replacements"]), (&json!(true), &json!(1)), "{told}");
    assert_eq!(blocked.status().await, Status::Idle);
    assert_eq!(asking.undo(&blocked.action, "u1").await.unwrap().ok, Some(true));
    assert_eq!(blocked.on_disk(), "one\n");
    blocked.house.close().await;
}

#[tokio::test]
async fn a_file_that_is_already_what_was_decided_is_not_written_again() {
    let blocked = Blocked::new().await;
    std::fs::write(&blocked.file, "one\n").unwrap();
    let inode = |file| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(file).unwrap());
    let before = inode(&blocked.file);
    let resolve = blocked.asking().resolve(&blocked.action, "r1", v1::Decision::RestoreBefore).await.unwrap();
    assert_eq!((resolve.ok, resolve.write), (Some(true), None));
    assert_eq!(inode(&blocked.file), before);
    blocked.house.close().await;
}

#[tokio::test]
async fn a_file_that_is_gone_is_restored_too() {
    let blocked = Blocked::new().await;
    std::fs::remove_file(&blocked.file).unwrap();
    let resolve = blocked.asking().resolve(&blocked.action, "r1", v1::Decision::RestoreBefore).await.unwrap();
    assert_eq!((resolve.ok, blocked.on_disk().as_str()), (Some(true), "one\n"));
    assert_eq!(receipt(&resolve)["before_sha256"], Value::Null);
    blocked.house.close().await;
}

#[tokio::test]
async fn what_another_process_wrote_during_the_write_is_named_and_left_there() {
    let blocked = Blocked::with_left("theirs\n").await;
    // The write was made, so what lies beside the file is another process's.
    let new = blocked.file.with_file_name("new");
    std::fs::write(&new, "two\n").unwrap();
    std::fs::rename(&new, &blocked.file).unwrap();
    let resolve = blocked.asking().resolve(&blocked.action, "r1", v1::Decision::KeepDisk).await.unwrap();
    let own = receipt(&resolve);
    assert!(own["note"].as_str().is_some_and(|note| note.contains(TEMPORARY)), "{own}");
    assert!(blocked.has_left());
    blocked.house.close().await;
}

#[tokio::test]
async fn a_restoring_that_is_impossible_says_why_and_leaves_the_session_waiting() {
    let blocked = Blocked::new().await;
    std::fs::remove_file(&blocked.file).unwrap();
    std::fs::create_dir(&blocked.file).unwrap();
    let asking = blocked.asking();
    let refusal = refused(asking.resolve(&blocked.action, "r1", v1::Decision::RestoreBefore).await);
    assert_eq!(refusal.code, ActionCode::NotAFile);
    assert_eq!(blocked.status().await, Status::RecoveryRequired);
    let resolve = asking.resolve(&blocked.action, "r1", v1::Decision::KeepDisk).await.unwrap();
    let own = receipt(&resolve);
    assert!(own["note"].as_str().is_some_and(|note| note.contains("cannot be read")), "{own}");
    assert_eq!(blocked.told().await["disk_sha256"], Value::Null);
    assert_eq!(blocked.status().await, Status::Idle);
    blocked.house.close().await;
}

#[tokio::test]
async fn a_restart_changes_nothing_about_what_waits_for_a_person() {
    let blocked = Blocked::new().await;
    // By now the file is what the edit wanted, by the person's own hand.
    std::fs::write(&blocked.file, "two\n").unwrap();
    let blocked = blocked.restart().await;
    assert_eq!(blocked.status().await, Status::RecoveryRequired, "a person decides");
    assert_eq!(blocked.asking().action(&blocked.action).await.state, "uncertain");
    blocked.asking().resolve(&blocked.action, "r1", v1::Decision::RestoreAfter).await.unwrap();
    assert_eq!(blocked.told().await["ok"], true);
    blocked.house.close().await;
}

impl Blocked {
    /// The executor dies right after this decision is durable; then the file is this.
    async fn die_resolving(self, decision: Decision, wanted: Option<&str>, on_disk: &str) -> (Self, String) {
        let found = self.file.metadata().unwrap();
        let intent = wanted.map(|wanted| {
            serde_json::from_value::<Intent>(json!({
                "path": self.file.canonicalize().unwrap(),
                "before": {"file": {
                    "sha256": sha256_hex(b"three\n"), "bytes": 6,
                    "device": std::os::unix::fs::MetadataExt::dev(&found),
                    "inode": std::os::unix::fs::MetadataExt::ino(&found),
                }},
                "after": {"file": {"sha256": sha256_hex(wanted.as_bytes()), "bytes": wanted.len()}},
                "temporary": ".gatehouse-toolu_y-0011223344556677.tmp",
                "create_directories": [],
            }))
            .unwrap()
        });
        let content =
            executor_svc::content::ContentStore::open(&self.ground.path("state/content"), 1 << 30).unwrap();
        content.put_all(&[b"three\n"]).unwrap();
        let by = ToolCallId::mint();
        let ask = ResolveAsk {
            id: by.clone(),
            request_id: RequestKey::try_from("r0".to_owned()).unwrap(),
            resolves: self.action.parse().unwrap(),
            decision,
            intent,
        };
        let begin = move |_: &_, _| Ok(Command::BeginResolve(Claim::Fresh, Box::new(ask)));
        self.house.engine.submit(&session_id(&self.started), None, begin).await.unwrap();
        std::fs::write(&self.file, on_disk).unwrap();
        (self.restart().await, by.to_string())
    }
}

#[tokio::test]
async fn a_decision_that_a_crash_interrupted_is_brought_to_its_end_or_can_be_made_again() {
    for (decision, wanted, on_disk, status, code) in [
        (Decision::KeepDisk, None, "three\n", Status::Idle, None),
        (Decision::RestoreBefore, Some("one\n"), "one\n", Status::Idle, None),
        (Decision::RestoreBefore, Some("one\n"), "three\n", Status::RecoveryRequired, Some("cancelled")),
        (Decision::RestoreAfter, Some("two\n"), "four\n", Status::RecoveryRequired, Some("uncertain")),
    ] {
        let (blocked, by) = Blocked::new().await.die_resolving(decision, wanted, on_disk).await;
        assert_eq!((blocked.on_disk().as_str(), blocked.status().await), (on_disk, status));
        let view = blocked.asking().action(&by).await;
        assert_eq!((view.state.as_str(), view.code.as_deref()), ("done", code), "{view:?}");
        if status == Status::RecoveryRequired {
            let again = blocked.asking().resolve(&blocked.action, "r1", v1::Decision::RestoreAfter).await;
            assert_eq!(again.unwrap().ok, Some(true));
            assert_eq!(blocked.on_disk(), "two\n");
        }
        assert_eq!(blocked.status().await, Status::Idle);
        assert!(blocked.asking().verify().await.ok);
        blocked.house.close().await;
    }
}
