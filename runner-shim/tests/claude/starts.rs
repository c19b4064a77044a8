//! Starts that fail, and what is told of them.

use gatehouse_proto::v1;

use crate::confined::launcher;
use crate::shim::Setting;

/// Runs it to its failure; nothing that leaves may hold an internal path, a pid or a port.
async fn failure(setting: &Setting) -> v1::RunFailed {
    let mut shim = setting.start();
    let failed = shim.executor.failed().await;
    let pid = shim.pid().to_string();
    shim.gone().await;
    shim.executor.with(|ledger| assert!(ledger.turns.is_empty(), "a turn was opened"));
    for text in [&failed.message, &shim.log()] {
        assert!(!text.contains(setting.top.path().to_str().unwrap()), "{text}");
        assert!(!text.contains("127.0.0.1:") || text.contains("127.0.0.1:<number>"), "{text}");
        assert!(!text.split(|c: char| !c.is_ascii_digit()).any(|number| number == pid), "{text}");
    }
    failed
}

#[tokio::test]
async fn a_missing_executable_is_named_so() {
    let mut setting = Setting::new();
    setting.plan.claude_binary = setting.top.path().join("nowhere/claude").to_str().unwrap().to_owned();
    for expected_version in ["", "2.1.247"] {
        setting.plan.expected_version = expected_version.to_owned();
        assert_eq!(failure(&setting).await.code, "claude_not_found");
    }
}

#[tokio::test]
async fn another_version_is_refused_and_both_are_named() {
    let mut setting = Setting::new();
    setting.plan.expected_version = "9.9.9".to_owned();
    let failed = failure(&setting).await;
    assert_eq!(failed.code, "claude_wrong_version");
    assert!(failed.message.contains("2.1.247") && failed.message.contains("9.9.9"), "{}", failed.message);
}

#[tokio::test]
async fn a_program_that_showed_its_version_before_is_not_asked_again() {
    for (shown_before, launches) in [(false, 2), (true, 1)] {
        let mut setting = Setting::new();
        setting.plan.version_shown_before = shown_before;
        let count = setting.top.path().join("launches");
        launcher(&mut setting, &format!("echo one >>{} && exec LAUNCH \"$@\"", count.display()));
        let shim = setting.start();
        let turn = shim.executor.turn(0).await;
        shim.executor.reply(&turn, "done", &[]);
        shim.executor.finished().await;
        assert_eq!(std::fs::read_to_string(count).unwrap().lines().count(), launches);
    }
}

#[tokio::test]
async fn its_init_line_is_compared_all_the_same() {
    let mut setting = Setting::new();
    setting.plan.version_shown_before = true;
    setting.plan.expected_version = "9.9.9".to_owned();
    let failed = failure(&setting).await;
    assert_eq!(failed.code, "claude_init_mismatch");
    assert!(failed.message.contains("version"), "{}", failed.message);
}

#[tokio::test]
async fn the_last_words_of_one_that_ends_at_once_are_told_without_secrets_and_paths() {
    let mut setting = Setting::new();
    setting.plan.expected_version.clear();
    setting.relay().script(
        "echo \"cannot read $HOME/x: $ANTHROPIC_API_KEY at $ANTHROPIC_BASE_URL\" >&2\n\
         echo \"config $CLAUDE_CONFIG_DIR, tmp $TMPDIR, args $*, me $0\" >&2; exit 3",
    );
    let failed = failure(&setting).await;
    assert_eq!(failed.code, "claude_exited");
    let expected = "Claude Code ended, with code 3, without a result\n\
        cannot read <home>/x: <secret> at http://127.0.0.1:<number>\n\
        config <config>, tmp <tmp>, args --bare -p";
    assert!(failed.message.starts_with(expected), "{}", failed.message);
    assert!(failed.message.contains("--mcp-config <run>/mcp.json"), "{}", failed.message);
}

#[tokio::test]
async fn a_set_up_that_is_not_as_asked_ends_the_run_before_any_turn() {
    for (change, named) in [
        (["--model", "other"], "model"),
        (["--tools", "Read"], "tools"),
        (["--permission-mode", "default"], "permission mode"),
    ] {
        let mut setting = Setting::new();
        setting.relay().append = change.map(str::to_owned).to_vec();
        setting.plan.expected_version.clear();
        let failed = failure(&setting).await;
        assert_eq!(failed.code, "claude_init_mismatch", "{change:?}: {}", failed.message);
        assert!(failed.message.contains(named), "{change:?}: {}", failed.message);
    }
}

#[tokio::test]
async fn a_working_directory_with_a_repository_in_it_is_refused() {
    let setting = Setting::new();
    std::fs::create_dir_all(std::path::Path::new(&setting.plan.cwd_dir).join(".git")).unwrap();
    assert_eq!(failure(&setting).await.code, "claude_not_started");
}

#[tokio::test]
async fn a_plan_that_cannot_be_used_is_refused() {
    let mut setting = Setting::new();
    setting.plan.claude_session_id = "--dangerous".to_owned();
    assert_eq!(failure(&setting).await.code, "claude_not_started");
}
