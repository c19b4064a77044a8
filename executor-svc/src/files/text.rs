//! What can be said of a text while its bytes go by: hash, lines, line ends, UTF-8.

use sha2::{Digest, Sha256};

/// How a text ends its lines. Only LF ends a line here, with or without a CR before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Eol {
    /// Every line ends with LF.
    Lf,
    /// Every line ends with CR LF.
    Crlf,
    /// There are CRs and no LF: for line numbers it is one line.
    Cr,
    /// More than one of these.
    Mixed,
    /// There is no line end.
    None,
}

/// The UTF-8 byte order mark.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// Takes a text in blocks of any size.
#[derive(Debug, Clone)]
pub struct TextScan {
    hasher: Option<Sha256>,
    bytes: u64,
    lf: u64,
    crlf: u64,
    cr: u64,
    head: Vec<u8>,
    last: Option<u8>,
    utf8: Utf8Check,
}

/// Checks that a text that comes in blocks is UTF-8.
#[derive(Debug, Clone, Default)]
pub struct Utf8Check {
    bytes: u64,
    /// The unfinished character at the end of the last block.
    unfinished: Vec<u8>,
}

impl Utf8Check {
    /// Takes the next block.
    ///
    /// # Errors
    /// [`BadByte`] if the text so far cannot be the start of UTF-8.
    pub fn feed(&mut self, block: &[u8]) -> Result<(), BadByte> {
        let mut rest = block;
        let carried = self.unfinished.len();
        while !self.unfinished.is_empty() && !rest.is_empty() {
            self.unfinished.push(rest[0]);
            rest = &rest[1..];
            match std::str::from_utf8(&self.unfinished) {
                Ok(_) => self.unfinished.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(BadByte(self.bytes - carried as u64)),
            }
        }
        match simdutf8::compat::from_utf8(rest) {
            Ok(_) => {}
            Err(error) if error.error_len().is_none() => {
                self.unfinished.extend_from_slice(&rest[error.valid_up_to()..]);
            }
            Err(error) => {
                let at = block.len() - rest.len() + error.valid_up_to();
                return Err(BadByte(self.bytes + at as u64));
            }
        }
        self.bytes += block.len() as u64;
        Ok(())
    }

    /// Checks that the text does not end within a character.
    ///
    /// # Errors
    /// [`BadByte`] if it does.
    pub fn finish(&self) -> Result<(), BadByte> {
        if self.unfinished.is_empty() {
            Ok(())
        } else {
            Err(BadByte(self.bytes - self.unfinished.len() as u64))
        }
    }
}

/// What a finished scan knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFacts {
    /// SHA-256 of all bytes, in lower-case hexadecimal, if it was asked for.
    pub sha256: Option<String>,
    /// How many bytes went by.
    pub bytes: u64,
    /// How many lines: line ends, and one more if something stands behind the last.
    pub lines: u64,
    /// How lines end.
    pub eol: Eol,
    /// Whether it begins with a byte order mark.
    pub bom: bool,
    /// Whether the last byte is a LF.
    pub final_newline: bool,
}

/// The offset of the first byte that is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadByte(pub u64);

/// Whether to hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hashing {
    /// Hash every byte.
    On,
    /// Do not.
    Off,
}

impl TextScan {
    /// A scan that has seen nothing.
    #[must_use]
    pub fn new(hashing: Hashing) -> Self {
        let hasher = (hashing == Hashing::On).then(Sha256::new);
        let utf8 = Utf8Check::default();
        Self { hasher, bytes: 0, lf: 0, crlf: 0, cr: 0, head: Vec::new(), last: None, utf8 }
    }

