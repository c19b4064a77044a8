//! What Claude Code prints: a JSON object a line on standard output, anything on standard error.

use std::collections::VecDeque;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc;

use super::init::InitLine;

/// The longest line that is read. The result line repeats the final text, which may be a whole reply of escapes.
const MAX_LINE: u64 = 8 * 1024 * 1024;
/// What is kept of standard error.
const MAX_TAIL_LINES: usize = 20;
const MAX_TAIL_LINE: usize = 400;

/// A line that says something to us.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// The first one.
    Init(Box<InitLine>),
    /// The last one.
    Result(ResultLine),
}

/// The `result` line.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResultLine {
    pub(super) is_error: bool,
    pub(super) result: String,
    pub(super) num_turns: u32,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", default)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(default)]
    subtype: Option<std::borrow::Cow<'a, str>>,
}

/// `None`: a line of another kind (messages are repeated here), or not JSON.
pub(super) fn parse(line: &[u8]) -> Option<Line> {
    let kind: Kind<'_> = serde_json::from_slice(line).ok()?;
    match (kind.kind.as_ref(), kind.subtype.as_deref()) {
        ("system", Some("init")) => serde_json::from_slice(line).ok().map(Box::new).map(Line::Init),
        ("result", _) => serde_json::from_slice(line).ok().map(Line::Result),
        _ => None,
    }
}

/// Reads standard output to its end.
pub(super) fn lines(stdout: Option<impl AsyncRead + Unpin + Send + 'static>) -> mpsc::Receiver<Line> {
    let (out, lines) = mpsc::channel(4);
    if let Some(stdout) = stdout {
        tokio::spawn(async move {
            let mut stdout = BufReader::new(stdout);
            while let Some(line) = next_line(&mut stdout).await {
                if let Some(line) = parse(&line)
                    && out.send(line).await.is_err()
                {
                    return;
                }
            }
        });
    }
    lines
}

/// The next line, cut at its bound; the rest of one that is longer is passed over as lines that are no JSON.
async fn next_line(stdout: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    match stdout.take(MAX_LINE).read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line),
    }
}

/// The last lines of a text.
#[derive(Debug, Default)]
pub struct Tail(VecDeque<String>);

impl Tail {
    fn push(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        // It says on every start that it does not know the model's name, which is so.
        if text.is_empty() || text.starts_with("[claude-code:unrecognized_model]") {
            return;
        }
        if self.0.len() == MAX_TAIL_LINES {
            self.0.pop_front();
        }
        self.0.push_back(text.get(..text.floor_char_boundary(MAX_TAIL_LINE)).unwrap_or_default().to_owned());
    }

    pub(super) fn into_text(self) -> String {
        Vec::from(self.0).join("\n")
    }
}

/// Reads standard error to its end, keeping the last lines.
pub(super) async fn tail(stderr: Option<impl AsyncRead + Unpin>) -> Tail {
    let mut tail = Tail::default();
    if let Some(stderr) = stderr {
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        while matches!((&mut stderr).take(16 * 1024).read_until(b'\n', &mut line).await, Ok(1..)) {
            tail.push(&line);
            line.clear();
        }
    }
    tail
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_result_line_is_read_and_others_are_passed_over() {
        let result = br#"{"type":"result","subtype":"success","is_error":true,"result":"API Error","num_turns":3,"x":[1]}"#;
        let expected = ResultLine { is_error: true, result: "API Error".into(), num_turns: 3 };
        assert_eq!(parse(result), Some(Line::Result(expected)));
        assert!(matches!(parse(br#"{"type":"system","subtype":"init","tools":[]}"#), Some(Line::Init(_))));
        for other in [
            r#"{"type":"assistant","message":{}}"#,
            r#"{"type":"system","subtype":"status"}"#,
            "warning: x",
            "[]",
            "",
        ] {
            assert_eq!(parse(other.as_bytes()), None, "{other}");
        }
    }

    #[tokio::test]
    async fn of_standard_error_the_last_lines_are_kept_without_the_usual_one() {
        let mut text = String::from("[claude-code:unrecognized_model] {}\n\n");
        for n in 0..30 {
            text += &format!("line {n} {}\n", "é".repeat(300));
        }
        let tail = tail(Some(text.as_bytes())).await.into_text();
        let lines: Vec<&str> = tail.lines().collect();
        assert_eq!(lines.len(), MAX_TAIL_LINES);
        assert!(lines[0].starts_with("line 10 ") && lines[19].starts_with("line 29 "));
        assert!(lines.iter().all(|line| line.len() <= MAX_TAIL_LINE));
        assert_eq!(super::tail(Some(&b"a\nlast without end"[..])).await.into_text(), "a\nlast without end");
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&line);
        }
    }
}
