//! Skills with the real Claude Code: two pinned ones, one with its text and one looked up; the same snapshot at the start and
//! in every later run, whatever becomes of the file, the allowlist and the gateway; and their words in no place but the
//! ledger and ChatGPT's first turns.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gatehouse::chatgpt::{Brain, Call, ClientError, Start, ToolError};
use gatehouse_proto::skill::SkillText;
use gatehouse_tests::places::Project;
use gatehouse_tests::record::Way;
use gatehouse_tests::{Gateway, Setup, claude, processes, transcripts};
use serde_json::{Value, json};

const ALLOWLIST: &str = "CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON";
/// Words that stand nowhere else in the world.
const CANARIES: [&str; 2] = ["zirkonium-lantern-7731", "obsidian-teapot-4402"];

/// A skill with front matter and line ends of another system, as somebody may have written it.
fn review() -> String {
    format!("\u{feff}---\r\nname: review\r\n---\r\n# Review\r\n\r\nSay {} first.\r\n", CANARIES[0])
}

fn style() -> String {
    format!("Write like the {}.\n", CANARIES[1])
}

fn hash(text: &str) -> String {
    SkillText::of(text.as_bytes()).unwrap().sha256()
}

fn pin(id: &str, text: &str) -> Value {
    json!({"skill_id": id, "content_sha256": hash(text)})
}

/// What ChatGPT is given in the first turn of a run.
fn skills() -> Value {
    json!([
        {"skill_id": "personal:review", "content_sha256": hash(&review()),
         "body": format!("# Review\n\nSay {} first.\n", CANARIES[0])},
        {"skill_id": "team:style", "content_sha256": hash(&style()), "body": style()},
    ])
}

fn snapshot() -> Value {
    let bytes = |index: usize| skills()[index]["body"].as_str().unwrap().len();
    json!([
        {"skill_id": "personal:review", "content_sha256": hash(&review()), "bytes": bytes(0)},
        {"skill_id": "team:style", "content_sha256": hash(&style()), "bytes": bytes(1)},
    ])
}

fn allowlist() -> String {
    json!([pin("personal:review", &review()), pin("team:style", &style())]).to_string()
}

fn assert_carried(brain: &Brain) {
    let state = &brain.state().0;
    assert_eq!(state["skill_snapshot"], snapshot(), "{state}");
    assert_eq!(state["pending_turn"]["skills"], skills(), "{state}");
}

/// In later turns of a run nothing is repeated, and what the session carries is still told.
fn assert_told_only(brain: &Brain) {
    let state = &brain.state().0;
    assert_eq!(state["skill_snapshot"], snapshot(), "{state}");
    assert_eq!(state["pending_turn"]["skills"], json!([]), "{state}");
}

/// All files below a directory that hold one of the words, and how many files were looked at.
fn holders(top: &Path, words: &[&str]) -> (Vec<PathBuf>, usize) {
    let (mut found, mut seen, mut waiting) = (Vec::new(), 0, vec![top.to_owned()]);
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                seen += 1;
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                let holds = |word: &&str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
                found.extend(words.iter().any(holds).then(|| entry.path()));
            }
        }
    }
    (found, seen)
}

/// Everything that a process may read of itself.
fn of_process(pid: u32) -> String {
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    ["cmdline", "environ"].map(|name| String::from_utf8_lossy(&read(name)).into_owned()).concat()
}

