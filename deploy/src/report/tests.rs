//! What is written is a page, and nothing from outside is markup in it.

use std::collections::BTreeSet;

use gatehouse_proto::v1::{
    ContentView, LastResult, NetworkBoundary, PendingTurn, SkillSnapshot, Terminal, ToolResult, Workspace,
    WriteView,
};
use proptest::prelude::*;

use super::*;

/// A session of every kind of part, with `text` wherever text comes from outside.
fn page(text: &str) -> String {
    let mut report = Report::default();
    let mut page = report.part(Part::Session(session(text)));
    page.push_str(&report.part(Part::Facts(ExportFacts {
        runs: 1,
        turns: 3,
        actions: 3,
        ..ExportFacts::default()
    })));
    let run =
        ExportRun { ordinal: 1, prompt: text.to_owned(), ended_at_ms: Some(90_000), ..ExportRun::default() };
    page.push_str(&report.part(Part::Run(run)));
    for state in ["answered", "pending", "abandoned"] {
        let turn = ExportTurn {
            turn_id: text.to_owned(),
            ordinal: 1,
            state: state.to_owned(),
            answered_at_ms: Some(1),
            reply_text: Some(text.to_owned()),
            closed_why: Some(text.to_owned()),
            ..ExportTurn::default()
        };
        page.push_str(&report.part(Part::Turn(turn)));
        page.push_str(&report.part(Part::Action(call(text, Some(true)))));
        page.push_str(&report.part(Part::Diff(diff(text))));
        page.push_str(&report.part(Part::Action(call(text, Some(false)))));
    }
    let undo = ActionView { turn_id: String::new(), undoes: Some(text.to_owned()), ..call(text, None) };
    page.push_str(&report.part(Part::Action(undo)));
    page.push_str(&report.finish());
    page
}

fn session(text: &str) -> SessionView {
    let text = || text.to_owned();
    SessionView {
        native_session_id: text(),
        session_label: Some(text()),
        source_directory: text(),
        working_directory: format!("{}/w", text()),
        claude_session_id: text(),
        last_call_at_ms: 1,
        workspace: Some(Workspace { note: text(), source_head: Some(text()), ..Workspace::default() }),
        network_boundary: Some(NetworkBoundary { enforced_by: vec![text()], ..NetworkBoundary::default() }),
        skill_snapshot: vec![SkillSnapshot { skill_id: text(), content_sha256: text(), bytes: 1 }],
        last_result: Some(LastResult { text: text(), ok: true, ..LastResult::default() }),
        terminal: Some(Terminal { reason: text(), ..Terminal::default() }),
        pending_turn: Some(PendingTurn {
            unreported: vec![ToolResult { tool_call_id: text(), name: text(), ..ToolResult::default() }],
            ..PendingTurn::default()
        }),
        ..SessionView::default()
    }
}

fn call(text: &str, ok: Option<bool>) -> ActionView {
    let json = |fields: &[&str]| {
        let map =
            fields.iter().map(|&name| (name.to_owned(), text.into())).collect::<serde_json::Map<_, _>>();
        serde_json::Value::Object(map)
    };
    let mut receipt = json(&["content", "message", "hint", "stdout", "stderr", "note", "sha256", "diff"]);
    receipt["entries"] = serde_json::json!([{"path": text}]);
    receipt["matches"] = serde_json::json!([{"path": text, "line": 1, "text": text}]);
    receipt[text] = text.into();
    ActionView {
        tool_call_id: text.to_owned(),
        turn_id: "turn_1".to_owned(),
        name: text.to_owned(),
        state: "done".to_owned(),
        ok,
        code: Some(text.to_owned()),
        input_json: json(&["file_path"]).to_string(),
        receipt_json: Some(receipt.to_string()),
        receipt_sha256: Some(text.to_owned()),
        finished_at_ms: Some(1),
        write: Some(WriteView::default()),
        ..ActionView::default()
    }
}

fn diff(text: &str) -> DiffView {
    let side = || Some(ContentView { sha256: text.to_owned(), bytes: 1 });
    DiffView {
        state: "done".to_owned(),
        ok: Some(true),
        file_path: text.to_owned(),
        before: side(),
        after: side(),
        diff: Some(format!("@@ -1 +1 @@ {text}\n-{text}\n+{text}\n {text}\n")),
        truncated: true,
        note: Some(text.to_owned()),
        ..DiffView::default()
    }
}

/// Every tag, with the identifiers taken out.
fn tags(page: &str) -> BTreeSet<String> {
    let after_style = page.split_once("</style>").unwrap().1;
    let starts =
        after_style.split('<').skip(1).map(|rest| rest.split_once('>').expect("a tag ends").0.to_owned());
    starts
        .map(|tag| match (tag.split_once(" id=\""), tag.split_once("href=\"#")) {
            (Some((before, _)), _) | (None, Some((before, _))) => before.to_owned(),
            (None, None) => tag,
        })
        .collect()
}

proptest! {
    #[test]
    fn whatever_a_session_holds_the_page_has_no_other_markup(text in "([<>&\"'=/ a-z!\\-]|\\PC|\\r|\\n|\\x00|\\x1b){0,60}") {
        let hostile = page(&text);
        prop_assert_eq!(tags(&hostile), tags(&page("x")));
        for marker in ['\u{1b}', '\0', '\r', '\u{202e}'] {
            prop_assert!(!hostile.contains(marker));
        }
    }
}

#[test]
fn what_usually_gets_through_does_not() {
    for text in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "</pre></details></body><h1>",
        "</style><script>",
        "<!-- ",
        "&lt;script&gt;",
        "javascript:alert(1)",
        "]]>",
    ] {
        assert_eq!(tags(&page(text)), tags(&page("x")), "{text}");
    }
    assert!(page("&lt;").contains("&amp;lt;"), "what looks escaped is escaped once more");
}

#[test]
fn the_page_allows_nothing_but_its_own_style() {
    let page = page("x");
    let policy = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-";
    assert!(page.contains(policy));
    for forbidden in ["<script", "http:", "https:", "url(", "@import", "style=\"", "onclick"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // Every element that is opened is closed.
    for tag in [
        "section", "article", "details", "summary", "div", "pre", "dl", "ul", "main", "header", "span", "p",
        "ins", "del",
    ] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn spans_of_time_are_in_units_that_suit_them() {
    let shown = [(0, 5), (0, 1500), (0, 61_000), (0, 3_660_000), (5, 0)].map(|(from, to)| lasted(from, to));
    assert_eq!(shown, ["5 ms", "1.5 s", "1 min 1 s", "1 h 1 min", "0 ms"]);
}
