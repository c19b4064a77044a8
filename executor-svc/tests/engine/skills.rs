//! Skills in a session: frozen once, given to ChatGPT with each run, and to nobody else.

use std::path::PathBuf;

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::skill::SkillText;
use gatehouse_proto::v1;

use super::caller::Caller;
use super::house::*;

const KEY: &str = "start-key-0123456789";
const TEAM: &str = "---\nname: a\n---\nLook for quicksilver.\n";
const INLINE: &str = "Count the lanterns.\r\n";
const BODIES: [&str; 2] = ["Look for quicksilver.\n", "Count the lanterns.\n"];

fn hash(text: &str) -> String {
    SkillText::of(text.as_bytes()).unwrap().sha256()
}

fn pin(id: &str, sha256: &str) -> String {
    format!("{{ skill_id = '{id}', content_sha256 = '{sha256}' }}")
}

/// With a team's skill on the disk; its file is the second of the pair.
fn ground() -> (Ground, PathBuf) {
    let pins = [pin("team:a", &hash(TEAM)), pin("inline:b", &hash(INLINE))].join(", ");
    let ground = Ground::new(&format!("[skills]\nfolders = {{ team = 'GROUND/team' }}\nallow = [{pins}]\n"));
    let file = ground.path("team/a/SKILL.md");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, TEAM).unwrap();
    (ground, file)
}

fn context(id: &str, content: Option<&str>) -> v1::SkillContext {
    v1::SkillContext { skill_id: id.into(), content: content.map(str::to_owned) }
}

fn request(house: &House) -> v1::StartRequest {
    let skill_contexts = vec![context("team:a", None), context("inline:b", Some(INLINE))];
    v1::StartRequest { skill_contexts, ..house.start_request(KEY) }
}

fn snapshot(reply: &v1::SessionReply) -> Vec<(String, String, u64)> {
    let frozen = &reply.session.as_ref().unwrap().skill_snapshot;
    frozen.iter().map(|s| (s.skill_id.clone(), s.content_sha256.clone(), s.bytes)).collect()
}

/// The instructions that the pending turn brings.
fn given(reply: &v1::SessionReply) -> Vec<String> {
    let turn = reply.session.as_ref().unwrap().pending_turn.as_ref().expect("a pending turn");
    turn.skills.iter().map(|skill| skill.body.clone()).collect()
}

#[tokio::test]
async fn the_same_snapshot_comes_with_each_run_whatever_becomes_of_file_allowlist_and_executor() {
    let (ground, file) = ground();
    let house = ground.open();
    let started = house.front().start(request(&house)).await.unwrap().into_inner();
    let wanted = [("team:a".to_owned(), hash(TEAM), 22), ("inline:b".to_owned(), hash(INLINE), 20)];
    assert_eq!(snapshot(&started), wanted);
    house.shim(&started).await.open_first().await;
    assert_eq!(given(&house.status(&started).await.unwrap()), BODIES);
    std::fs::write(&file, "Something else.\n").unwrap();
    house.close().await;

    // Nobody is asked again, not even the allowlist.
    std::fs::remove_file(&file).unwrap();
    std::fs::write(ground.path("config.toml"), "[skills]\nallow = 'gone'\n").unwrap();
    let house = ground.open();
    let again = house.front().start(request(&house)).await.unwrap().into_inner();
    assert!(again.replay, "the files of a start that was made are not read again");
    assert_eq!((snapshot(&again), given(&again)), (wanted.to_vec(), BODIES.map(str::to_owned).to_vec()));
    let turn = again.session.as_ref().unwrap().pending_turn.clone().unwrap().turn_id;
    house.front().reply_and_wait(reply_request(&started, &turn, "r1", "Done.")).await.unwrap();
    house.shim(&started).await.finish().await;
    assert_eq!(snapshot(&house.status(&started).await.unwrap()), wanted, "also without a run");
    house.front().r#continue(continue_request(&started, "c1")).await.unwrap();
    house.shim(&started).await.open_first().await;
    let second = house.status(&started).await.unwrap();
    assert_eq!((snapshot(&second), given(&second)), (wanted.to_vec(), BODIES.map(str::to_owned).to_vec()));
    house.close().await;
}

