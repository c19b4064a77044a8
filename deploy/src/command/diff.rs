//! `gatehouse diff`.

use gatehouse_proto::v1::{ContentView, DiffView, GetDiffRequest};
use serde_json::{Value, json};

use crate::cli::Action;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::{Screen, Style, clean_line};

pub(super) async fn run(mut operator: Operator, options: Action, screen: &mut Screen) -> Result<(), Failure> {
    let ask = GetDiffRequest { native_session_id: options.session, tool_call_id: options.action };
    let found = operator.get_diff(ask).await?.into_inner();
    if options.json {
        screen.line(as_json(&found).to_string())?;
    } else {
        show(&found, screen)?;
    }
    Ok(())
}

fn as_json(found: &DiffView) -> Value {
    let content = |side: &Option<ContentView>| {
        side.as_ref().map(|side| json!({"sha256": side.sha256, "bytes": side.bytes}))
    };
    json!({
        "tool_call_id": found.tool_call_id,
        "name": found.name,
        "state": found.state,
        "ok": found.ok,
        "file_path": found.file_path,
        "before": content(&found.before),
        "after": content(&found.after),
        "diff": found.diff,
        "truncated": found.truncated,
        "lines_added": found.lines_added,
        "lines_removed": found.lines_removed,
        "note": found.note,
    })
}

/// As `diff -u` and `git diff` write it; what a program such as `patch` does not read comes before the first hunk.
fn show(found: &DiffView, screen: &mut Screen) -> std::io::Result<()> {
    let mut remark = |text: &str| {
        let text = screen.paint(Style::Attention, &clean_line(text));
        screen.line(text)
    };
    match (found.state.as_str(), found.ok) {
        ("done", Some(true)) => {}
        ("done", _) => remark("This change was not made.")?,
        ("uncertain", _) => remark("Nobody can tell whether this change was made.")?,
        _ => remark("This change is under way.")?,
    }
    if let Some(note) = &found.note {
        remark(note)?;
    }
    let name = |side: &Option<ContentView>, mark: &str| match side {
        Some(_) => format!("{mark}{}", clean_line(&found.file_path)),
        None => "/dev/null".to_owned(),
    };
    for (mark, name) in [("---", name(&found.before, "a")), ("+++", name(&found.after, "b"))] {
        screen.heading(&format!("{mark} {name}"))?;
    }
    let Some(diff) = &found.diff else {
        let size = |side: &Option<ContentView>| side.as_ref().map_or(0, |side| side.bytes);
        let sizes = format!("{} and {} bytes", size(&found.before), size(&found.after));
        return screen.line(format!("Binary files differ: {sizes}."));
    };
    for line in diff.lines() {
        let line = match line.as_bytes().first() {
            Some(b'+') => screen.paint(Style::Good, &clean_line(line)),
            Some(b'-') => screen.paint(Style::Bad, &clean_line(line)),
            Some(b'@' | b'\\') => screen.paint(Style::Dim, &clean_line(line)),
            _ => clean_line(line),
        };
        screen.line(line)?;
    }
    if found.truncated {
        let counts = format!("{} lines come and {} go", found.lines_added, found.lines_removed);
        let text =
            screen.paint(Style::Attention, &format!("It goes on: in all {counts}, too much for one answer."));
        screen.line(text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Colour, tests};

    fn shown(found: &DiffView, colour: Colour) -> String {
        tests::shown(colour, |screen| show(found, screen))
    }

    fn edited() -> DiffView {
        let side = |bytes| Some(ContentView { sha256: "ab".into(), bytes });
        DiffView {
            state: "done".into(),
            ok: Some(true),
            file_path: "/w/a".into(),
            before: side(2),
            after: side(3),
            diff: Some("@@ -1 +1 @@\n-\told\n+new\u{1b}[2J\n".into()),
            ..DiffView::default()
        }
    }

    #[test]
    fn a_difference_looks_as_patch_reads_it_and_cannot_steer_the_terminal() {
        let wanted = "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-\told\n+new\u{fffd}[2J\n";
        assert_eq!(shown(&edited(), Colour::Off), wanted);
        let coloured = shown(&edited(), Colour::On);
        assert!(coloured.contains("\u{1b}[31m-\told\u{1b}[0m\n\u{1b}[32m+new"), "{coloured:?}");
    }

    #[test]
    fn what_was_made_removed_or_is_no_text_is_shown_as_such() {
        let made = DiffView { before: None, ..edited() };
        assert!(shown(&made, Colour::Off).starts_with("--- /dev/null\n+++ b/w/a\n"));
        let removed = DiffView { after: None, state: "uncertain".into(), ok: None, ..edited() };
        let removed = shown(&removed, Colour::Off);
        assert!(removed.starts_with("Nobody can tell") && removed.contains("\n+++ /dev/null\n"), "{removed}");
        let binary = DiffView { diff: None, note: Some("No text.".into()), ..edited() };
        let binary = shown(&binary, Colour::Off);
        assert!(binary.starts_with("No text.\n") && binary.ends_with("differ: 2 and 3 bytes.\n"), "{binary}");
    }
}
