//! One pass over a file: its facts and the wanted range, and whether it held still meanwhile.

use std::io::Read as _;
use std::path::Path;

use super::range::{Range, Taken, Wanted};
use crate::files::text::{BOM, Eol, Hashing, TextFacts, TextScan};
use crate::files::{FileFault, OpenFile, io_fault};
use crate::tools::ToolContext;

const BLOCK: usize = 256 * 1024;

/// What a pass found.
#[derive(Debug)]
pub(super) struct Scanned {
    pub taken: Taken,
    /// The size of the file.
    pub bytes: u64,
    /// The facts of the whole file; `None` if the pass ended with the range.
    pub whole: Option<TextFacts>,
    /// How the lines end that were read.
    pub eol: Eol,
    pub bom: bool,
    pub final_newline: bool,
    /// Whether anything stands behind the range.
    pub more: bool,
}

/// Reads the wanted range of a file. A file that changes on the way is read once more, and then given up.
pub(super) fn scan(path: &Path, wanted: &Wanted, ctx: &ToolContext) -> Result<Scanned, FileFault> {
    match scan_once(path, wanted, ctx) {
        Err(FileFault::Changed { .. }) => scan_once(path, wanted, ctx),
        result => result,
    }
}

fn scan_once(path: &Path, wanted: &Wanted, ctx: &ToolContext) -> Result<Scanned, FileFault> {
    let mut opened = ctx.files.open_file(path)?;
    let scanned = Pass::new(&opened, wanted, ctx).run(&mut opened, wanted, ctx);
    // A file that is being written to may look like anything, also like broken UTF-8: say what really happened.
    if opened.is_unchanged() && ctx.files.is_still_at(&opened) {
        scanned
    } else {
        Err(FileFault::Changed { path: opened.path().to_owned() })
    }
}

struct Pass {
    hashing: Hashing,
    text: TextScan,
    range: Range,
    block: Vec<u8>,
    read: u64,
    /// The length of the byte order mark.
    mark: usize,
}

impl Pass {
    fn new(opened: &OpenFile, wanted: &Wanted, ctx: &ToolContext) -> Self {
        let limit = ctx.files.policy().config().whole_hash_limit;
        let hashing = if opened.bytes() <= limit { Hashing::On } else { Hashing::Off };
        // One byte more than the file has, so that its end is seen with the first read.
        let block = usize::try_from(opened.bytes()).map_or(BLOCK, |size| BLOCK.min(size.saturating_add(1)));
        let (text, range) = (TextScan::new(hashing), Range::new(wanted));
        Self { hashing, text, range, block: vec![0; block], read: 0, mark: 0 }
    }

    fn run(
        mut self,
        opened: &mut OpenFile,
        wanted: &Wanted,
        ctx: &ToolContext,
    ) -> Result<Scanned, FileFault> {
        let path = opened.path().to_owned();
        let not_utf8 =
            |bad: crate::files::text::BadByte| FileFault::NotUtf8 { path: path.clone(), offset: bad.0 };
        // Above the limit the pass ends with the range: what lies behind is neither hashed nor counted.
        while self.hashing == Hashing::On || !self.range.is_done() {
            ctx.may_go_on(&path)?;
            let got = fill(opened, &mut self.block)?;
            let bytes = &self.block[..got];
            self.text.feed(bytes).map_err(not_utf8)?;
            if self.read == 0 && bytes.starts_with(BOM) {
                self.mark = BOM.len();
            }
            let start = if self.read == 0 { self.mark } else { 0 };
            self.range.feed(&bytes[start..], wanted);
            self.read += got as u64;
            if got < self.block.len() {
                let (eol, bom) = (self.text.eol(), self.text.bom());
                let facts = self.text.clone().finish().map_err(not_utf8)?;
                return Ok(self.finish(opened, eol, bom, facts.final_newline, Some(facts)));
            }
        }
        let last = opened.last_byte().map_err(|error| io_fault(&path, &error))?;
        let (eol, bom) = (self.text.eol(), self.text.bom());
        Ok(self.finish(opened, eol, bom, last == Some(b'\n'), None))
    }

    fn finish(
        self,
        opened: &OpenFile,
        eol: Eol,
        bom: bool,
        final_newline: bool,
        whole: Option<TextFacts>,
    ) -> Scanned {
        let behind = self.range.consumed() + (self.mark as u64);
        let more = self.range.is_done() && behind < opened.bytes();
        Scanned { taken: self.range.finish(), bytes: opened.bytes(), whole, eol, bom, final_newline, more }
    }
}

/// Fills the block, or as much of it as the file still has.
fn fill(opened: &mut OpenFile, block: &mut [u8]) -> Result<usize, FileFault> {
    let mut got = 0;
    while got < block.len() {
        match opened.file.read(&mut block[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io_fault(opened.path(), &error)),
        }
    }
    Ok(got)
}