#[tokio::test]
async fn later_turns_the_operator_and_the_journal_have_no_instructions() {
    let (ground, _) = ground();
    let house = ground.open();
    let ask = request(&house);
    let mut caller = Caller::started(house, ask).await;
    let id = id(&caller.started);
    let mut operator = caller.house.operator();
    let shown = operator.get_session(v1::GetSessionRequest { native_session_id: id.clone() }).await.unwrap();
    let listed = operator.list_sessions(v1::ListSessionsRequest::default()).await.unwrap();
    let state = caller.house.engine.load(&session_id(&caller.started)).unwrap();
    let journal: Vec<String> = caller
        .house
        .engine
        .read(|connection| {
            let mut statement = connection.prepare("SELECT body FROM journal")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
        .unwrap();
    let everything = format!("{shown:?} {listed:?} {state:?} {} {journal:?}", serde_json::json!(state));
    for body in BODIES {
        assert!(!everything.contains(body.trim()), "{everything}");
    }
    assert!(
        journal.iter().any(|body| body.contains(&hash(TEAM)) && body.contains("inline:b")),
        "{journal:?}"
    );
    let snapshot = shown.into_inner().session.unwrap().skill_snapshot;
    assert_eq!(snapshot.len(), 2, "the operator sees what there is");

    caller.call("FindFiles", serde_json::json!({})).await;
    let later = caller.house.status(&caller.started).await.unwrap();
    assert_eq!(given(&later), Vec::<String>::new(), "only the first turn of a run brings them");
    caller.house.close().await;
}

#[tokio::test]
async fn a_refused_skill_starts_nothing_and_uses_no_key_up() {
    let (ground, file) = ground();
    let house = ground.open();
    std::fs::write(&file, "Something else.\n").unwrap();
    let mut ask = request(&house);
    ask.skill_contexts.push(context("team:unknown", None));
    let status = house.front().start(ask).await.unwrap_err();
    let refusal = Refusal::from_status(&status).unwrap();
    assert_eq!(refusal.code, ErrorCode::SkillNotAllowed);
    let skills = refusal.details["skills"].as_array().unwrap();
    assert_eq!((&skills[0]["skill_id"], &skills[1]["skill_id"]), (&"team:a".into(), &"team:unknown".into()));
    assert_eq!(skills[0]["pinned_sha256"], hash(TEAM).as_str());
    assert_eq!(skills[0]["found_sha256"], hash("Something else.\n").as_str());
    assert_eq!((house.count("session").await, house.count("skill").await), (0, 0));
    std::fs::write(&file, TEAM).unwrap();
    assert!(!house.front().start(request(&house)).await.unwrap().into_inner().replay);
    let mut other = request(&house);
    other.skill_contexts.pop();
    assert_eq!(code(house.front().start(other).await), ErrorCode::IdempotencyConflict);
    house.close().await;
}

#[tokio::test]
async fn a_malformed_allowlist_keeps_out_sessions_with_skills_and_no_others() {
    let ground = Ground::new("[skills]\nallow = [{ skill_id = 'team:a', content_sha256 = 'ABC' }]\n");
    let house = ground.open();
    let status = house.front().start(request(&house)).await.unwrap_err();
    let refusal = Refusal::from_status(&status).unwrap();
    assert_eq!(refusal.code, ErrorCode::SkillNotAllowed);
    assert_eq!(refusal.details["faults"][0]["entry"], 0);
    assert!(refusal.message.contains("skills.allow") && refusal.message.contains("team:a"), "{refusal}");
    house.start(KEY).await;
    house.close().await;
}

#[tokio::test]
async fn a_frozen_skill_cannot_be_changed_in_the_ledger() {
    let (ground, _) = ground();
    let house = ground.open();
    house.front().start(request(&house)).await.unwrap();
    let changed = house
        .engine
        .note(|tx| {
            tx.execute("UPDATE skill SET body = 'x'", [])?;
            Ok(())
        })
        .await;
    assert!(changed.unwrap_err().to_string().contains("never changes"));
    house.close().await;
}
