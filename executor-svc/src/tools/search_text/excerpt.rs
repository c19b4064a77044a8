//! What an answer shows of a line that holds the text, and of the lines around it.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;

use memchr::memchr;

use super::scan::Hit;
use crate::tools::redact::{REACH, line_from};

/// How much of a line with a hit is shown, in bytes of JSON.
const SHOWN: usize = 1024;
/// How much of it before the hit, in characters, when the line is too long to show.
const BEFORE_HIT: usize = 80;
/// How much of each line around it is shown, in bytes of JSON.
const CONTEXT_SHOWN: usize = 400;
/// How far around a hit lines are looked for, in bytes.
const CONTEXT_REACH: u64 = 16 * 1024;

/// Where the bytes of a file are to be had.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    Memory(&'a [u8]),
    File(&'a File),
}

/// The lines of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub text: String,
    /// The column of the first character of `text`; above 1 when the start of the line is left out.
    pub text_column: u64,
    /// Whether the end of the line is left out.
    pub text_cut: bool,
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// Cuts out the line of a hit and `context` lines around it.
pub(super) fn excerpt(source: Source<'_>, hit: &Hit, context: usize) -> Excerpt {
    let (slab, at) = source.around(
        hit.start,
        hit.line_start.max(hit.start.saturating_sub(2 * REACH as u64)),
        2 * REACH as u64,
    );
    let line_is_whole = at as u64 == hit.start - hit.line_start;
    let fits = line_is_whole && slab[..at].chars().count() <= BEFORE_HIT * 3;
    let from = if fits { 0 } else { back(&slab, at, BEFORE_HIT) };
    let hidden_before = slab[from..at].chars().count() as u64;
    let (text, text_cut) = line_from(&slab, from, SHOWN);
    let mut excerpt = Excerpt {
        text,
        text_column: hit.column - hidden_before,
        text_cut,
        before: Vec::new(),
        after: Vec::new(),
    };
    if context > 0 {
        excerpt.before = source.lines_before(hit, context);
        excerpt.after = source.lines_after(hit, context);
    }
    excerpt
}

/// `characters` back from byte `at`.
fn back(text: &str, at: usize, characters: usize) -> usize {
    text[..at].char_indices().rev().take(characters).last().map_or(at, |(index, _)| index)
}

impl<'a> Source<'a> {
    /// The bytes from `from` to `to`, or to the end of the file.
    fn bytes(&self, from: u64, to: u64) -> Cow<'a, [u8]> {
        let length = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
        match self {
            Self::Memory(content) => {
                let from = usize::try_from(from).unwrap_or(usize::MAX).min(content.len());
                Cow::Borrowed(&content[from..(from + length).min(content.len())])
            }
            Self::File(file) => {
                let mut bytes = vec![0; length];
                let mut got = 0;
                while got < length {
                    match file.read_at(&mut bytes[got..], from + got as u64) {
                        Ok(more) if more > 0 => got += more,
                        _ => break,
                    }
                }
                bytes.truncate(got);
                Cow::Owned(bytes)
            }
        }
    }

    /// The text from `from` to the end of the line that `start` is in, at most `reach` bytes behind it; and where in it
    /// `start` is.
    fn around(&self, start: u64, from: u64, reach: u64) -> (Cow<'a, str>, usize) {
        let at = usize::try_from(start - from).unwrap_or(0);
        let (text, skipped) = match self.bytes(from, start + reach) {
            Cow::Borrowed(bytes) => one_line(bytes, at),
            Cow::Owned(bytes) => {
                let (text, skipped) = one_line(&bytes, at);
                (Cow::Owned(text.into_owned()), skipped)
            }
        };
        let at = at.saturating_sub(skipped).min(text.len());
        let at = (0..=at).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0);
        (text, at)
    }

    fn lines_before(&self, hit: &Hit, count: usize) -> Vec<String> {
        // Before the first line there is nothing, or a byte order mark.
        let Some(end) = hit.line_start.checked_sub(1).filter(|_| hit.line > 1) else { return Vec::new() };
        let from = end.saturating_sub(CONTEXT_REACH);
        let bytes = self.bytes(from, end);
        let text = String::from_utf8_lossy(&bytes);
        let text = if from == 0 { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        let mut lines: Vec<&str> = text.rsplit('\n').take(count).collect();
        lines.reverse();
        lines.into_iter().map(shown).collect()
    }

    fn lines_after(&self, hit: &Hit, count: usize) -> Vec<String> {
        let bytes = self.bytes(hit.start, hit.start + 2 * CONTEXT_REACH);
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.split('\n').skip(1).take(count).map(shown).collect::<Vec<_>>();
        // Behind a final line end there is no further line.
        if lines.last().is_some_and(String::is_empty)
            && text.ends_with('\n')
            && text.matches('\n').count() <= count
        {
            lines.pop();
        }
        lines
    }
}

/// The text up to the first line end at or behind `at`, and how many bytes of a character's rest it leaves out before.
fn one_line(bytes: &[u8], at: usize) -> (Cow<'_, str>, usize) {
    let behind = bytes.get(at..).unwrap_or_default();
    let bytes = memchr(b'\n', behind).map_or(bytes, |end| &bytes[..=at + end]);
    // Both ends may lie within a character.
    let skipped = bytes.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
    let text = match String::from_utf8_lossy(&bytes[skipped..]) {
        Cow::Borrowed(text) => Cow::Borrowed(text),
        Cow::Owned(text) => Cow::Owned(text.trim_end_matches('\u{fffd}').to_owned()),
    };
    (text, skipped)
}

fn shown(line: &str) -> String {
    let (mut text, cut) = line_from(line, 0, CONTEXT_SHOWN);
    if cut {
        text.push('\u{2026}');
    }
    text
}
