//! `SearchText`: where a literal text stands in the files below a directory.

mod excerpt;
mod needle;
mod scan;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read as _;
use std::time::Instant;

use gatehouse_proto::codes::ActionCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use self::excerpt::{Excerpt, Source, excerpt};
use self::needle::{Case, Needle};
use self::scan::{Hit, Search, WINDOW, search_stream, search_whole};
use super::cursor::{self, Cursor};
use super::find_files::MAX_CURSOR_BYTES;
use super::globs::NameGlob;
use super::input::{Field, InputFault, Kind, Need, checked};
use super::listing::{Items, Question, answer};
use super::receipt::{Frame, Receipt};
use super::{Cancel, ToolContext};
use crate::files::walk::{Entry, EntryKind, Hidden, Ignored, Interest, Reason, Target, Visitor};

pub(super) const DESCRIPTION: &str = "Finds a literal text (no regular expression, no wildcards) in the UTF-8 files \
    below a directory, hidden ones included, sorted by path (byte order) and line: one match for each line, with the \
    column of the first occurrence. Links are not followed; what .gitignore names is left out unless asked for; .git \
    and protected paths always are. `skipped` counts what was not searched, by reason. When `truncated` is true, ask \
    again with cursor = next_cursor and otherwise the same input.";

/// The most matches in one answer.
pub(super) const MAX_LIMIT: u64 = 1000;

const DEFAULT_LIMIT: u64 = 100;

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "text",
        need: Need::Required,
        kind: Kind::Line { min: 1, max: 4096 },
        description: "The text to find, in one line, exactly as it stands in the files.",
    },
    Field {
        name: "directory",
        need: Need::Optional,
        kind: Kind::Path,
        description: "Absolute path of the directory to search. Without it: the session's working directory.",
    },
    Field {
        name: "case_insensitive",
        need: Need::Optional,
        kind: Kind::Flag,
        description: "Upper and lower case are the same (Unicode simple case folding).",
    },
    Field {
        name: "include_glob",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 1024 },
        description: "Only files that match this glob (* ? [a-z] {a,b} and ** across directories). Without a slash \
                      it is held against the name, with one against the path below the directory.",
    },
    Field {
        name: "exclude_glob",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 1024 },
        description: "No files that match this glob, and nothing below directories that do.",
    },
    Field {
        name: "context_lines",
        need: Need::Optional,
        kind: Kind::Integer { min: 0, max: 5, default: Some(0) },
        description: "How many lines before and after each match to show.",
    },
    Field {
        name: "limit",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: MAX_LIMIT, default: Some(DEFAULT_LIMIT) },
        description: "How many matches to return at most.",
    },
    Field {
        name: "include_ignored",
        need: Need::Optional,
        kind: Kind::Flag,
        description: "Also what .gitignore files name.",
    },
    Field {
        name: "cursor",
        need: Need::Optional,
        kind: Kind::Cursor { max: MAX_CURSOR_BYTES },
        description: "next_cursor of an earlier answer to the same input, to go on behind it.",
    },
];

/// The input of `SearchText`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchTextInput {
    /// What to find.
    pub text: String,
    /// Where to look; the session's working directory when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Case does not count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub case_insensitive: bool,
    /// Only these files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_glob: Option<String>,
    /// Not these files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_glob: Option<String>,
    /// Lines around each match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_lines: Option<u64>,
    /// How many matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Also ignored names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_ignored: bool,
    /// Where to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

pub(super) fn check(input: &Value) -> Result<SearchTextInput, InputFault> {
    let input: SearchTextInput = checked(FIELDS, input)?;
    Searcher::new(&input)?;
    cursor_of(&input)?;
    Ok(input)
}

fn cursor_of(input: &SearchTextInput) -> Result<Option<Cursor>, InputFault> {
    input.cursor.as_ref().map(|text| cursor::read(text, &cursor::query_mark(input))).transpose()
}

pub(super) fn perform(input: &SearchTextInput, ctx: &ToolContext, frame: &Frame<'_>) -> Receipt {
    let read = Searcher::new(input).and_then(|searcher| Ok((searcher, cursor_of(input)?)));
    let (mut searcher, cursor) = match read {
        Ok(read) => read,
        // `check` has refused such an input.
        Err(fault) => return frame.failure(ActionCode::NotFound, &fault.to_string(), ""),
    };
    searcher.stop = Some((ctx.cancel.clone(), ctx.deadline));
    let question = Question {
        directory: input.directory.as_deref(),
        max_depth: u64::MAX,
        limit: searcher.limit,
        hidden: Hidden::Included,
        ignored: if input.include_ignored { Ignored::Included } else { Ignored::LeftOut },
        cursor,
        mark: cursor::query_mark(input),
    };
    answer(&question, &searcher, Items::Matches, ctx, frame)
}

