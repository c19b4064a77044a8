//! `FindFiles`: what there is below a directory.

use std::time::{Duration, UNIX_EPOCH};

use gatehouse_proto::codes::ActionCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::ToolContext;
use super::cursor::{self, Cursor};
use super::globs::NameGlob;
use super::input::{Field, InputFault, Kind, MAX_PATH_BYTES, Need, checked};
use super::listing::{Items, Question, answer};
use super::receipt::{Frame, Receipt};
use crate::files::FileKind;
use crate::files::walk::{Entry, EntryKind, Hidden, Ignored, Interest, Reason, Target, Visitor};

pub(super) const DESCRIPTION: &str = "Lists files and directories below a directory, sorted by path (byte order), \
    with an optional filter on the name. Links are listed and never followed. Hidden names and what .gitignore names \
    are left out unless asked for; .git and protected paths always are. `skipped` counts what was left out, by \
    reason. When `truncated` is true, ask again with cursor = next_cursor and otherwise the same input.";

/// The most entries in one answer.
pub(super) const MAX_LIMIT: u64 = 2000;

const DEFAULT_LIMIT: u64 = 200;

/// What a cursor can be at most, in bytes: a path and the root's identity.
pub(super) const MAX_CURSOR_BYTES: usize = MAX_PATH_BYTES + 160;

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "directory",
        need: Need::Optional,
        kind: Kind::Path,
        description: "Absolute path of the directory to list. Without it: the session's working directory.",
    },
    Field {
        name: "name_contains",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 255 },
        description: "Only entries whose name contains this text, exactly as written (case counts).",
    },
    Field {
        name: "extension",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 255 },
        description: "Only entries whose name ends in a dot and this text, for example rs or tar.gz.",
    },
    Field {
        name: "glob",
        need: Need::Optional,
        kind: Kind::Line { min: 1, max: 1024 },
        description: "Only entries that match this glob (* ? [a-z] {a,b} and ** across directories). Without a slash \
                      it is held against the name, with one against the path below the directory.",
    },
    Field {
        name: "max_depth",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: 2048, default: None },
        description: "How many levels to go down; 1 is the directory's own entries.",
    },
    Field {
        name: "limit",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: MAX_LIMIT, default: Some(DEFAULT_LIMIT) },
        description: "How many entries to return at most.",
    },
    Field {
        name: "include_hidden",
        need: Need::Optional,
        kind: Kind::Flag,
        description: "Also names that begin with a dot.",
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

/// The input of `FindFiles`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FindFilesInput {
    /// Where to look; the session's working directory when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// A part of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_contains: Option<String>,
    /// The end of the name, behind a dot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<String>,
    /// A glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// How many levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    /// How many entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Also hidden names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_hidden: bool,
    /// Also ignored names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub include_ignored: bool,
    /// Where to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

pub(super) fn check(input: &Value) -> Result<FindFilesInput, InputFault> {
    let input: FindFilesInput = checked(FIELDS, input)?;
    Filter::new(&input)?;
    cursor_of(&input)?;
    Ok(input)
}

fn cursor_of(input: &FindFilesInput) -> Result<Option<Cursor>, InputFault> {
    input.cursor.as_ref().map(|text| cursor::read(text, &cursor::query_mark(input))).transpose()
}

pub(super) fn perform(input: &FindFilesInput, ctx: &ToolContext, frame: &Frame<'_>) -> Receipt {
    let (filter, cursor) = match Filter::new(input).and_then(|filter| Ok((filter, cursor_of(input)?))) {
        Ok(read) => read,
        // `check` has refused such an input.
        Err(fault) => return frame.failure(ActionCode::NotFound, &fault.to_string(), ""),
    };
    let limit = input.limit.unwrap_or(DEFAULT_LIMIT);
    let question = Question {
        directory: input.directory.as_deref(),
        max_depth: input.max_depth.unwrap_or(u64::MAX),
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        hidden: if input.include_hidden { Hidden::Included } else { Hidden::LeftOut },
        ignored: if input.include_ignored { Ignored::Included } else { Ignored::LeftOut },
        cursor,
        mark: cursor::query_mark(input),
    };
    answer(&question, &filter, Items::Entries, ctx, frame)
}

/// Which entries are wanted.
#[derive(Debug)]
struct Filter {
    contains: Option<memchr::memmem::Finder<'static>>,
    /// A dot and the extension.
    ending: Option<String>,
    glob: Option<NameGlob>,
}

impl Filter {
    fn new(input: &FindFilesInput) -> Result<Self, InputFault> {
        let contains =
            input.name_contains.as_ref().map(|text| memchr::memmem::Finder::new(text).into_owned());
        let ending = input.extension.as_ref().map(|text| format!(".{}", text.trim_start_matches('.')));
        let glob = input.glob.as_ref().map(|text| NameGlob::new("glob", text)).transpose()?;
        Ok(Self { contains, ending, glob })
    }

    fn passes(&self, entry: &Entry<'_>) -> bool {
        self.contains.as_ref().is_none_or(|finder| finder.find(entry.name.as_bytes()).is_some())
            && self.ending.as_ref().is_none_or(|ending| entry.name.ends_with(ending.as_str()))
            && self.glob.as_ref().is_none_or(|glob| glob.matches(entry.name, entry.path))
    }
}

/// One entry of an answer.
#[derive(Debug, Serialize)]
struct Found<'a> {
    path: &'a str,
    kind: &'static str,
    bytes: u64,
    modified: &'a str,
}

/// What a worker keeps: times repeat, for files that were written together.
#[derive(Debug, Default)]
struct Writing {
    path: String,
    modified: (i128, String),
}

impl Visitor for Filter {
    type Item = Box<RawValue>;
    type Scratch = Writing;
    const CHEAP: bool = true;

    fn interest(&self, entry: &Entry<'_>) -> Interest {
        if self.passes(entry) { Interest::Visit } else { Interest::None }
    }

    fn descends(&self, _entry: &Entry<'_>) -> bool {
        true
    }

    fn visit(
        &self,
        target: &Target<'_>,
        after: u64,
        writing: &mut Writing,
        items: &mut Vec<(u64, Box<RawValue>)>,
    ) -> Result<(), Reason> {
        if after > 0 {
            return Ok(());
        }
        let (bytes, modified) = target.look()?;
        let kind = match target.kind {
            EntryKind::File => FileKind::File,
            EntryKind::Directory => FileKind::Directory,
            EntryKind::Symlink => FileKind::Symlink,
            EntryKind::Other => FileKind::Other,
        };
        target.write_real(&mut writing.path);
        let second = modified.div_euclid(1_000_000_000);
        if writing.modified.1.is_empty() || writing.modified.0 != second {
            writing.modified = (second, timestamp(second));
        }
        let found = Found { path: &writing.path, kind: kind.as_str(), bytes, modified: &writing.modified.1 };
        // Written here, where many do it at the same time; text and numbers can always be written.
        items.extend(to_raw_value(&found).ok().map(|json| (1, json)));
        Ok(())
    }
}

/// RFC 3339, to the second, in UTC.
fn timestamp(seconds: i128) -> String {
    // What lies before 1970 is shown as 1970: the formatter knows no earlier time.
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(LATEST));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

/// The last second of the year 9999.
const LATEST: u64 = 253_402_300_799;
