//! Going through a directory tree: both cores, one order.
//!
//! Paths below the top are visited in the byte order of their text, as `LC_ALL=C sort` would put them. Workers take
//! the first piece of work that is left, so what is finished is always a growing start of that order and little
//! besides; an answer that a bound cuts is therefore the same whatever the workers' timing, and the rest can be had
//! with a [`Position`].
//!
//! Directories are opened relative to the top with no link at any component, and each is judged when it is opened:
//! protected paths under every name a bind mount gives them, `.git`, special and network file systems, `.gitignore`.

mod directory;
mod ignores;
mod order;
mod split;
mod tally;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::session::{OpenDirectory, SessionFiles};
pub(crate) use tally::{Reason, Tally};
pub(crate) use worker::Target;

/// A place in the order: everything at or before it is done. Items have lines from 1, so line 0 is "before this path".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    /// The path below the top. A directory's own contents come behind its path and a slash.
    pub(crate) path: Arc<str>,
    /// The line within it; `u64::MAX` for all of it.
    pub(crate) line: u64,
}

/// What an entry is, as far as its directory says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Directory,
    Symlink,
    Other,
}

/// An entry that is not protected, hidden, ignored or otherwise out of bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// The path below the top.
    pub(crate) path: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: EntryKind,
}

/// What to do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Visit it.
    Visit,
    /// Leave it, it was not asked for.
    None,
    /// Leave it, and count why.
    Skip(Reason),
}

/// What is done with the entries.
pub(crate) trait Visitor: Sync {
    /// What a visit gives; each with the line it stands at, from 1.
    type Item: Send;
    /// What a worker keeps between visits.
    type Scratch: Default;
    /// Whether a visit costs next to nothing, so that handing it to another worker would cost more.
    const CHEAP: bool;

    /// What to do with this entry.
    fn interest(&self, entry: &Entry<'_>) -> Interest;

    /// Whether to go into this directory.
    fn descends(&self, entry: &Entry<'_>) -> bool;

    /// Visits one entry. Items at or before line `after` were given before.
    ///
    /// # Errors
    /// Why nothing can be said of it.
    fn visit(
        &self,
        target: &Target<'_>,
        after: u64,
        scratch: &mut Self::Scratch,
        items: &mut Vec<(u64, Self::Item)>,
    ) -> Result<(), Reason>;
}

/// Which entries are looked at, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// How many levels below the top.
    pub(crate) max_depth: u64,
    /// How many items.
    pub(crate) items: usize,
    /// How many entries are looked at, about.
    pub(crate) entries: usize,
    /// Until when.
    pub(crate) deadline: Instant,
    /// Whether names that begin with a dot are left out.
    pub(crate) hidden: Hidden,
    /// Whether `.gitignore` is read.
    pub(crate) ignored: Ignored,
    /// Where to go on.
    pub(crate) after: Position,
}

/// Names that begin with a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// Are left out.
    LeftOut,
    /// Are like any other.
    Included,
}

/// What `.gitignore` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// Is left out.
    LeftOut,
    /// Is like anything else.
    Included,
}

/// Which bound cut a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The number of items.
    Items,
    /// The number of entries looked at.
    Entries,
    /// The deadline.
    Time,
    /// Somebody asked.
    Cancelled,
}

/// What a walk found, in order.
#[derive(Debug)]
pub(crate) struct Walked<T> {
    /// The items.
    pub(crate) items: Vec<(Position, T)>,
    /// What cut it, and where it can go on.
    pub(crate) cut: Option<(Cut, Position)>,
    tally: order::Counted,
}

impl<T> Walked<T> {
    /// What was looked at and skipped, up to and including a position; `None` for all of it.
    pub(crate) fn tally_up_to(&self, position: Option<&Position>) -> Tally {
        self.tally.up_to(position)
    }
}

/// Goes through the tree below `top`.
pub(crate) fn walk<V: Visitor>(
    files: &SessionFiles,
    top: &OpenDirectory,
    visitor: &V,
    bounds: &Bounds,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Walked<V::Item> {
    let looked_at = AtomicUsize::new(0);
    let stop = || {
        if cancelled() {
            Some(Cut::Cancelled)
        } else if Instant::now() >= bounds.deadline {
            Some(Cut::Time)
        } else if looked_at.load(Ordering::Relaxed) >= bounds.entries {
            Some(Cut::Entries)
        } else {
            None
        }
    };
    let tree = directory::Tree::new(files, top, bounds, &looked_at);
    let queue = order::Queue::new(directory::Pending::top(&tree), bounds.items);
    std::thread::scope(|scope| {
        for _ in 1..workers() {
            scope.spawn(|| worker::work(&tree, visitor, &queue, &stop));
        }
        worker::work(&tree, visitor, &queue, &stop);
    });
    let mut walked = queue.finish();
    if let Some((_, position)) = &mut walked.cut {
        // A walk that was cut before it came as far as an earlier one still goes on behind that.
        *position = std::mem::take(position).max(bounds.after.clone());
    }
    walked
}

/// Two for each core, within reason: while one waits for the disk, another has work.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores * 2).clamp(2, 16)
}
