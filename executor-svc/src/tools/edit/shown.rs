//! A file's text as Read shows it, and the way back to the bytes.

use std::borrow::Cow;

use memchr::{memchr_iter, memmem};

use crate::files::text::{BOM, BadByte, Eol, Hashing, TextScan};

/// The text without byte order mark and with LF for CR LF; lone CRs are characters like others.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    pub text: Cow<'a, str>,
    pub eol: Eol,
    /// Offsets in `text` of the LFs that are CR LF in the file.
    crlf: Vec<usize>,
    /// The length of the byte order mark.
    mark: usize,
}

impl<'a> Shown<'a> {
    /// Shows these bytes.
    ///
    /// # Errors
    /// [`BadByte`] if they are not UTF-8.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, BadByte> {
        let mut scan = TextScan::new(Hashing::Off);
        scan.feed(bytes)?;
        let eol = scan.finish()?.eol;
        let mark = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        let text =
            std::str::from_utf8(&bytes[mark..]).map_err(|e| BadByte((mark + e.valid_up_to()) as u64))?;
        let ends: Vec<usize> = memmem::find_iter(text.as_bytes(), b"\r\n").collect();
        if ends.is_empty() {
            return Ok(Self { text: Cow::Borrowed(text), eol, crlf: Vec::new(), mark });
        }
        let crlf = ends.iter().enumerate().map(|(index, at)| at - index).collect();
        Ok(Self { text: Cow::Owned(text.replace("\r\n", "\n")), eol, crlf, mark })
    }

    /// Where in the file the character at this offset begins.
    pub(super) fn byte_at(&self, offset: usize) -> usize {
        self.mark + offset + self.crlf.partition_point(|at| *at < offset)
    }

    /// How the line ends whose LF is at this offset.
    fn ending(&self, at: usize) -> &'static str {
        if self.crlf.binary_search(&at).is_ok() { "\r\n" } else { "\n" }
    }

    /// The line, from 1, that the character at this offset is in.
    pub(super) fn line_at(&self, offset: usize) -> usize {
        memchr_iter(b'\n', &self.text.as_bytes()[..offset]).count() + 1
    }
}

/// Writes line ends as the lines around have them.
#[derive(Debug)]
pub(super) struct Endings<'a> {
    shown: &'a Shown<'a>,
    /// Offsets of all LFs; looked up only when a line end is to be written.
    line_ends: Option<Vec<usize>>,
}

impl<'a> Endings<'a> {
    pub(super) const fn new(shown: &'a Shown<'a>) -> Self {
        Self { shown, line_ends: None }
    }

    /// `new` as it stands in the place of the text from `start` to `end`. Its first line end is like the first one that
    /// goes, and so on; where none goes, they are like the next line end of the file, or else the last before.
    pub(super) fn write(&mut self, new: &str, start: usize, end: usize, out: &mut Vec<u8>) {
        let mut parts = new.split('\n');
        out.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
        for (index, part) in parts.enumerate() {
            out.extend_from_slice(self.choose(index, start, end).as_bytes());
            out.extend_from_slice(part.as_bytes());
        }
    }

    fn choose(&mut self, index: usize, start: usize, end: usize) -> &'static str {
        let shown = self.shown;
        if shown.eol == Eol::Cr {
            return "\r";
        }
        let all = self.line_ends.get_or_insert_with(|| memchr_iter(b'\n', shown.text.as_bytes()).collect());
        let (first, behind) = (all.partition_point(|at| *at < start), all.partition_point(|at| *at < end));
        let model = match behind - first {
            0 => all.get(behind).or_else(|| all[..first].last()),
            gone => all.get(first + index.min(gone - 1)),
        };
        model.map_or("\n", |at| shown.ending(*at))
    }
}