/// What is searched for, and where.
#[derive(Debug)]
struct Searcher {
    needle: Needle,
    include: Option<NameGlob>,
    exclude: Option<NameGlob>,
    context: usize,
    limit: usize,
    stop: Option<(Cancel, Instant)>,
}

/// One match of an answer.
#[derive(Debug, Serialize)]
struct Match<'a> {
    path: &'a str,
    line: u64,
    column: u64,
    text: String,
    #[serde(skip_serializing_if = "super::receipt::is_one")]
    text_column: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    text_cut: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

impl Searcher {
    fn new(input: &SearchTextInput) -> Result<Self, InputFault> {
        let case = if input.case_insensitive { Case::Insensitive } else { Case::Sensitive };
        let glob =
            |field, text: &Option<String>| text.as_ref().map(|text| NameGlob::new(field, text)).transpose();
        Ok(Self {
            needle: Needle::new(&input.text, case).map_err(|_| {
                InputFault::at("text", "is too long to be searched for without regard to case")
            })?,
            include: glob("include_glob", &input.include_glob)?,
            exclude: glob("exclude_glob", &input.exclude_glob)?,
            context: usize::try_from(input.context_lines.unwrap_or(0)).unwrap_or(0),
            limit: usize::try_from(input.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX),
            stop: None,
        })
    }

    fn must_stop(&self) -> bool {
        self.stop
            .as_ref()
            .is_some_and(|(cancel, deadline)| cancel.is_cancelled() || Instant::now() >= *deadline)
    }

    fn search_file(
        &self,
        file: &mut File,
        bytes: u64,
        after: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Vec<(Hit, Excerpt)>, Reason> {
        let search = Search { needle: &self.needle, after, enough: self.limit.saturating_add(1) };
        match usize::try_from(bytes) {
            Ok(size) if size < WINDOW => {
                // One byte more, so that a short read means the end.
                buffer.resize(buffer.len().max(size + 1), 0);
                let got = fill(file, &mut buffer[..=size])?;
                if got > size {
                    return Err(Reason::Changed);
                }
                let content = &buffer[..got];
                let hits = search_whole(content, &search)?;
                Ok(self.excerpts(Source::Memory(content), &hits))
            }
            _ => {
                let stream = |block: &mut [u8]| {
                    if self.must_stop() { Err(Reason::Time) } else { fill(file, block) }
                };
                let hits = search_stream(buffer, stream, &search)?;
                Ok(self.excerpts(Source::File(file), &hits))
            }
        }
    }

    fn excerpts(&self, source: Source<'_>, hits: &[Hit]) -> Vec<(Hit, Excerpt)> {
        hits.iter().map(|hit| (*hit, excerpt(source, hit, self.context))).collect()
    }
}

impl Visitor for Searcher {
    type Item = Box<RawValue>;
    type Scratch = Vec<u8>;
    const CHEAP: bool = false;

    fn interest(&self, entry: &Entry<'_>) -> Interest {
        if entry.kind == EntryKind::Directory
            || self.include.as_ref().is_some_and(|glob| !glob.matches(entry.name, entry.path))
            || self.exclude.as_ref().is_some_and(|glob| glob.matches(entry.name, entry.path))
        {
            return Interest::None;
        }
        match entry.kind {
            EntryKind::File => Interest::Visit,
            EntryKind::Symlink => Interest::Skip(Reason::Symlink),
            EntryKind::Directory | EntryKind::Other => Interest::Skip(Reason::NotAFile),
        }
    }

    fn descends(&self, entry: &Entry<'_>) -> bool {
        !self.exclude.as_ref().is_some_and(|glob| glob.matches_directory(entry.name, entry.path))
    }

    fn visit(
        &self,
        target: &Target<'_>,
        after: u64,
        buffer: &mut Vec<u8>,
        items: &mut Vec<(u64, Box<RawValue>)>,
    ) -> Result<(), Reason> {
        let (mut file, bytes) = target.open()?;
        let found = self.search_file(&mut file, bytes, after, buffer)?;
        if found.is_empty() {
            return Ok(());
        }
        let real = target.real();
        let path = &real.to_string_lossy();
        for (hit, shown) in found {
            let Excerpt { text, text_column, text_cut, before, after } = shown;
            let (line, column) = (hit.line, hit.column);
            let found = Match { path, line, column, text, text_column, text_cut, before, after };
            // Written here, where many do it at the same time; text and numbers can always be written.
            items.extend(to_raw_value(&found).ok().map(|json| (line, json)));
        }
        Ok(())
    }
}

/// Reads until the block is full or the file ends.
fn fill(file: &mut File, block: &mut [u8]) -> Result<usize, Reason> {
    let mut got = 0;
    while got < block.len() {
        match file.read(&mut block[got..]) {
            Ok(0) => break,
            Ok(more) => {
                got += more;
                // A short read of a regular file is its end; asking again would cost a system call for each file.
                if got < block.len() {
                    break;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Reason::Unreadable),
        }
    }
    Ok(got)
}
