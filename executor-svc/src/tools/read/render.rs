//! Turning a range into the text of an answer: within a budget, whole lines where possible, passwords left out.

use super::range::{Limit, Taken};
use crate::tools::cut::{json_bytes, json_len};
use crate::tools::redact::{REACH, REDACTED, secret_spans};

/// Where in the file to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    pub line: u64,
    pub column: u64,
}

/// The text of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub content: String,
    /// Where the range goes on that did not fit; `None` if all of it is there.
    pub cut: Option<Next>,
    /// How many whole lines and further characters it holds.
    pub lines: u64,
    pub redacted: usize,
}

struct Pen<'a> {
    taken: &'a Taken,
    spans: Vec<std::ops::Range<usize>>,
    room: usize,
    content: String,
    cost: usize,
    lines: u64,
    redacted: usize,
    /// The state after the last whole line: offset in the window, length of the content.
    line_end: (usize, usize, usize),
}

/// Renders `taken`, which begins at `start`, into at most `room` bytes of JSON text.
pub(super) fn render(taken: &Taken, start: Next, room: usize) -> Rendered {
    let spans = secret_spans(&taken.window);
    let line_end = (taken.from, 0, 0);
    let mut pen =
        Pen { taken, spans, room, content: String::new(), cost: 0, lines: 0, redacted: 0, line_end };
    let stopped_at = pen.write();
    let cut = stopped_at.map(|at| pen.cut_at(at, start));
    Rendered { content: pen.content, cut, lines: pen.lines, redacted: pen.redacted }
}

impl Pen<'_> {
    /// Writes as much as fits; `Some` offset in the window where it had to stop.
    fn write(&mut self) -> Option<usize> {
        let window = self.taken.window.as_str();
        // What was read ahead only to recognise a URL is not shown unless the line ends within it.
        let ahead = if self.taken.limit == Limit::Bytes { REACH } else { 0 };
        let soft_end = window.len().saturating_sub(ahead);
        let mut spans = std::mem::take(&mut self.spans).into_iter().peekable();
        let mut at = self.taken.from;
        while let Some(c) = window[at..].chars().next() {
            while spans.next_if(|span| span.end <= at).is_some() {}
            let secret = spans.peek().filter(|span| span.start <= at).map(|span| span.end);
            let cost = match secret {
                Some(_) => json_len(REDACTED),
                None if c == '\r' && window[at..].starts_with("\r\n") => 0,
                None => json_bytes(c),
            };
            if self.cost + cost > self.room || at >= soft_end && ahead > 0 {
                return Some(at);
            }
            self.cost += cost;
            match secret {
                Some(end) => {
                    self.content.push_str(REDACTED);
                    self.redacted += 1;
                    at = end;
                }
                None => {
                    if cost > 0 {
                        self.content.push(c);
                    }
                    at += c.len_utf8();
                }
            }
            if c == '\n' {
                self.lines += 1;
                self.line_end = (at, self.content.len(), self.redacted);
            }
        }
        (self.taken.limit == Limit::Bytes).then_some(at)
    }

    /// Goes back to the end of the last whole line if there is one, else cuts inside the line.
    fn cut_at(&mut self, at: usize, start: Next) -> Next {
        if self.lines > 0 {
            self.content.truncate(self.line_end.1);
            self.redacted = self.line_end.2;
            return Next { line: start.line + self.lines, column: 1 };
        }
        let characters = self.taken.window[self.taken.from..at].chars().count() as u64;
        Next { line: start.line, column: start.column + characters }
    }
}
