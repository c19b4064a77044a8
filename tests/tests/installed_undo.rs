//! What the real Claude Code was told to change, shown and undone from the command line; and a change of which nobody can
//! tell whether it was made, decided there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use gatehouse::chatgpt::{Brain, Call, Start};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude};
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn parsed(output: &Output) -> Value {
    serde_json::from_str(&done(output)).unwrap()
}

/// A session that may change a small project, and one file of it.
struct Writing {
    gateway: Gateway,
    project: Project,
    brain: Brain,
    file: PathBuf,
}

impl Writing {
    async fn new() -> Option<Self> {
        let mut gateway = Gateway::start(Setup::with_claude(claude()?)).await;
        let project = Project::small();
        let file = project.write("a.txt", "one\n\ttwo\n");
        let start = Start { profile: "direct_write", ..Start::new("Change it.", project.text()) };
        let brain = gateway.session(&start).await;
        Some(Self { gateway, project, brain, file })
    }

    async fn act(&mut self, tool: &str, input: Value) -> String {
        self.brain.act(None, &[Call::new(tool, input)]).await.unwrap();
        let result = self.brain.state().tool_results().remove(0);
        assert!(result.ok, "{}", result.receipt);
        result.receipt["tool_call_id"].as_str().unwrap().to_owned()
    }

    fn edit(&self, old: &str, new: &str) -> Value {
        json!({"file_path": self.file, "old_string": old, "new_string": new})
    }

    /// A command about this session.
    fn cli(&self, command: &str, action: &str, more: &[&str]) -> Output {
        let mut arguments = vec![command, self.brain.session_id(), action];
        arguments.extend(more);
        self.gateway.cli(&arguments)
    }

