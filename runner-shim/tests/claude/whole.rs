//! Whole runs.

use std::collections::BTreeSet;

use gatehouse_sandbox::process::Signal;
use serde_json::json;

use crate::proxy::Proxy;
use crate::shim::{Setting, wait_gone};

#[tokio::test]
async fn a_run_goes_from_its_prompt_over_tool_calls_to_its_answer() {
    let mut shim = Setting::new().start();
    let first = shim.executor.turn(0).await;
    assert_eq!(first.name, (1, BTreeSet::new()));

    let input =
        json!({"file_path": "/x/ä \u{2028}\"\\", "n": 1.0, "nested": {"b": [1, 2.5, null], "a": true}});
    let calls = [("Read", input), ("FindFiles", json!({})), ("Fails", json!({"a": ""}))];
    let ids = shim.executor.reply(&first, "I look.", &calls);
    let second = shim.executor.turn(1).await;
    assert_eq!(second.name.1, ids.iter().cloned().collect());
    for (id, seen) in
        ids.iter().map(|id| (id, second.seen.iter().find(|seen| seen.tool_call_id == *id).unwrap()))
    {
        assert_eq!(seen.text, format!("result of {id}"));
        assert_eq!(seen.is_error, id == &ids[2]);
        assert_eq!(shim.executor.effects(id), 1);
    }

    shim.executor.reply(&second, "All is well. ä 日本 🎉", &[]);
    let finished = shim.executor.finished().await;
    assert_eq!((finished.is_error, finished.exit_code), (false, 0));
    assert_eq!(finished.result_text, "All is well. ä 日本 🎉");
    shim.gone().await;
    // It attaches before the launch, and once more when it can tell what confines Claude Code.
    shim.executor.with(|ledger| assert_eq!((ledger.turns.len(), ledger.attaches), (2, 2)));
}

#[tokio::test]
async fn a_call_that_claude_code_answers_itself_is_told_in_the_next_turn() {
    let shim = Setting::new().start();
    let first = shim.executor.turn(0).await;
    let ids = shim.executor.reply(&first, "", &[("Nowhere", json!({}))]);
    let second = shim.executor.turn(1).await;
    assert_eq!(second.seen[0].tool_call_id, ids[0]);
    assert!(second.seen[0].is_error && second.seen[0].text.contains("No such tool"), "{:?}", second.seen);
    assert_eq!(shim.executor.effects(&ids[0]), 0);
    shim.executor.reply(&second, "done", &[]);
    assert!(!shim.executor.finished().await.is_error);
}

