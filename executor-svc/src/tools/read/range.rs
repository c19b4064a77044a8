//! Picking a range of lines out of a text that goes by in blocks, in bounded memory.

use memchr::{memchr, memchr_iter};

use crate::tools::redact::REACH;

/// Which part of the text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// First line, from 1.
    pub line: u64,
    /// First character of that line, from 1.
    pub column: u64,
    /// How many lines at most.
    pub lines: u64,
    /// How many bytes are enough.
    pub bytes: usize,
}

/// Collects the wanted range.
#[derive(Debug)]
pub(super) struct Range {
    state: State,
    /// Bytes of the first line before the range, as far as a URL could reach; then the range.
    window: Vec<u8>,
    /// Where in the window the range begins.
    from: usize,
    enough: usize,
    consumed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many line ends to go.
    Seeking { line_ends: u64 },
    /// So many characters of the first line to go.
    Columns { characters: u64 },
    /// Within the range; so many line ends until its end.
    Taking { line_ends: u64 },
    /// Nothing more is wanted.
    Done { by: Limit },
}

/// What ended a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// All the lines that were wanted are there.
    Lines,
    /// There is more, and enough for one answer.
    Bytes,
    /// The text ended.
    End,
}

/// A collected range.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The range with its surroundings.
    pub window: String,
    /// Where in `window` it begins.
    pub from: usize,
    /// What ended it.
    pub limit: Limit,
}

impl Range {
    pub(super) const fn new(wanted: &Wanted) -> Self {
        let state = match wanted.line - 1 {
            0 => State::Columns { characters: wanted.column - 1 },
            line_ends => State::Seeking { line_ends },
        };
        Self { state, window: Vec::new(), from: 0, enough: wanted.bytes + REACH, consumed: 0 }
    }

    pub(super) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done { .. })
    }

    /// How many bytes of the text lie before the end of the range.
    pub(super) const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Takes the next block of the text (without its byte order mark).
    pub(super) fn feed(&mut self, block: &[u8], wanted: &Wanted) {
        let mut rest = block;
        while !rest.is_empty() && !self.is_done() {
            rest = match self.state {
                State::Seeking { line_ends } => self.seek(rest, line_ends, wanted),
                State::Columns { characters } => self.skip(rest, characters, wanted),
                State::Taking { line_ends } => self.take(rest, line_ends),
                State::Done { .. } => &[],
            };
        }
        self.consumed += (block.len() - rest.len()) as u64;
    }

    fn seek<'a>(&mut self, block: &'a [u8], line_ends: u64, wanted: &Wanted) -> &'a [u8] {
        let here = memchr_iter(b'\n', block).count() as u64;
        if here < line_ends {
            self.state = State::Seeking { line_ends: line_ends - here };
            return &[];
        }
        self.state = State::Columns { characters: wanted.column - 1 };
        let nth = usize::try_from(line_ends - 1).unwrap_or(usize::MAX);
        memchr_iter(b'\n', block).nth(nth).map_or(&[], |at| &block[at + 1..])
    }

    fn skip<'a>(&mut self, block: &'a [u8], characters: u64, wanted: &Wanted) -> &'a [u8] {
        let line = &block[..memchr(b'\n', block).unwrap_or(block.len())];
        let starts_here = line.iter().filter(|byte| starts_character(**byte)).count() as u64;
        let found = if starts_here > characters {
            let nth = usize::try_from(characters).unwrap_or(usize::MAX);
            line.iter().enumerate().filter(|(_, byte)| starts_character(**byte)).nth(nth).map(|(at, _)| at)
        } else {
            // A column behind the end of the line is the end of the line.
            (line.len() < block.len()).then_some(line.len())
        };
        let skipped = found.unwrap_or(block.len());
        self.remember(&block[..skipped]);
        if found.is_some() {
            self.from = self.window.len();
            self.state = State::Taking { line_ends: wanted.lines };
        } else {
            self.state = State::Columns { characters: characters - starts_here };
        }
        &block[skipped..]
    }

    /// Keeps the last bytes before the range.
    fn remember(&mut self, skipped: &[u8]) {
        self.window.extend_from_slice(&skipped[skipped.len().saturating_sub(REACH)..]);
        let surplus = self.window.len().saturating_sub(REACH);
        self.window.drain(..surplus);
    }

    fn take<'a>(&mut self, block: &'a [u8], line_ends: u64) -> &'a [u8] {
        let room = (self.from + self.enough).saturating_sub(self.window.len());
        let fits = &block[..block.len().min(room)];
        let nth = usize::try_from(line_ends - 1).unwrap_or(usize::MAX);
        if let Some(at) = memchr_iter(b'\n', fits).nth(nth) {
            self.window.extend_from_slice(&fits[..=at]);
            self.state = State::Done { by: Limit::Lines };
            return &block[at + 1..];
        }
        self.window.extend_from_slice(fits);
        self.state = if fits.len() < block.len() {
            State::Done { by: Limit::Bytes }
        } else {
            State::Taking { line_ends: line_ends - memchr_iter(b'\n', fits).count() as u64 }
        };
        &block[fits.len()..]
    }

    /// The range, once the text has ended or no more is wanted. The text must have been UTF-8.
    pub(super) fn finish(self) -> Taken {
        let limit = match self.state {
            State::Done { by } => by,
            State::Seeking { .. } | State::Columns { .. } | State::Taking { .. } => Limit::End,
        };
        let from = if matches!(self.state, State::Taking { .. } | State::Done { .. }) {
            self.from
        } else {
            self.window.len()
        };
        // Both ends of the window may lie within a character; the range's own start does not.
        let cut = self.window.iter().take_while(|byte| !starts_character(**byte)).count().min(from);
        let bytes = &self.window[cut..];
        let valid = std::str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
        let window = String::from_utf8_lossy(&bytes[..valid]).into_owned();
        Taken { from: (from - cut).min(window.len()), window, limit }
    }
}

/// Whether a byte of UTF-8 begins a character.
const fn starts_character(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}
