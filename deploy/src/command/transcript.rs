//! A session as it goes, readable: who said what, how long it took.

use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::chatgpt::{Call, State, ToolResult};
use crate::screen::{Screen, Style, clean};

/// How many lines of a receipt are shown.
const RECEIPT_LINES: usize = 8;
/// How wide a line may get.
const WIDTH: usize = 110;

/// Writes the transcript and keeps the time between two entries.
#[derive(Debug)]
pub(super) struct Transcript<'a> {
    screen: &'a mut Screen,
    last: Instant,
}

impl<'a> Transcript<'a> {
    pub(super) fn new(screen: &'a mut Screen) -> Self {
        Self { screen, last: Instant::now() }
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.last, now))
    }

    fn entry(&mut self, who: &str, style: Style, what: &str) -> io::Result<()> {
        let lap = self.lap();
        let time = self.screen.paint(Style::Dim, &format!("{:>7.2} s", lap.as_secs_f64()));
        let who = self.screen.paint(style, &format!("{who:<11}"));
        self.screen.line(format!("{time}  {who}  {what}"))
    }

    fn detail(&mut self, text: &str) -> io::Result<()> {
        self.screen.line(format!("{:24}{text}", ""))
    }

    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        self.screen.line("")?;
        self.screen.heading(text)
    }

    /// Something that the gateway did.
    pub(super) fn gateway(&mut self, what: &str) -> io::Result<()> {
        self.entry("gateway", Style::Dim, what)
    }

    /// A tool that ChatGPT calls, or a reply of its own.
    pub(super) fn chatgpt(&mut self, what: &str) -> io::Result<()> {
        self.entry("ChatGPT", Style::Good, &clean(what, WIDTH))
    }

    /// The tool calls of a reply.
    pub(super) fn calls(&mut self, calls: &[Call]) -> io::Result<()> {
        for call in calls {
            self.chatgpt(&format!("calls {} {}", call.name(), call.input()))?;
        }
        Ok(())
    }

    /// Where the session stands now: a pending turn, or the end of a run.
    pub(super) fn state(&mut self, state: &State) -> io::Result<()> {
        let turn = &state.0["pending_turn"];
        if turn.is_null() {
            return self.rest(state);
        }
        let ordinal = &turn["ordinal"];
        match turn["prompt"].as_str() {
            Some(prompt) => self.claude(&format!("asks (turn {ordinal}): {}", clean(prompt, WIDTH)))?,
            None => self.claude(&format!("asks (turn {ordinal}), with the results of its tools"))?,
        }
        for result in state.tool_results() {
            self.result(&result)?;
        }
        Ok(())
    }

    fn rest(&mut self, state: &State) -> io::Result<()> {
        match state.0["last_result"]["text"].as_str() {
            Some(text) if state.status() == "idle" => {
                self.claude("ends its run; the session is idle, its last result:")?;
                for line in text.lines() {
                    self.detail(&clean(line, WIDTH))?;
                }
                Ok(())
            }
            Some(_) | None => self.gateway(&format!("the session is {}", state.status())),
        }
    }

    fn claude(&mut self, what: &str) -> io::Result<()> {
        self.entry("Claude Code", Style::Attention, what)
    }

    fn result(&mut self, result: &ToolResult) -> io::Result<()> {
        let bytes = result.receipt.to_string().len();
        let outcome = result.receipt["code"].as_str().unwrap_or(if result.ok { "ok" } else { "failed" });
        let head = format!("{}: {outcome}, receipt of {bytes} bytes", result.name);
        let head = self.screen.paint(if result.ok { Style::Good } else { Style::Bad }, &head);
        self.detail(&head)?;
        let lines = receipt_lines(&result.receipt);
        for line in lines.iter().take(RECEIPT_LINES) {
            let line = self.screen.paint(Style::Dim, &format!("│ {}", clean(line, WIDTH)));
            self.detail(&line)?;
        }
        if lines.len() > RECEIPT_LINES {
            let more = self.screen.paint(Style::Dim, &format!("│ … {} more", lines.len() - RECEIPT_LINES));
            self.detail(&more)?;
        }
        Ok(())
    }
}

/// The part of a receipt that a person wants to see: paths found, lines matched, text read, or the reason of a refusal.
fn receipt_lines(receipt: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(entries) = receipt["entries"].as_array() {
        return entries.iter().map(|entry| format!("{}  {}", text(&entry["path"]), entry["bytes"])).collect();
    }
    if let Some(matches) = receipt["matches"].as_array() {
        let line = |found: &Value| {
            format!("{}:{}: {}", text(&found["path"]), found["line"], text(&found["text"]).trim())
        };
        return matches.iter().map(line).collect();
    }
    if receipt["stdout"].is_string() {
        return command_lines(receipt);
    }
    let shown = ["content", "diff", "message"].into_iter().find_map(|field| receipt[field].as_str());
    match shown {
        Some(text) => text.lines().map(str::to_owned).collect(),
        None => vec![receipt.to_string()],
    }
}

/// How a command ended, then what it wrote.
fn command_lines(receipt: &Value) -> Vec<String> {
    let end = match (receipt["exit_code"].as_i64(), receipt["signal"].as_str()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by {signal}"),
        (None, None) => "ended".to_owned(),
    };
    let mut lines = vec![format!("{end} after {} ms", receipt["duration_ms"])];
    for stream in ["stdout", "stderr"] {
        lines.extend(receipt[stream].as_str().unwrap_or_default().lines().map(str::to_owned));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_receipt_shows_what_it_is_about() {
        let found = json!({"entries": [{"path": "/a", "bytes": 3}]});
        assert_eq!(receipt_lines(&found), ["/a  3"]);
        let matched = json!({"matches": [{"path": "/a", "line": 2, "text": "  x"}]});
        assert_eq!(receipt_lines(&matched), ["/a:2: x"]);
        assert_eq!(receipt_lines(&json!({"content": "1\n2"})), ["1", "2"]);
        let ran = json!({"exit_code": 1, "signal": null, "duration_ms": 5, "stdout": "o\n", "stderr": "e"});
        assert_eq!(receipt_lines(&ran), ["exit code 1 after 5 ms", "o", "e"]);
        let killed = json!({"exit_code": null, "signal": "SIGKILL", "duration_ms": 5, "stdout": ""});
        assert_eq!(receipt_lines(&killed), ["ended by SIGKILL after 5 ms"]);
        assert_eq!(receipt_lines(&json!({"diff": "-a\n+b"})), ["-a", "+b"]);
        assert_eq!(receipt_lines(&json!({"code": "not_found"})), ["{\"code\":\"not_found\"}"]);
    }
}