#[tokio::test]
async fn claude_code_is_started_apart_and_from_nothing() {
    let setting = Setting::new();
    let shim = setting.start();
    let turn = shim.executor.turn(0).await;
    let claude = shim.claude();
    let proc = |name: &str| std::fs::read(format!("/proc/{}/{name}", claude.pid)).unwrap();

    let environ = String::from_utf8(proc("environ")).unwrap();
    let names: BTreeSet<&str> =
        environ.split_terminator('\0').map(|pair| pair.split_once('=').unwrap().0).collect();
    let expected = "ANTHROPIC_API_KEY ANTHROPIC_BASE_URL API_TIMEOUT_MS CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC \
        CLAUDE_CODE_TMPDIR CLAUDE_CONFIG_DIR CLAUDE_STREAM_IDLE_TIMEOUT_MS DISABLE_AUTOUPDATER HOME MCP_TOOL_TIMEOUT TMPDIR";
    assert_eq!(names.into_iter().collect::<Vec<_>>().join(" "), expected);
    let cwd = std::fs::read_link(format!("/proc/{}/cwd", claude.pid)).unwrap();
    assert_eq!(cwd, std::path::Path::new(&setting.plan.cwd_dir));
    assert_eq!(std::fs::read_dir(format!("/proc/{}/cwd", claude.pid)).unwrap().count(), 0);

    let stat = String::from_utf8(proc("stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let (group, session) = (fields[2], fields[3]);
    assert_eq!((group, session), (claude.pid.to_string().as_str(), claude.pid.to_string().as_str()));

    // The secrets are on no command line, and they are two.
    let key =
        environ.split('\0').find_map(|pair| pair.strip_prefix("ANTHROPIC_API_KEY=")).unwrap().to_owned();
    let config = std::path::Path::new(&setting.plan.run_dir).join("mcp.json");
    assert!(!config.exists(), "it has a name in Claude Code's view alone");
    let config = std::fs::read_to_string(format!("/proc/{}/root{}", claude.pid, config.display())).unwrap();
    assert!(config.contains("Bearer") && !config.contains(&key));
    for pid in [claude.pid, shim.pid()] {
        let line = String::from_utf8(std::fs::read(format!("/proc/{pid}/cmdline")).unwrap()).unwrap();
        assert!(!line.contains(&key));
    }
    shim.executor.reply(&turn, "done", &[]);
    shim.executor.finished().await;
}

#[tokio::test]
async fn the_shim_leads_a_session_of_its_own_and_is_not_dumpable() {
    let shim = Setting::new().start();
    let turn = shim.executor.turn(0).await;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", shim.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    assert_eq!(fields[3], shim.pid().to_string());
    // The files in /proc of a process that is not dumpable are root's.
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(format!("/proc/{}/environ", shim.pid())).unwrap().uid(), 0);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", shim.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    shim.executor.reply(&turn, "done", &[]);
    shim.executor.finished().await;
}

#[tokio::test]
async fn the_next_run_goes_on_with_the_session_after_one_that_was_cut_off_in_its_calls() {
    let mut setting = Setting::new();
    let proxy = Proxy::start(&[]).await;
    setting.relay().through(&proxy);
    setting.prompt("remember the number 41");
    let ids = cut_off_in_a_call(&setting, Signal::SIGTERM).await;

    setting.resume("and now?");
    let shim = setting.start();
    let turn = shim.executor.turn(0).await;
    assert_eq!(turn.name, (2, BTreeSet::new()));
    let history = proxy.bodies().last().unwrap()["messages"].to_string();
    assert!(history.contains("remember the number 41") && history.contains("and now?"), "{history}");
    assert!(history.contains(&ids[0]), "the call that had its result: {history}");
    let ids = shim.executor.reply(&turn, "", &[("Read", json!({}))]);
    let next = shim.executor.turn(1).await;
    assert_eq!(next.name.1, ids.into_iter().collect());
    shim.executor.reply(&next, "42", &[]);
    assert_eq!(shim.executor.finished().await.result_text, "42");
}

/// A run with a call that has its result, and one that never gets it.
async fn cut_off_in_a_call(setting: &Setting, signal: Signal) -> Vec<String> {
    let mut shim = setting.start();
    shim.executor.slow_down("Slow", 600);
    let first = shim.executor.turn(0).await;
    if signal == Signal::SIGTERM {
        written_down(setting).await;
    }
    let ids = shim.executor.reply(&first, "two calls", &[("Read", json!({})), ("Slow", json!({}))]);
    shim.executor.until("the slow call", |ledger| (ledger.effects_of(&ids[1]) == 1).then_some(())).await;
    let claude = shim.claude();
    shim.signal(signal);
    shim.gone().await;
    wait_gone(&claude).await;
    shim.executor.stop();
    ids
}

/// Waits until Claude Code has written its prompt down, which it does a little later. What it is asked to write before
/// that, it writes in another order, and then does not find its own prompt again.
async fn written_down(setting: &Setting) {
    let file = format!("{}.jsonl", setting.plan.claude_session_id);
    let written = || -> Option<()> {
        let projects =
            std::fs::read_dir(std::path::Path::new(&setting.plan.config_dir).join("projects")).ok()?;
        let texts =
            projects.filter_map(|project| std::fs::read_to_string(project.ok()?.path().join(&file)).ok());
        texts.filter(|text| text.contains("\"type\":\"user\"")).map(drop).next()
    };
    for _ in 0..500 {
        if written().is_some() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("no transcript");
}

#[tokio::test]
async fn the_next_run_is_known_also_after_one_that_was_killed_before_it_wrote_anything_down() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut setting = Setting::new();
        let mut shim = setting.start();
        shim.executor.turn(0).await;
        let claude = shim.claude();
        shim.signal(signal);
        shim.gone().await;
        wait_gone(&claude).await;
        shim.executor.stop();

        setting.resume("again");
        let shim = setting.start();
        let turn = shim.executor.turn(0).await;
        assert_eq!(turn.name, (2, BTreeSet::new()), "{signal}");
        shim.executor.reply(&turn, "done", &[]);
        assert!(!shim.executor.finished().await.is_error, "{signal}");
    }
    let mut setting = Setting::new();
    cut_off_in_a_call(&setting, Signal::SIGKILL).await;
    setting.resume("again");
    let shim = setting.start();
    assert_eq!(shim.executor.turn(0).await.name, (2, BTreeSet::new()));
}