    fn on_disk(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    /// What ChatGPT has not been told in an earlier turn.
    fn unreported(&self) -> Vec<Value> {
        self.brain.state().0["pending_turn"]["unreported"].as_array().unwrap().clone()
    }
}

fn nothing_temporary(directory: &Path) {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = entries.filter(|name| name.to_string_lossy().starts_with(".gatehouse")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_shown_and_undone_and_chatgpt_is_told() {
    let Some(mut writing) = Writing::new().await else { return };
    let input = writing.edit("two", "three");
    let edit = writing.act("Edit", input).await;
    let new = writing.project.path().join("deep/new.txt");
    let write = writing.act("Write", json!({"file_path": new, "content": "x\n", "create_only": true})).await;

    let shown = done(&writing.gateway.cli(&["show", writing.brain.session_id()]));
    assert!(shown.contains("CHANGE") && shown.contains("none → "), "{shown}");
    let path = writing.file.display();
    let diff = done(&writing.cli("diff", &edit, &[]));
    let wanted = format!("--- a{path}\n+++ b{path}\n@@ -1,2 +1,2 @@\n one\n-\ttwo\n+\tthree\n");
    assert_eq!(diff, wanted);
    let diff = parsed(&writing.cli("diff", &write, &["--json"]));
    assert_eq!((&diff["before"], &diff["diff"]), (&Value::Null, &json!("@@ -0,0 +1 @@\n+x\n")));

    let undone = parsed(&writing.cli("undo", &edit, &["--json", "--request-id", "u1"]));
    assert_eq!((&undone["name"], &undone["undoes"]), (&json!("Undo"), &json!(edit)), "{undone}");
    assert_eq!(writing.on_disk(), "one\n\ttwo\n");
    let again = parsed(&writing.cli("undo", &edit, &["--json", "--request-id", "u1"]));
    assert_eq!(again, undone, "the same request");
    let words = done(&writing.cli("undo", &write, &[]));
    assert!(words.starts_with("Undone.") && words.contains("no file") && words.contains("/deep"), "{words}");
    assert!(!new.parent().unwrap().exists());

    let id = undone["tool_call_id"].as_str().unwrap();
    std::fs::write(&writing.file, "by hand\n").unwrap();
    let words = failed(&writing.cli("undo", id, &[]));
    assert!(words.contains("changed_meanwhile") && words.contains("is not what the action wrote"), "{words}");
    assert_eq!(writing.on_disk(), "by hand\n");
    let words = failed(&writing.cli("undo", &format!("toolu_{}", "0".repeat(24)), &[]));
    assert!(words.contains("no action of this id") && words.contains("gatehouse show"), "{words}");
    let words = failed(&writing.cli("resolve", &edit, &["--keep-disk"]));
    assert!(words.contains("not uncertain"), "{words}");

    writing.brain.status(0).await.unwrap();
    assert_eq!(writing.unreported().len(), 2, "ChatGPT is told");
    writing.act("Read", json!({"file_path": writing.file})).await;
    let told: Vec<_> =
        writing.unreported().iter().map(|result| result["receipt"]["undoes"].clone()).collect();
    assert_eq!(told, [json!(edit), json!(write)], "in the turn after the one that was pending as well");
    writing.brain.finish("Done.").await.unwrap();
    let verified = parsed(&writing.gateway.cli(&["verify", "--json"]));
    assert_eq!((&verified["ok"], &verified["contents"]), (&json!(true), &json!(3)), "{verified}");
    writing.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_whose_executor_is_killed_is_made_or_not_and_says_so() {
    let Some(mut writing) = Writing::new().await else { return };
    let input = writing.edit("two", "three");
    let edit = writing.act("Edit", input).await;
    for (round, (step, made)) in [("swap", false), ("finish", true)].into_iter().enumerate() {
        writing.gateway.kill_executor();
        writing.gateway.start_executor_with(&[("GATEHOUSE_FAIL_AT", step)]).await;
        let request = format!("u{round}");
        let cut = writing.cli("undo", &edit, &["--request-id", &request]);
        assert_ne!(cut.status.code(), Some(0), "{step}: {}", text(&cut.stdout));
        assert!(writing.gateway.executor_ends(Duration::from_secs(30)).await, "{step} is reached");
        writing.gateway.kill_executor();
        writing.gateway.start_executor().await;
        let again = writing.cli("undo", &edit, &["--request-id", &request]);
        if made {
            done(&again);
        } else {
            assert!(failed(&again).contains("restarted before the undo was made"), "{}", text(&again.stderr));
        }
        assert_eq!(writing.on_disk().contains("two"), made, "{step}");
        nothing_temporary(&writing.project.path());
    }
    writing.brain.until(|state| state.status() == "waiting_for_gpt").await.unwrap();
    writing.brain.finish("Done.").await.unwrap();
    writing.gateway.finish().await;
}

/// Has the executor die before an edit is made, and somebody write to the file meanwhile; gives the edit.
async fn interrupted(writing: &mut Writing) -> String {
    writing.gateway.kill_executor();
    writing.gateway.start_executor_with(&[("GATEHOUSE_FAIL_AT", "swap")]).await;
    writing.brain.until(|state| state.status() == "waiting_for_gpt").await.unwrap();
    let arguments = writing.brain.reply_arguments(None, &[Call::new("Edit", writing.edit("two", "three"))]);
    let client = writing.gateway.client();
    let asked = tokio::spawn(async move { client.call("native_session_reply_and_wait", arguments).await });
    assert!(writing.gateway.executor_ends(Duration::from_secs(30)).await, "the swap is reached");
    writing.gateway.kill_executor();
    std::fs::write(&writing.file, "somebody's\n").unwrap();
    writing.gateway.start_executor().await;
    let _ = asked.await.unwrap();
    writing.brain.until(|state| state.status() == "recovery_required").await.unwrap();
    let shown = parsed(&writing.gateway.cli(&["show", writing.brain.session_id(), "--json"]));
    let actions = shown["actions"].as_array().unwrap();
    let waits: Vec<_> = actions.iter().filter(|action| action["state"] == "uncertain").collect();
    assert_eq!(waits.len(), 1, "{shown}");
    waits[0]["tool_call_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_nobody_can_tell_the_end_of_is_decided_and_the_session_goes_on() {
    let Some(mut writing) = Writing::new().await else { return };
    let edit = interrupted(&mut writing).await;
    let shown = done(&writing.gateway.cli(&["show", writing.brain.session_id()]));
    assert!(shown.contains("Waits for you") && shown.contains("gatehouse resolve"), "{shown}");
    let diff = done(&writing.cli("diff", &edit, &[]));
    assert!(diff.starts_with("Nobody can tell") && diff.contains("-\ttwo\n+\tthree"), "{diff}");
    let refused = writing.brain.recover().await.unwrap_err();
    assert_eq!(refused.code(), Some("recovery_blocked"));
    let words = failed(&writing.cli("undo", &edit, &[]));
    assert!(words.contains("gatehouse resolve"), "{words}");

    let decided = parsed(&writing.cli("resolve", &edit, &["--restore-before", "--json"]));
    assert_eq!(writing.on_disk(), "one\n\ttwo\n");
    nothing_temporary(&writing.project.path());
    writing.brain.recover().await.unwrap();
    writing.brain.until(|state| state.status() == "idle").await.unwrap();
    // The old process may still be on its way out.
    gatehouse_tests::waiting::until("the session goes on", async || {
        writing.brain.go_on("And now?").await.ok().map(drop)
    })
    .await;
    writing.gateway.learn(&writing.brain);
    let told: Vec<_> = writing.unreported().iter().map(|result| result["name"].clone()).collect();
    assert_eq!(told, [json!("Edit"), json!("Resolve")]);

    let id = decided["tool_call_id"].as_str().unwrap();
    done(&writing.cli("undo", id, &[]));
    assert_eq!(writing.on_disk(), "somebody's\n", "what was there is kept, and a decision can be undone");
    writing.brain.finish("Done.").await.unwrap();
    writing.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stopped_sessions_left_is_pruned() {
    let Some(mut writing) = Writing::new().await else { return };
    let input = writing.edit("two", "three");
    let edit = writing.act("Edit", input).await;
    let prune = |writing: &Writing, more: &[&str]| {
        let mut arguments = vec!["prune", "--older-than", "0s", "--json"];
        arguments.extend(more);
        parsed(&writing.gateway.cli(&arguments))
    };
    assert_eq!(prune(&writing, &[])["contents_removed"], 0, "the session lives");
    writing.brain.stop("Enough.").await.unwrap();
    writing.brain.until(|state| state.status() == "stopped").await.unwrap();
    let would = prune(&writing, &["--dry-run"]);
    assert_eq!((&would["contents_removed"], &would["sessions"]), (&json!(2), &json!(1)), "{would}");
    done(&writing.cli("diff", &edit, &[]));
    let words = done(&writing.gateway.cli(&["prune", "--older-than", "0s"]));
    assert!(words.starts_with("Removed 2 of 2 contents"), "{words}");
    let words = failed(&writing.cli("undo", &edit, &[]));
    assert!(words.contains("not kept any more") && words.contains("pruned"), "{words}");
    let words = done(&writing.gateway.cli(&["verify"]));
    assert!(words.contains("2 more were pruned"), "{words}");
    writing.gateway.finish().await;
}
