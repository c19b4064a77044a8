//! As much of the output as there is room for: whole lines of its beginning and of its end.

use super::super::cut::{cut_to_json_bytes, json_len};
use super::super::redact::redacted;
use crate::commands::KeptOutput;

/// What a receipt shows of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub text: String,
    /// How many bytes of the output are not in it.
    pub dropped: u64,
    /// How many passwords were taken out.
    pub redacted: usize,
}

/// Room for the line that stands where something was left out.
const MARK: usize = 64;

/// Both outputs, in so many bytes of JSON. What one does not need the other has.
pub(super) fn excerpts(stdout: &KeptOutput, stderr: &KeptOutput, room: usize) -> (Excerpt, Excerpt) {
    let half = room / 2;
    let needs = |output: &KeptOutput| if output.is_whole() { whole(output).cost() } else { usize::MAX };
    let (for_stdout, for_stderr) = match (needs(stdout), needs(stderr)) {
        (out, _) if out <= half => (out, room - out),
        (_, err) if err <= half => (room - err, err),
        _ => (half, room - half),
    };
    (excerpt(stdout, for_stdout), excerpt(stderr, for_stderr))
}

fn excerpt(output: &KeptOutput, room: usize) -> Excerpt {
    if output.is_whole() {
        let all = whole(output);
        if all.cost() <= room {
            return Excerpt { redacted: all.redacted, text: all.text, dropped: 0 };
        }
    }
    let room = room.saturating_sub(MARK);
    // The end of a log says most.
    let (head, tail) = parts(output);
    let head = first_lines(head, room / 3);
    let tail = last_lines(tail, room - head.cost());
    let dropped = output.total - head.bytes - tail.bytes;
    let mark = format!("[... {dropped} bytes left out ...]\n");
    let gap = if head.text.is_empty() || head.text.ends_with('\n') { "" } else { "\n" };
    Excerpt {
        text: format!("{}{gap}{mark}{}", head.text, tail.text),
        dropped,
        redacted: head.redacted + tail.redacted,
    }
}

/// A piece of the output as text.
struct Piece {
    text: String,
    /// How many bytes of the output it stands for.
    bytes: u64,
    redacted: usize,
}

impl Piece {
    fn cost(&self) -> usize {
        json_len(&self.text)
    }
}

fn piece(bytes: &[u8]) -> Piece {
    let (text, redacted) = redacted(&String::from_utf8_lossy(bytes));
    Piece { text, bytes: bytes.len() as u64, redacted }
}

fn whole(output: &KeptOutput) -> Piece {
    if output.tail.is_empty() {
        piece(&output.head)
    } else {
        piece(&[&output.head[..], &output.tail].concat())
    }
}

/// The two parts. Where something lies between them, the lines that it cuts through belong to neither, as far as there are
/// lines: half of one could show half a password.
fn parts(output: &KeptOutput) -> (&[u8], &[u8]) {
    let (head, tail) = (&output.head[..], &output.tail[..]);
    if output.tail.is_empty() {
        return (head, head);
    }
    let head_end = head.iter().rposition(|byte| *byte == b'\n').map_or(head.len(), |at| at + 1);
    let tail_start = tail.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    (&head[..head_end], &tail[tail_start..])
}

/// Whole lines from the start; of the first one a part, if it does not fit.
fn first_lines(bytes: &[u8], room: usize) -> Piece {
    let (mut used, mut end) = (0, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        used += piece(line).cost();
        if used > room {
            break;
        }
        end += line.len();
    }
    if end > 0 || bytes.is_empty() {
        return piece(&bytes[..end]);
    }
    let line = piece(bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default());
    let text = cut_to_json_bytes(&line.text, room).to_owned();
    let bytes = (text.len() as u64).min(line.bytes);
    Piece { bytes, redacted: line.redacted, text }
}

/// Whole lines up to the end; of the last one a part, if it does not fit.
fn last_lines(bytes: &[u8], room: usize) -> Piece {
    let (mut used, mut start) = (0, bytes.len());
    while start > 0 {
        let line_start = bytes[..start - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        used += piece(&bytes[line_start..start]).cost();
        if used > room {
            break;
        }
        start = line_start;
    }
    if start < bytes.len() || bytes.is_empty() {
        return piece(&bytes[start..]);
    }
    let line_start = bytes[..start - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = piece(&bytes[line_start..]);
    let mut from = line.text.len();
    let mut used = 0;
    for (at, c) in line.text.char_indices().rev() {
        used += super::super::cut::json_bytes(c);
        if used > room {
            break;
        }
        from = at;
    }
    let text = line.text[from..].to_owned();
    Piece { bytes: (text.len() as u64).min(line.bytes), redacted: line.redacted, text }
}
