//! `gatehouse undo`, and what it has in common with `gatehouse resolve`.

use gatehouse_proto::v1::{ActionView, UndoActionRequest};
use serde_json::Value;

use super::view::{action_json, parsed, short};
use crate::cli::Undo;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::{Screen, clean};

pub(super) async fn run(mut operator: Operator, options: Undo, screen: &mut Screen) -> Result<(), Failure> {
    let ask = UndoActionRequest {
        native_session_id: options.action.session,
        tool_call_id: options.action.action,
        request_id: options.request_id.unwrap_or_else(fresh_id),
    };
    let undo = operator.undo_action(ask).await?.into_inner();
    if options.action.json {
        screen.line(action_json(&undo).to_string())?;
    }
    let receipt = outcome(&undo)?;
    if !options.action.json {
        screen.line("Undone. The session's model is told.")?;
        screen.facts(&facts(&undo, &receipt))?;
    }
    Ok(())
}

/// A fresh id of a request.
pub(super) fn fresh_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// The receipt of an operation that worked.
pub(super) fn outcome(action: &ActionView) -> Result<Value, Failure> {
    let receipt = parsed(action.receipt_json.as_deref());
    match action.ok {
        Some(true) => Ok(receipt),
        Some(false) => {
            let word = |name: &str| clean(receipt[name].as_str().unwrap_or_default(), 600);
            Err(Failure::failed(format!("{}: {}", word("code"), word("message"))).hint(word("hint")))
        }
        None => {
            let ids = format!("{} {}", action.native_session_id, action.tool_call_id);
            Err(Failure::failed(format!("nobody can tell whether {} was made", action.tool_call_id))
                .hint(format!("Look at the file, then decide with `gatehouse resolve {ids}`.")))
        }
    }
}

/// What a receipt says of the file.
pub(super) fn facts(action: &ActionView, receipt: &Value) -> Vec<(&'static str, String)> {
    let hash = |name: &str| match receipt[name].as_str() {
        Some(sha256) => short(sha256).to_owned(),
        None => "no file".to_owned(),
    };
    let mut facts = vec![
        ("action", action.tool_call_id.clone()),
        ("file", clean(receipt["file_path"].as_str().unwrap_or_default(), 300)),
        ("SHA-256", format!("{} → {}", hash("before_sha256"), hash("after_sha256"))),
        ("lines", format!("{} come, {} go", receipt["lines_added"], receipt["lines_removed"])),
    ];
    for (name, field) in [("made", "created_directories"), ("removed", "removed_directories")] {
        let directories = receipt[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        facts.extend(directories.map(|directory| (name, clean(directory, 300))));
    }
    if let Some(note) = receipt["note"].as_str() {
        facts.push(("note", clean(note, 600)));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn what_did_not_work_or_is_uncertain_fails_with_a_way_out() {
        let receipt =
            r#"{"code":"changed_meanwhile","message":"/a: another process changed it","hint":"Look."}"#;
        let failed =
            ActionView { ok: Some(false), receipt_json: Some(receipt.into()), ..ActionView::default() };
        let failure = outcome(&failed).unwrap_err();
        assert_eq!((failure.exit, failure.what_to_do.as_deref()), (Exit::Failed, Some("Look.")));
        assert!(failure.message.contains("another process"));
        let uncertain = ActionView { tool_call_id: "toolu_0".into(), ..ActionView::default() };
        assert!(outcome(&uncertain).unwrap_err().what_to_do.unwrap().contains("resolve"));
    }
}