/// No process but the executor knows the words, nor does any file but the ledger's.
fn assert_no_leak(gateway: &Gateway, brain: &Brain, project: &Project) {
    let state = gateway.state_dir();
    let (found, seen) = holders(state.parent().unwrap(), &CANARIES);
    assert!(seen > 5 && !found.is_empty(), "the ledger was looked at: {seen} files");
    for file in found {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(file.parent() == Some(&state) && name.starts_with("ledger.db"), "{}", file.display());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
    assert_eq!(holders(&project.path(), &CANARIES).0, Vec::<PathBuf>::new());
    let claude = processes::claude_of(brain.state().claude_session_id()).expect("Claude Code lives");
    let all: Vec<u32> =
        processes::of_directory(state.parent().unwrap()).into_iter().chain([claude]).collect();
    assert!(all.len() >= 3, "executor, front, shim, Claude Code: {all:?}");
    for pid in all {
        let shown = of_process(pid);
        assert!(CANARIES.iter().all(|word| !shown.contains(word)), "process {pid}");
    }
    let texts = transcripts::user_texts(&state, brain.state().claude_session_id()).join("\n");
    assert!(CANARIES.iter().all(|word| !texts.contains(word)), "{texts}");
}

/// Of all that left the gateway, only answers over MCP that bring the first turn of a run have the words.
fn assert_told_to_chatgpt_alone(gateway: &Gateway) {
    let mut brought = 0;
    for piece in gateway.record().pieces() {
        if !CANARIES.iter().any(|word| piece.text.contains(word)) {
            continue;
        }
        assert_eq!(piece.way, Way::Mcp, "{}", piece.text);
        let mut answer: Value = serde_json::from_str(&piece.text).unwrap();
        let turn = &mut answer["result"]["structuredContent"]["pending_turn"];
        assert!(matches!(turn["kind"].as_str(), Some("prompt" | "resumed")), "{}", piece.text);
        turn["skills"] = Value::Null;
        let rest = answer.to_string();
        assert!(CANARIES.iter().all(|word| !rest.contains(word)), "{}", piece.text);
        brought += 1;
    }
    assert!(brought >= 3, "each run brought them: {brought}");
}

/// A gateway with a home of its own, in which `personal:review` lies.
async fn gateway(claude: Option<PathBuf>, home: &Project, allowlist: &str) -> Gateway {
    home.write(".claude/skills/review/SKILL.md", review());
    home.write(".claude/skills/review/run.sh", "#!/bin/sh\ntouch \"$HOME/was-run\"\n");
    let setup = claude.map_or_else(Setup::without_claude, Setup::with_claude);
    let setup = setup.environment("HOME", home.path()).environment(ALLOWLIST, allowlist);
    Gateway::start(setup).await
}

fn start(project: &Project) -> Start {
    let skills =
        vec![json!({"skill_id": "personal:review"}), json!({"skill_id": "team:style", "content": style()})];
    Start { skills, ..Start::new("Where does the word quicksilver stand?", project.text()) }
}

fn search(project: &Project) -> Call {
    Call::new("SearchText", json!({"directory": project.text(), "text": "quicksilver"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_snapshot_at_start_and_in_each_later_run_and_nobody_else_reads_it() {
    let Some(claude) = claude() else { return };
    let (home, project) = (Project::empty(), Project::small());
    let mut gateway = gateway(Some(claude), &home, &allowlist()).await;
    let file = home.path().join(".claude/skills/review/SKILL.md");
    let start = start(&project);
    let mut brain = gateway.session(&start).await;
    assert_carried(&brain);
    brain.act(None, &[search(&project)]).await.unwrap();
    assert_told_only(&brain);
    assert_no_leak(&gateway, &brain, &project);

    std::fs::write(&file, "Do the opposite.\n").unwrap();
    brain.finish("In src/main.txt.").await.unwrap();
    assert_eq!(brain.state().0["skill_snapshot"], snapshot());
    brain.go_on("In which line?").await.unwrap();
    gateway.learn(&brain);
    assert_carried(&brain);

    std::fs::remove_dir_all(home.path().join(".claude")).unwrap();
    gateway.kill_executor();
    gateway.kill_front();
    gateway.start_executor_with(&[(ALLOWLIST, "[]")]).await;
    gateway.start_front().await;
    brain.use_client(gateway.client());
    brain.recover().await.unwrap();
    gateway.learn(&brain);
    assert_carried(&brain);
    brain.until(|state| state.0["current_run"]["attachment"] == "attached").await.unwrap();
    brain.finish("In line 2.").await.unwrap();

    brain.go_on("And in which file?").await.unwrap();
    gateway.learn(&brain);
    assert_carried(&brain);
    brain.act(None, &[search(&project)]).await.unwrap();
    assert_no_leak(&gateway, &brain, &project);
    brain.finish("In src/main.txt.").await.unwrap();
    assert!(!home.path().join("was-run").exists(), "nothing of a skill is ever run");
    finish(gateway).await;
}

/// What the operator can be told and the logs are on record only after this.
async fn finish(gateway: Gateway) {
    let record = gateway.record().clone();
    assert_told_to_chatgpt_alone(&gateway);
    gateway.finish().await;
    for piece in record.pieces().iter().filter(|piece| piece.way != Way::Mcp) {
        assert!(CANARIES.iter().all(|word| !piece.text.contains(word)), "{:?}: {}", piece.way, piece.text);
    }
    let told = |way, what: &str| record.pieces().iter().any(|p| p.way == way && p.text.contains(what));
    assert!(
        told(Way::Cli, "personal:review") && told(Way::Operator, "skills.frozen"),
        "ids and hashes are told"
    );
    assert!(told(Way::Log, "first request"), "the logs were read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_repeated_gives_the_snapshot_of_the_first_one() {
    let Some(claude) = claude() else { return };
    let (home, project) = (Project::empty(), Project::small());
    let mut gateway = gateway(Some(claude), &home, &allowlist()).await;
    let start = start(&project);
    let mut brain = gateway.session(&start).await;
    std::fs::remove_dir_all(home.path().join(".claude")).unwrap();
    let again = gateway.client().call("native_session_start", start.arguments()).await.unwrap();
    assert!(again.replay());
    assert_eq!((again.session_id(), &again.0["skill_snapshot"]), (brain.session_id(), &snapshot()));
    assert_eq!(again.0["pending_turn"]["skills"], skills());
    let mut other = start.clone();
    other.skills.pop();
    assert_eq!(refusal(&gateway, other.skills, Some(&start)).await.code, "idempotency_conflict");
    brain.finish("Fine.").await.unwrap();
    gateway.finish().await;
}

/// How a start with these skills is refused; with the key of another start, if one is named.
async fn refusal(gateway: &Gateway, skills: Vec<Value>, of: Option<&Start>) -> ToolError {
    let fresh = Start::new("Where does the word quicksilver stand?", "/");
    let start = Start { skills, ..of.cloned().unwrap_or(fresh) };
    match gateway.client().call("native_session_start", start.arguments()).await {
        Err(ClientError::Tool(error)) => *error,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_that_are_not_what_is_pinned_are_refused_by_name() {
    let home = Project::empty();
    home.write(".claude/skills/linked/real/SKILL.md", style());
    std::os::unix::fs::symlink("real/SKILL.md", home.path().join(".claude/skills/linked/SKILL.md")).unwrap();
    home.write(".claude/skills/bytes/SKILL.md", b"\xff");
    let large = "x".repeat(100 * 1024);
    let ids = ["personal:review", "personal:linked", "personal:bytes", "personal:none", "a:b", "a:c"];
    let pins: Vec<_> =
        ids.into_iter().map(|id| pin(id, if id.starts_with('a') { &large } else { "x" })).collect();
    let gateway = gateway(None, &home, &json!(pins).to_string()).await;
    let id = |id: &str| json!({"skill_id": id});

    let error = refusal(&gateway, vec![id("personal:review"), id("personal:unlisted")], None).await;
    assert_eq!(error.code, "skill_not_allowed");
    assert!(error.message.contains(&hash("x")) && error.message.contains(&hash(&review())), "{error}");
    assert_eq!(error.details["skills"][0]["found_sha256"], hash(&review()).as_str());
    assert_eq!(error.details["skills"][1]["skill_id"], "personal:unlisted");
    for (skill, why) in [
        ("personal:linked", "symbolic link"),
        ("personal:bytes", "not UTF-8"),
        ("personal:none", "no such file"),
    ] {
        let error = refusal(&gateway, vec![id(skill)], None).await;
        assert_eq!(error.code, "skill_not_allowed");
        assert!(error.message.contains(skill) && error.message.contains(why), "{error}");
    }
    let wide = "\u{1f9ea}".repeat(200);
    let wide: Vec<_> = (0..8).map(|_| id(&wide)).collect();
    let body = |skill: &str| json!({"skill_id": skill, "content": large});
    for (skills, why) in [
        (vec![id("a:b"), id("a:b")], "twice"),
        (vec![id("personal:../review")], "PREFIX:NAME"),
        (wide, "PREFIX:NAME"),
        (vec![id("a:b"); 9], "at most 8"),
        (vec![body("a:b"), body("a:c")], "204800 bytes together"),
        (vec![json!({"skill_id": "a:b", "content": "x".repeat(262_145)})], "262144"),
        (vec![json!({"skill_id": "a:b", "path": "/x"})], "path"),
    ] {
        let error = refusal(&gateway, skills, None).await;
        assert_eq!(error.code, "invalid_argument", "{error}");
        assert!(error.message.contains(why), "{why}: {error}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_allowlist_is_named_and_the_gateway_starts_all_the_same() {
    let Some(claude) = claude() else { return };
    let (home, project) = (Project::empty(), Project::small());
    let broken = json!([pin("personal:review", &review()), {"skill_id": "team:style", "sha256": "x"}]);
    let mut gateway = gateway(Some(claude), &home, &broken.to_string()).await;
    let error = refusal(&gateway, vec![json!({"skill_id": "personal:review"})], None).await;
    assert_eq!(error.code, "skill_not_allowed");
    assert!(error.message.contains(ALLOWLIST) && error.message.contains("entry 1"), "{error}");
    assert!(error.message.contains("unknown field `sha256`"), "{error}");
    let mut brain = gateway.session(&Start::new("Hello.", project.text())).await;
    assert_eq!(brain.state().0["skill_snapshot"], json!([]));
    brain.finish("Hello.").await.unwrap();
    gateway.finish().await;
}
