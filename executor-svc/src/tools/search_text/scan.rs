//! Finding the lines of a file that hold the text, in bounded memory.

use memchr::{memchr, memchr_iter, memrchr};

use super::needle::Needle;
use crate::files::text::{BOM, Utf8Check};
use crate::files::walk::Reason;

/// A file up to this size is read at once; a larger one goes through a window of this size.
pub(super) const WINDOW: usize = 1024 * 1024;

/// A NUL byte within so many bytes from the start marks a binary file.
const SNIFFED: usize = 8 * 1024;

/// A line that holds the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    /// From 1.
    pub line: u64,
    /// Where the text begins in the line, in characters from 1.
    pub column: u64,
    /// Where the line begins, in bytes from the start of the file.
    pub line_start: u64,
    /// Where the text begins, in bytes from the start of the file.
    pub start: u64,
}

/// What is looked for in one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    pub needle: &'a Needle,
    /// Lines up to this one were given before.
    pub after: u64,
    /// How many hits are enough.
    pub enough: usize,
}

/// Searches a file that is in memory as a whole.
pub(super) fn search_whole(content: &[u8], search: &Search<'_>) -> Result<Vec<Hit>, Reason> {
    if memchr(0, &content[..content.len().min(SNIFFED)]).is_some() {
        return Err(Reason::Binary);
    }
    // The search runs first: over text that no cache holds yet it is the faster pass, and warms it for the other.
    let mut lines = Lines::new(search);
    let mark = if content.starts_with(BOM) { BOM.len() } else { 0 };
    lines.look_at(&content[mark..], mark as u64, More::None);
    simdutf8::basic::from_utf8(content).map_err(|_| Reason::NotUtf8)?;
    Ok(lines.hits)
}

/// Searches a file that comes in blocks; `fill` puts bytes into a buffer and says how many, 0 at the end.
pub(super) fn search_stream(
    buffer: &mut Vec<u8>,
    mut fill: impl FnMut(&mut [u8]) -> Result<usize, Reason>,
    search: &Search<'_>,
) -> Result<Vec<Hit>, Reason> {
    buffer.resize(buffer.len().max(2 * WINDOW), 0);
    let mut lines = Lines::new(search);
    let mut utf8 = Utf8Check::default();
    // buffer[..held] is what of the file, from `base` on, has not been dealt with.
    let (mut held, mut base) = (0_usize, 0_u64);
    loop {
        let got = fill(&mut buffer[held..])?;
        let fresh = &buffer[held..held + got];
        if base == 0 && held == 0 && memchr(0, &fresh[..got.min(SNIFFED)]).is_some() {
            return Err(Reason::Binary);
        }
        utf8.feed(fresh).map_err(|_| Reason::NotUtf8)?;
        let ended = got == 0;
        let data = &buffer[..held + got];
        let mark = if base == 0 && data.starts_with(BOM) { BOM.len() } else { 0 };
        let whole_lines = memrchr(b'\n', data).map_or(0, |at| at + 1);
        let done = if ended {
            lines.look_at(&data[mark.min(data.len())..], base + mark as u64, More::None);
            data.len()
        } else if whole_lines > 0 {
            lines.look_at(&data[mark..whole_lines], base + mark as u64, More::Follow);
            whole_lines
        } else if data.len() == buffer.len() {
            mark + lines.look_at_part(&data[mark..], base + mark as u64)
        } else {
            0
        };
        if ended {
            utf8.finish().map_err(|_| Reason::NotUtf8)?;
            return Ok(lines.hits);
        }
        held += got;
        buffer.copy_within(done..held, 0);
        held -= done;
        base += done as u64;
    }
}

/// The lines of a file as they go by.
struct Lines<'a> {
    search: &'a Search<'a>,
    hits: Vec<Hit>,
    /// The line that comes next, or goes on.
    line: u64,
    /// Where that line begins, if part of it has gone by.
    begun: Option<Begun>,
}

/// Whether further lines follow, whose numbers will be needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    Follow,
    None,
}

/// A line of which a part has gone by.
#[derive(Clone, Copy)]
struct Begun {
    line_start: u64,
    /// How many characters have gone by.
    characters: u64,
    /// Whether the text was found in them.
    hit: bool,
}

impl<'a> Lines<'a> {
    const fn new(search: &'a Search<'a>) -> Self {
        Self { search, hits: Vec::new(), line: 1, begun: None }
    }

    fn has_enough(&self) -> bool {
        self.hits.len() >= self.search.enough
    }

    /// Looks at whole lines (the last one of a file may lack its end). `base` is where they begin in the file.
    fn look_at(&mut self, bytes: &[u8], base: u64, more: More) {
        let mut from = 0;
        if let Some(begun) = self.begun.take() {
            from = self.end_begun_line(begun, bytes, base);
        }
        let mut counted = from;
        while !self.has_enough() {
            let Some((start, end)) = self.search.needle.find(bytes, from) else { break };
            let line_start = memrchr(b'\n', &bytes[counted..start]).map_or(counted, |at| counted + at + 1);
            self.line += memchr_iter(b'\n', &bytes[counted..line_start]).count() as u64;
            counted = line_start;
            self.hit(base + line_start as u64, characters(&bytes[line_start..start]), base + start as u64);
            from = memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |at| end + at + 1);
        }
        if more == More::Follow {
            self.line += memchr_iter(b'\n', &bytes[counted..]).count() as u64;
        }
    }

    /// Looks at the rest of a line that began before; gives where the next line begins.
    fn end_begun_line(&mut self, mut begun: Begun, bytes: &[u8], base: u64) -> usize {
        let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        self.look_within(&mut begun, &bytes[..end], base);
        if end > 0 && bytes[end - 1] == b'\n' {
            self.line += 1;
        }
        end
    }

    /// Looks at a part of a line longer than the window; gives how much of it is dealt with.
    fn look_at_part(&mut self, bytes: &[u8], base: u64) -> usize {
        let mut begun = self.begun.unwrap_or(Begun { line_start: base, characters: 0, hit: false });
        self.look_within(&mut begun, bytes, base);
        // An occurrence may begin at the end of this part.
        let done = bytes.len() - self.search.needle.longest().min(bytes.len());
        begun.characters += characters(&bytes[..done]);
        self.begun = Some(begun);
        done
    }

    fn look_within(&mut self, begun: &mut Begun, bytes: &[u8], base: u64) {
        if begun.hit {
            return;
        }
        if let Some((start, _)) = self.search.needle.find(bytes, 0) {
            self.hit(begun.line_start, begun.characters + characters(&bytes[..start]), base + start as u64);
            begun.hit = true;
        }
    }

    fn hit(&mut self, line_start: u64, characters_before: u64, start: u64) {
        if self.line > self.search.after && !self.has_enough() {
            self.hits.push(Hit { line: self.line, column: characters_before + 1, line_start, start });
        }
    }
}

/// How many characters begin in these bytes.
fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64
}
