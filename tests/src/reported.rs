//! A session of the real Claude Code in which something of every kind happens, to be looked at afterwards.

use gatehouse::chatgpt::{Brain, Call, Start};
use serde_json::{Value, json};

use crate::Gateway;
use crate::places::Project;

/// What stands in the prompt and must nowhere become markup.
pub const RAW_MARKUP: &str = "<b>notes</b>";

/// What happened.
#[derive(Debug)]
pub struct Reported {
    /// The session, which is idle.
    pub session: String,
    /// The edit of a file, which was undone.
    pub edit: String,
    /// Where it worked.
    pub project: Project,
}

async fn act(brain: &mut Brain, words: &str, calls: &[Call]) -> Vec<Value> {
    brain.act(Some(words), calls).await.expect("the turn is answered");
    brain.state().tool_results().into_iter().map(|result| result.receipt).collect()
}

/// Two runs in a real directory: reads, a search, an edit, a new file, a notebook of nothing, a command, a failure, an undo.
///
/// # Panics
/// When a step does not come to its end.
pub async fn reported(gateway: &mut Gateway) -> Reported {
    let project = Project::small();
    let notes = project.write("notes.txt", "# Notes\n\nlantern = dim\nwick = trimmed\n");
    let start = Start {
        profile: "direct_write",
        label: Some("Tidy the lantern project".to_owned()),
        ..Start::new(
            format!("Tidy up the {RAW_MARKUP} of this project.\n\nSay what you changed."),
            project.text(),
        )
    };
    let mut brain = gateway.session(&start).await;
    let first = [
        Call::new("Read", json!({"file_path": notes})),
        Call::new("SearchText", json!({"text": "quicksilver"})),
        Call::new("Read", json!({"file_path": project.path().join("absent.txt")})),
    ];
    act(&mut brain, "I look at the notes and search for the word that the prompt hints at.", &first).await;
    let second = [
        Call::new(
            "Edit",
            json!({"file_path": notes, "old_string": "lantern = dim", "new_string": "lantern = bright"}),
        ),
        Call::new(
            "Write",
            json!({"file_path": project.path().join("docs/changes.md"), "content": "# Changes\n\n- The lantern is bright.\n", "create_only": true}),
        ),
        Call::new("RunCommand", json!({"argv": ["sh", "-c", "cat notes.txt; echo to-stderr >&2; exit 3"]})),
    ];
    let receipts = act(
        &mut brain,
        "I read both first. Now the change, a note about it, and a look at the result.",
        &second,
    )
    .await;
    let edit = receipts[0]["tool_call_id"].as_str().expect("the edit's id").to_owned();
    brain.finish("The lantern is bright now; docs/changes.md says so.").await.expect("the run ends");
    let session = brain.session_id().to_owned();
    let undone = gateway.cli(&["undo", &session, &edit]);
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    brain.go_on("Was anything undone? Then leave it so.").await.expect("the next run starts");
    brain.finish("All is tidy.").await.expect("the run ends");
    Reported { session, edit, project }
}
