//! One session as an HTML page that stands by itself: no script, nothing from elsewhere, everything from outside escaped.
//!
//! Parts come from the executor in the order of the page, so that a session of any length is written in bounded memory.
//! The look is in `style.css`.

mod action;
mod html;

use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::v1::export_part::Part;
use gatehouse_proto::v1::{
    ActionView, DiffView, ExportFacts, ExportRun, ExportTurn, SessionStatus, SessionView,
};

use self::html::{Html, base64_of_hex};
use crate::command::view::{self, known};

const STYLE: &str = include_str!("style.css");
const COVER: &str = include_str!("page.html");

/// The page as it grows.
#[derive(Debug, Default)]
pub struct Report {
    html: Html,
    session: SessionView,
    /// A call waits for its difference, which comes as the next part.
    call: Option<ActionView>,
    open: Open,
}

/// Which elements are open.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    Main,
    Run,
    Turn,
    Operator,
}

impl Report {
    /// Takes the next part and gives what of the page is finished.
    pub fn part(&mut self, part: Part) -> String {
        if let Part::Diff(diff) = part {
            self.settle(Some(&diff));
            return self.html.take();
        }
        self.settle(None);
        match part {
            Part::Session(session) => self.begin(session),
            Part::Facts(facts) => self.facts(&facts),
            Part::Run(run) => self.run(&run),
            Part::Turn(turn) => self.turn(&turn),
            Part::Action(call) => self.action(call),
            Part::Diff(_) => {}
        }
        self.html.take()
    }

    /// The rest of the page.
    pub fn finish(&mut self) -> String {
        self.settle(None);
        self.close_to(Open::Main);
        self.last_result();
        self.unreported();
        self.html.markup(
            "</main>\n<footer><p>Written by <code>gatehouse export</code>. The hashes are of the bytes in the gateway's \
             ledger and content store; <code>gatehouse verify</code> checks them there. A page can be changed by whoever \
             holds it: compare the journal's hash with a note that was taken elsewhere.</p></footer>\n</body>\n</html>\n",
        );
        self.html.take()
    }