    /// Takes the next block.
    ///
    /// # Errors
    /// [`BadByte`] if the text so far cannot be the start of UTF-8.
    pub fn feed(&mut self, block: &[u8]) -> Result<(), BadByte> {
        self.utf8.feed(block)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(block);
        }
        if self.head.len() < BOM.len() {
            self.head.extend(block.iter().take(BOM.len() - self.head.len()));
        }
        self.count_line_ends(block);
        self.bytes += block.len() as u64;
        self.last = block.last().copied().or(self.last);
        Ok(())
    }

    fn count_line_ends(&mut self, block: &[u8]) {
        self.lf += memchr::memchr_iter(b'\n', block).count() as u64;
        if self.last == Some(b'\r') && block.first() == Some(&b'\n') {
            self.crlf += 1;
        }
        if memchr::memchr(b'\r', block).is_some() {
            self.cr += memchr::memchr_iter(b'\r', block).count() as u64;
            self.crlf += memchr::memmem::find_iter(block, b"\r\n").count() as u64;
        }
    }

    /// What is known, if this was all.
    ///
    /// # Errors
    /// [`BadByte`] if it ends within a character.
    pub fn finish(self) -> Result<TextFacts, BadByte> {
        self.utf8.finish()?;
        let final_newline = self.last == Some(b'\n');
        Ok(TextFacts {
            eol: self.eol(),
            lines: self.lf + u64::from(self.bytes > 0 && !final_newline),
            bom: self.head == BOM,
            final_newline,
            bytes: self.bytes,
            sha256: self.hasher.map(|hasher| hex::encode(hasher.finalize())),
        })
    }

    /// How the lines so far end.
    #[must_use]
    pub const fn eol(&self) -> Eol {
        let lone_cr = self.cr - self.crlf;
        match (self.lf, self.crlf, lone_cr) {
            (0, _, 0) => Eol::None,
            (0, _, _) => Eol::Cr,
            (_, 0, 0) => Eol::Lf,
            (lf, crlf, 0) if lf == crlf => Eol::Crlf,
            _ => Eol::Mixed,
        }
    }

    /// Whether it begins with a byte order mark.
    #[must_use]
    pub fn bom(&self) -> bool {
        self.head == BOM
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts(blocks: &[&[u8]]) -> Result<TextFacts, BadByte> {
        let mut scan = TextScan::new(Hashing::On);
        for block in blocks {
            scan.feed(block)?;
        }
        scan.finish()
    }

    #[test]
    fn line_ends_are_told_apart() {
        for (text, eol, lines) in [
            ("", Eol::None, 0),
            ("a", Eol::None, 1),
            ("a\nb", Eol::Lf, 2),
            ("a\r\nb\r\n", Eol::Crlf, 2),
            ("a\rb\r", Eol::Cr, 1),
            ("a\r\nb\n", Eol::Mixed, 2),
            ("a\rb\n", Eol::Mixed, 1),
            ("\r\r\n", Eol::Mixed, 1),
        ] {
            let found = facts(&[text.as_bytes()]).unwrap();
            assert_eq!((found.eol, found.lines), (eol, lines), "{text:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_seen_across_blocks() {
        assert!(facts(&[b"\xef", b"\xbb", b"\xbfx"]).unwrap().bom);
        assert!(!facts(&[b"x\xef\xbb\xbf"]).unwrap().bom);
    }

    #[test]
    fn the_first_bad_byte_is_found_wherever_the_blocks_end() {
        assert_eq!(facts(&[b"ab\xffc"]), Err(BadByte(2)));
        assert_eq!(facts(&[b"a\xe2", b"\x82", b"x"]), Err(BadByte(1)));
        assert_eq!(facts(&[b"a\xe2\x82"]), Err(BadByte(1)));
        assert!(facts(&[b"a\xe2", b"\x82\xac"]).is_ok());
    }

    proptest! {
        #[test]
        fn how_a_text_is_cut_into_blocks_makes_no_difference(text in "(a|\r|\n|é|€|𝄞){0,40}", cuts in proptest::collection::vec(0_usize..120, 0..5)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let blocks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(facts(&blocks), facts(&[bytes]));
        }

        #[test]
        fn what_is_not_utf8_is_refused_at_the_same_place_as_by_the_standard_library(bytes in proptest::collection::vec(any::<u8>(), 0..20), cut in 0_usize..20) {
            let cut = cut.min(bytes.len());
            let wanted = std::str::from_utf8(&bytes).err().map(|e| BadByte(e.valid_up_to() as u64));
            prop_assert_eq!(facts(&[&bytes[..cut], &bytes[cut..]]).err(), wanted);
        }
    }
}
