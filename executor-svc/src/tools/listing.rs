//! What `FindFiles` and `SearchText` share: walking from a cursor, and an answer that keeps within its budget.

use std::collections::BTreeMap;
use std::path::Path;

use gatehouse_proto::codes::ActionCode;
use serde::Serialize;
use serde_json::value::RawValue;

use super::ToolContext;
use super::cursor::{self, Cursor};
use super::receipt::{Frame, Receipt};
use crate::files::walk::{Bounds, Cut, Hidden, Ignored, Position, Visitor, Walked, walk};
use crate::files::{FileFault, OpenDirectory};

/// How many entries one call looks at, about.
const MOST_ENTRIES: usize = 5_000_000;

/// One question about a tree.
pub(super) struct Question<'a> {
    /// Where, if not in the working directory.
    pub directory: Option<&'a str>,
    pub max_depth: u64,
    pub limit: usize,
    pub hidden: Hidden,
    pub ignored: Ignored,
    pub cursor: Option<Cursor>,
    /// Which input a cursor is for.
    pub mark: String,
}

/// The fields of an answer, but for its items.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Answer<'a> {
    directory: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    files_searched: Option<u64>,
    skipped: BTreeMap<&'static str, u64>,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_by: Option<&'static str>,
    next_cursor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<&'a RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<&'a RawValue>>,
}

/// What an answer's items are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Entries,
    Matches,
}

/// Asks the question and writes the receipt.
pub(super) fn answer<V>(
    question: &Question<'_>,
    visitor: &V,
    items: Items,
    ctx: &ToolContext,
    frame: &Frame<'_>,
) -> Receipt
where
    V: Visitor<Item = Box<RawValue>>,
{
    match walked(question, visitor, ctx) {
        Ok((top, Walked { cut: Some((Cut::Cancelled, _)), .. })) => {
            frame.fault(&FileFault::Cancelled { path: top.path })
        }
        Ok((top, walked)) => written(&top, question, &walked, items, frame),
        Err(Refused::Fault(fault)) => frame.fault(&fault),
        Err(Refused::OtherDirectory) => frame.failure(
            ActionCode::ChangedMeanwhile,
            "the directory is not the one that the cursor was made for",
            "Ask again without a cursor.",
        ),
    }
}

enum Refused {
    Fault(FileFault),
    OtherDirectory,
}

impl From<FileFault> for Refused {
    fn from(fault: FileFault) -> Self {
        Self::Fault(fault)
    }
}

fn walked<V: Visitor>(
    question: &Question<'_>,
    visitor: &V,
    ctx: &ToolContext,
) -> Result<(OpenDirectory, Walked<V::Item>), Refused> {
    let root = ctx.files.root().path.as_path();
    let directory = question.directory.map_or(root, Path::new);
    ctx.may_go_on(directory)?;
    let top = ctx.files.open_directory(directory)?;
    if question.cursor.as_ref().is_some_and(|cursor| cursor.directory != top.identity()) {
        return Err(Refused::OtherDirectory);
    }
    let bounds = Bounds {
        max_depth: question.max_depth,
        items: question.limit,
        entries: MOST_ENTRIES,
        deadline: ctx.deadline,
        hidden: question.hidden,
        ignored: question.ignored,
        after: question.cursor.as_ref().map(|cursor| cursor.position.clone()).unwrap_or_default(),
    };
    let walked = walk(&ctx.files, &top, visitor, &bounds, &|| ctx.cancel.is_cancelled());
    Ok((top, walked))
}

/// Takes as many items as fit, and says where to go on.
fn written(
    top: &OpenDirectory,
    question: &Question<'_>,
    walked: &Walked<Box<RawValue>>,
    items: Items,
    frame: &Frame<'_>,
) -> Receipt {
    let directory = top.path.to_string_lossy();
    let cursor_at = |position: &Position| cursor::write(top.identity(), &question.mark, position);
    let everything = walked.tally_up_to(None);
    let mut answer = Answer {
        directory: &directory,
        files_searched: (items == Items::Matches).then_some(everything.visited()),
        skipped: everything.skipped(),
        truncated: true,
        truncated_by: Some("receipt_size"),
        next_cursor: None,
        entries: (items == Items::Entries).then(Vec::new),
        matches: (items == Items::Matches).then(Vec::new),
    };
    // Counts up to an earlier place are no longer than those of everything.
    let room = frame.room_beside(&answer);
    let fits = fitting(walked, room, &cursor_at);
    let cut = if fits < walked.items.len() {
        let last = fits.checked_sub(1).and_then(|last| walked.items.get(last));
        let before = || question.cursor.as_ref().map(|cursor| cursor.position.clone()).unwrap_or_default();
        Some(("receipt_size", last.map_or_else(before, |(position, _)| position.clone())))
    } else {
        walked.cut.clone().map(|(cut, position)| (name_of(cut), position))
    };
    let tally = walked.tally_up_to(cut.as_ref().map(|(_, position)| position));
    let next = cut.as_ref().map(|(_, position)| cursor_at(position));
    let shown: Vec<&RawValue> = walked.items.iter().take(fits).map(|(_, item)| item.as_ref()).collect();
    answer.files_searched = (items == Items::Matches).then_some(tally.visited());
    answer.skipped = tally.skipped();
    answer.truncated = cut.is_some();
    answer.truncated_by = cut.as_ref().map(|(name, _)| *name);
    answer.next_cursor = next.as_deref();
    match items {
        Items::Entries => answer.entries = Some(shown),
        Items::Matches => answer.matches = Some(shown),
    }
    frame.success(&answer)
}

/// How many items fit into `room` together with the cursor that then is needed.
fn fitting(walked: &Walked<Box<RawValue>>, room: usize, cursor_at: &impl Fn(&Position) -> String) -> usize {
    let cost_of = |position: &Position| {
        serde_json::to_string(&cursor_at(position)).map_or(usize::MAX, |text| text.len())
    };
    let all = walked.items.len();
    // What the cursor takes behind so many items.
    let end_of = |count: usize| match (&walked.cut, walked.items.get(count - 1)) {
        (Some((_, end)), _) if count == all => cost_of(end),
        (None, _) if count == all => 0,
        (_, Some((position, _))) => cost_of(position),
        (_, None) => usize::MAX,
    };
    let mut used = 0_usize;
    let mut sums: Vec<usize> = Vec::with_capacity(all);
    for (_, item) in &walked.items {
        used = used.saturating_add(item.get().len() + 1);
        if used > room {
            break;
        }
        sums.push(used);
    }
    // Cursors are dear: only those of the last few that could be the last one are written.
    (1..=sums.len()).rev().find(|count| sums[count - 1].saturating_add(end_of(*count)) <= room).unwrap_or(0)
}

const fn name_of(cut: Cut) -> &'static str {
    match cut {
        Cut::Items => "limit",
        Cut::Entries => "entries",
        Cut::Time => "time",
        Cut::Cancelled => "cancelled",
    }
}