    fn begin(&mut self, session: SessionView) {
        let title = session.session_label.as_deref().unwrap_or(&session.native_session_id).to_owned();
        let html = &mut self.html;
        html.markup("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.markup("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-");
        html.text(base64_of_hex(&sha256_hex(STYLE.as_bytes()))).markup("'\">\n");
        html.markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
        html.element("<title>", &title, " – Gatehouse</title>\n");
        html.markup("<style>").source(STYLE).markup("</style>\n</head>\n<body>\n");
        html.markup("<a class=\"skip\" href=\"#runs\">Skip to the runs</a>\n").source(COVER);
        html.element("<h1>", &title, "</h1>\n<p class=\"lead\">");
        let (class, status) = status_badge(session.status());
        html.markup(class).text(status).markup("</span> ");
        html.text(known(session.capability_profile().name())).markup(" in <code>");
        html.text(&session.source_directory).markup("</code></p>\n");
        html.markup("<div class=\"card\"><h2>Session</h2><dl class=\"facts\">");
        session_facts(html, &session);
        html.markup("</dl></div>\n");
        self.session = session;
    }

    fn facts(&mut self, facts: &ExportFacts) {
        let html = &mut self.html;
        html.markup("<div class=\"card\"><h2>Integrity</h2><p>");
        match facts.broken_at_seq {
            None => html
                .markup("<span class=\"badge good\">the chain holds</span> Each of the journal's ")
                .number(facts.journal_entries)
                .markup(" entries carries the hash of the one before."),
            Some(seq) => html
                .markup("<span class=\"badge bad\">the chain is broken</span> The journal's entry ")
                .number(seq)
                .markup(" is not what was written. What follows may not be what happened."),
        };
        html.markup("</p><dl class=\"facts\">");
        fact(html, "Runs, turns, calls", format!("{}, {}, {}", facts.runs, facts.turns, facts.actions));
        let range = format!("{} entries, from {} to {}", facts.entries, facts.first_seq, facts.last_seq);
        fact(html, "In the journal", range);
        mono_fact(html, "Journal’s hash", &facts.journal_sha256);
        fact(html, "Exported", format!("{}, Gatehouse {}", moment(facts.exported_at_ms), facts.version));
        html.markup("</dl></div>\n</header>\n<main id=\"runs\">\n<nav aria-label=\"Runs\"><ul>");
        for ordinal in 1..=facts.runs {
            html.markup("<li><a href=\"#run-")
                .number(ordinal)
                .markup("\">Run ")
                .number(ordinal)
                .markup("</a></li>");
        }
        html.markup("</ul></nav>\n");
        self.open = Open::Main;
    }

    fn run(&mut self, run: &ExportRun) {
        self.close_to(Open::Main);
        let html = &mut self.html;
        html.markup("<section class=\"run\" id=\"run-").number(run.ordinal).markup("\">\n<header><h2>Run ");
        html.number(run.ordinal).markup("</h2><span class=\"when\">").text(moment(run.started_at_ms));
        match run.ended_at_ms {
            Some(end) => html.text(format!(", {}", lasted(run.started_at_ms, end))),
            None => html.text(", under way"),
        };
        html.markup("</span></header>\n<div class=\"prompt\"><span class=\"label\">Prompt</span><p class=\"prose\" dir=\"auto\">");
        html.text(&run.prompt).markup("</p></div>\n");
        self.open = Open::Run;
    }

    fn turn(&mut self, turn: &ExportTurn) {
        self.close_to(Open::Run);
        let html = &mut self.html;
        html.markup("<article class=\"turn\" id=\"").id(&turn.turn_id).markup("\">\n<header><h3>Turn ");
        html.number(turn.ordinal).markup("</h3><span class=\"when\">").text(moment(turn.opened_at_ms));
        if let Some(at) = turn.answered_at_ms {
            html.text(format!(", answered after {}", lasted(turn.opened_at_ms, at)));
        }
        html.markup("</span>");
        match turn.state.as_str() {
            "answered" => {}
            "pending" => drop(html.markup("<span class=\"badge warn\">waits for ChatGPT</span>")),
            _ => {
                html.markup("<span class=\"badge soft\">given up</span><span class=\"when\">");
                html.text(turn.closed_why.as_deref().unwrap_or_default()).markup("</span>");
            }
        }
        html.markup("</header>\n");
        if let Some(text) = turn.reply_text.as_deref().filter(|text| !text.is_empty()) {
            html.markup("<span class=\"label\">ChatGPT</span><p class=\"prose\" dir=\"auto\">")
                .text(text)
                .markup("</p>\n");
        }
        self.open = Open::Turn;
    }

    fn action(&mut self, call: ActionView) {
        if call.turn_id.is_empty() && self.open != Open::Operator {
            self.close_to(Open::Main);
            self.html.markup("<section class=\"run\" id=\"operator\">\n<header><h2>At the machine</h2><span class=\"when\">what the operator did</span></header>\n");
            self.open = Open::Operator;
        }
        self.call = Some(call);
    }

    /// Writes the call that waits, with its difference if there is one.
    fn settle(&mut self, diff: Option<&DiffView>) {
        if let Some(call) = self.call.take() {
            action::write(&mut self.html, &call, diff);
        }
    }

    fn close_to(&mut self, wanted: Open) {
        match self.open {
            Open::Turn => drop(self.html.markup("</article>\n")),
            Open::Nothing | Open::Main | Open::Run | Open::Operator => {}
        }
        let in_section = matches!(self.open, Open::Run | Open::Turn | Open::Operator);
        if in_section && wanted == Open::Main {
            self.html.markup("</section>\n");
        }
        if self.open != Open::Nothing {
            self.open = wanted;
        }
    }

    fn last_result(&mut self) {
        let html = &mut self.html;
        if let Some(last) = &self.session.last_result {
            html.markup("<section class=\"run\" id=\"last-result\"><header><h2>Last result</h2>");
            html.markup(if last.ok {
                "<span class=\"badge good\">ok</span>"
            } else {
                "<span class=\"badge bad\">not ok</span>"
            });
            html.element("<span class=\"when\">", moment(last.finished_at_ms), "</span></header>");
            html.element("<p class=\"prose\" dir=\"auto\">", &last.text, "</p></section>\n");
        }
        if let Some(error) = &self.session.launch_error {
            html.markup("<section class=\"run\"><header><h2>It could not be started</h2></header><div class=\"card\"><p>");
            html.element("<code>", &error.code, "</code>: ").text(&error.message).markup("</p><p>");
            html.text(&error.what_to_do).markup("</p></div></section>\n");
        }
    }

    fn unreported(&mut self) {
        let Some(turn) = self.session.pending_turn.as_ref().filter(|turn| !turn.unreported.is_empty()) else {
            return;
        };
        let html = &mut self.html;
        html.markup("<section class=\"run\" id=\"unreported\"><header><h2>Not told to Claude Code</h2></header><p>These were finished without Claude Code hearing of it. ChatGPT is told in the pending turn.</p><ul>");
        for result in &turn.unreported {
            html.markup("<li><a href=\"#").id(&result.tool_call_id).markup("\">").text(&result.name);
            html.markup("</a> <code>").text(&result.tool_call_id).markup("</code></li>");
        }
        html.markup("</ul></section>\n");
    }
}

fn session_facts(html: &mut Html, session: &SessionView) {
    mono_fact(html, "Id", &session.native_session_id);
    fact(html, "Created", moment(session.created_at_ms));
    if session.last_call_at_ms > 0 {
        fact(html, "Last call", moment(session.last_call_at_ms));
    }
    if session.working_directory != session.source_directory {
        mono_fact(html, "Works in", &session.working_directory);
    }
    if let Some(workspace) = &session.workspace {
        fact(html, "Workspace", &workspace.note);
        if let Some(head) = &workspace.source_head {
            mono_fact(html, "Made at commit", head);
        }
    }
    fact(html, "Main route", "chatgpt-main, without a fallback");
    if let Some(network) = &session.network_boundary {
        let layers = match network.enforced_by.is_empty() {
            true => "nothing".to_owned(),
            false => network.enforced_by.join(", "),
        };
        fact(html, "Claude Code was held by", layers);
    }
    mono_fact(html, "Claude session", &session.claude_session_id);
    for skill in &session.skill_snapshot {
        let text = format!("{}, {} bytes, SHA-256 {}", skill.skill_id, skill.bytes, skill.content_sha256);
        fact(html, "Skill", text);
    }
    if let Some(end) = &session.terminal {
        fact(html, "Ended", format!("{}: {}", moment(end.at_ms), end.reason));
    }
}

fn fact(html: &mut Html, name: &'static str, value: impl AsRef<str>) {
    html.element("<dt>", name, "</dt>").element("<dd dir=\"auto\">", value, "</dd>\n");
}

fn mono_fact(html: &mut Html, name: &'static str, value: impl AsRef<str>) {
    html.element("<dt>", name, "</dt>").element("<dd class=\"mono\">", value, "</dd>\n");
}

fn status_badge(status: SessionStatus) -> (&'static str, &'static str) {
    let class = match status {
        SessionStatus::Idle | SessionStatus::Running | SessionStatus::Starting => {
            "<span class=\"badge good\">"
        }
        SessionStatus::WaitingForGpt | SessionStatus::Stopping | SessionStatus::LeaseExpired => {
            "<span class=\"badge warn\">"
        }
        SessionStatus::Failed | SessionStatus::RecoveryRequired => "<span class=\"badge bad\">",
        SessionStatus::Stopped | SessionStatus::Unspecified => "<span class=\"badge soft\">",
    };
    (class, known(status.name()))
}

/// A moment as people write it, in UTC.
fn moment(at_ms: u64) -> String {
    view::moment(at_ms).replace('T', " ").replace('Z', " UTC")
}

/// A span of time in the unit that suits it.
fn lasted(from_ms: u64, to_ms: u64) -> String {
    let ms = to_ms.saturating_sub(from_ms);
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

#[cfg(test)]
mod tests;
