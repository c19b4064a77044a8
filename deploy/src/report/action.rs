//! One call with its receipt and what it changed.

use gatehouse_proto::v1::{ActionView, ContentView, DiffView};
use serde_json::{Map, Value};

use super::html::Html;
use super::lasted;

/// The fields of an input that say best what a call is about, the best first.
const ABOUT: [&str; 8] =
    ["file_path", "notebook_path", "argv", "text", "glob", "name_contains", "directory", "tool_call_id"];
/// Fields of a receipt that are text of several lines, with their titles.
const BLOCKS: [(&str, &str); 6] = [
    ("message", "What happened"),
    ("hint", "What to do"),
    ("content", "Content"),
    ("stdout", "Standard output"),
    ("stderr", "Standard error"),
    ("note", "Note"),
];

pub(super) fn write(html: &mut Html, call: &ActionView, diff: Option<&DiffView>) {
    // What changed something and what failed is shown at once.
    let shown = diff.is_some() || call.ok == Some(false) || call.state == "uncertain";
    html.markup(if shown { "<details class=\"call\" open id=\"" } else { "<details class=\"call\" id=\"" });
    html.id(&call.tool_call_id)
        .markup("\">\n<summary><span class=\"name\">")
        .text(&call.name)
        .markup("</span>");
    let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
    html.element("<span class=\"about\">", about(&input), "</span>");
    badge(html, call);
    if let Some(end) = call.finished_at_ms {
        html.element("<span class=\"when\">", lasted(call.authorised_at_ms, end), "</span>");
    }
    html.markup("</summary>\n<div class=\"body\">\n");
    if let Some(diff) = diff {
        difference(html, diff);
    }
    block(html, "Input", &pretty(&call.input_json, &input));
    receipt(html, call.receipt_json.as_deref(), diff.is_some());
    hashes(html, call, diff);
    html.markup("</div></details>\n");
}

fn about(input: &Value) -> String {
    let found = ABOUT.iter().find_map(|name| match &input[name] {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => None,
    });
    found.unwrap_or_default().chars().take(300).map(|c| if c == '\n' { ' ' } else { c }).collect()
}

fn badge(html: &mut Html, call: &ActionView) {
    match (call.state.as_str(), call.ok) {
        ("uncertain", _) => html.markup("<span class=\"badge bad\">nobody can tell</span>"),
        (_, Some(true)) => html.markup("<span class=\"badge good\">ok</span>"),
        (_, Some(false)) => {
            html.element("<span class=\"badge bad\">", call.code.as_deref().unwrap_or("not ok"), "</span>")
        }
        (state, None) => html.element("<span class=\"badge warn\">", state, "</span>"),
    };
}

fn difference(html: &mut Html, diff: &DiffView) {
    html.markup("<div><span class=\"label\">");
    let made = diff.state == "done" && diff.ok == Some(true);
    html.text(if made { "Changed: " } else { "Intended: " }).markup("<code>").text(&diff.file_path);
    html.markup("</code></span>");
    if let Some(note) = &diff.note {
        html.element("<p class=\"note\">", note, "</p>");
    }
    if let Some(text) = diff.diff.as_deref().filter(|text| !text.is_empty()) {
        html.markup("<pre class=\"diff\" tabindex=\"0\" aria-label=\"Difference\">");
        for line in text.lines() {
            match line.as_bytes().first() {
                Some(b'+') => html.element("<ins>", line, "</ins>"),
                Some(b'-') => html.element("<del>", line, "</del>"),
                Some(b'@' | b'\\') => html.element("<span class=\"hunk\">", line, "</span>"),
                _ => html.element("<span class=\"same\">", line, "</span>"),
            };
        }
        html.markup("</pre>");
    }
    if diff.truncated {
        let counts = format!("It goes on: {} lines come and {} go.", diff.lines_added, diff.lines_removed);
        html.element("<p class=\"note\">", counts, "</p>");
    }
    html.markup("</div>\n");
}

/// JSON over several lines; what is none as it is.
fn pretty(text: &str, value: &Value) -> String {
    match value {
        Value::Null => text.to_owned(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

fn block(html: &mut Html, title: &'static str, text: &str) {
    if text.is_empty() {
        return;
    }
    html.element("<div><span class=\"label\">", title, "</span><pre class=\"wrap\" tabindex=\"0\">");
    html.text(text).markup("</pre></div>\n");
}

fn receipt(html: &mut Html, text: Option<&str>, has_diff: bool) {
    let Some(text) = text else { return };
    let Ok(Value::Object(mut receipt)) = serde_json::from_str(text) else {
        return block(html, "Receipt", text);
    };
    // What stands elsewhere on the page already.
    let said: &[&str] = match has_diff {
        true => &[
            "diff",
            "file_path",
            "notebook_path",
            "before_sha256",
            "after_sha256",
            "lines_added",
            "lines_removed",
        ],
        false => &[],
    };
    for name in ["tool_call_id", "name", "ok", "code"].iter().chain(said) {
        receipt.remove(*name);
    }
    for (name, title) in BLOCKS {
        if let Some(Value::String(text)) = receipt.remove(name) {
            block(html, title, &text);
        }
    }
    lines(html, &mut receipt, "entries", "Found", |entry| word(&entry["path"]));
    lines(html, &mut receipt, "matches", "Matches", |found| {
        format!("{}:{}: {}", word(&found["path"]), found["line"], word(&found["text"]).trim_end())
    });
    rest(html, receipt);
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn lines(
    html: &mut Html,
    receipt: &mut Map<String, Value>,
    name: &str,
    title: &'static str,
    line: impl Fn(&Value) -> String,
) {
    if let Some(Value::Array(items)) = receipt.remove(name) {
        block(html, title, &items.iter().map(line).collect::<Vec<_>>().join("\n"));
    }
}

/// What is left of a receipt: names and values.
fn rest(html: &mut Html, receipt: Map<String, Value>) {
    let facts: Vec<_> = receipt.into_iter().filter(|(_, value)| !value.is_null()).collect();
    if facts.is_empty() {
        return;
    }
    html.markup("<div><span class=\"label\">Receipt</span><dl class=\"facts\">");
    for (name, value) in facts {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        html.element("<dt>", name, "</dt>").element("<dd class=\"mono\">", text, "</dd>\n");
    }
    html.markup("</dl></div>\n");
}

fn hashes(html: &mut Html, call: &ActionView, diff: Option<&DiffView>) {
    html.markup("<dl class=\"facts\">");
    let mut hash = |name: &'static str, value: &str| {
        html.element("<dt>", name, "</dt>").element("<dd class=\"mono\">", value, "</dd>\n");
    };
    hash("Call", &call.tool_call_id);
    if let Some(undone) = &call.undoes {
        hash("Undoes", undone);
    }
    let side = |content: &Option<ContentView>| match content {
        Some(content) => format!("{} ({} bytes)", content.sha256, content.bytes),
        None => "no file".to_owned(),
    };
    if let Some(diff) = diff.filter(|diff| !diff.state.is_empty()) {
        hash("SHA-256 before", &side(&diff.before));
        hash("SHA-256 after", &side(&diff.after));
    }
    if let Some(sha256) = &call.receipt_sha256 {
        hash("Receipt’s SHA-256", sha256);
    }
    html.markup("</dl>\n");
}
