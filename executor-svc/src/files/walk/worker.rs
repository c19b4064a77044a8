//! A worker: takes the first piece of work there is, and goes on until nothing is left.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::{Expanded, Home, Pending, Run, Tree};
use super::order::{Events, Finished, Queue, Taken};
use super::tally::{Reason, Tally};
use super::{Cut, EntryKind, Position, Visitor};
use crate::files::sys::{self, Facts};

/// What is visited.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    tree: &'a Tree<'a>,
    home: &'a Home,
    dir: &'a OwnedFd,
    name: &'a CStr,
    /// The path below the top.
    pub(crate) path: &'a str,
    pub(crate) kind: EntryKind,
}

impl std::fmt::Debug for Tree<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").finish_non_exhaustive()
    }
}

impl Target<'_> {
    /// The real path.
    pub(crate) fn real(&self) -> PathBuf {
        self.tree.real(self.path)
    }

    /// Writes the real path as text.
    pub(crate) fn write_real(&self, text: &mut String) {
        self.tree.write_real(self.path, text);
    }

    /// Size and modification time (nanoseconds since the epoch), once the object is judged. Nothing is opened.
    pub(crate) fn look(&self) -> Result<(u64, i128), Reason> {
        let facts = sys::stat_child(self.dir, self.name).map_err(|_| Reason::Changed)?;
        if facts.is_file() {
            self.judge(&facts)?;
        }
        Ok((facts.bytes, facts.modified))
    }

    /// Opens a regular file, judges what was opened, and tells its size.
    pub(crate) fn open(&self) -> Result<(File, u64), Reason> {
        let file = sys::open_child(self.dir, self.name).map_err(|errno| match errno {
            rustix::io::Errno::LOOP => Reason::Symlink,
            errno => Reason::from(&crate::files::session::from_errno(errno, self.path.as_ref())),
        })?;
        let facts = sys::stat(&file).map_err(|_| Reason::Unreadable)?;
        if !facts.is_file() {
            return Err(Reason::NotAFile);
        }
        self.judge(&facts)?;
        Ok((file, facts.bytes))
    }

    /// What the directory's own judgement does not cover: a file mounted over this one, and further names.
    fn judge(&self, facts: &Facts) -> Result<(), Reason> {
        let (files, mount) = (self.tree.files, &self.home.mount);
        if facts.mount != mount.id || facts.mount == 0 {
            return files.judge_at(&self.real()).map_err(|fault| Reason::from(&fault));
        }
        if facts.links <= 1 {
            return Ok(());
        }
        let judged = files.judge_links(facts, &self.real(), mount, self.tree.mounts(), || self.tree.inodes());
        judged.map_err(|fault| fault.reason())
    }
}

/// Works until nothing is left, or `stop` says that it is enough.
pub(super) fn work<V: Visitor>(
    tree: &Tree<'_>,
    visitor: &V,
    queue: &Queue<V::Item>,
    stop: &(dyn Fn() -> Option<Cut> + Sync),
) {
    let mut worker = Worker { tree, visitor, queue, stop, scratch: V::Scratch::default() };
    while let Some(taken) = queue.take() {
        let mut current = Some(taken);
        while let Some(piece) = current {
            if let Some(cut) = stop() {
                queue.give_back(piece, cut);
                return;
            }
            current = worker.step(piece);
        }
    }
}

struct Worker<'w, V: Visitor> {
    tree: &'w Tree<'w>,
    visitor: &'w V,
    queue: &'w Queue<V::Item>,
    stop: &'w (dyn Fn() -> Option<Cut> + Sync),
    scratch: V::Scratch,
}

impl<V: Visitor> Worker<'_, V> {
    /// Works on one piece; gives the piece to go on with.
    fn step(&mut self, piece: Taken) -> Option<Taken> {
        match piece.work {
            Pending::Run(run) => {
                let finished = self.run(run, piece.start.clone());
                self.queue.split(&piece.start, vec![finished], None, Vec::new());
                None
            }
            Pending::Directory(directory) => match self.tree.expand(directory, self.visitor) {
                Expanded::Pieces(pieces) => self.go_on(&piece.start, pieces),
                Expanded::LeftOut(reason) => {
                    let mut tally = Tally::default();
                    tally.count(Some(reason));
                    let start = piece.start.clone();
                    let events = Events::Summed(tally);
                    let finished = Finished { start, items: Vec::new(), events, stopped: None };
                    self.queue.split(&piece.start, vec![finished], None, Vec::new());
                    None
                }
            },
        }
    }

    /// Hands out the pieces of a directory but the first; runs that cost nothing are done at once.
    fn go_on(&mut self, was: &Position, pieces: Vec<Pending>) -> Option<Taken> {
        let mut finished = Vec::new();
        let mut rest = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match piece {
                Pending::Run(run) if V::CHEAP => {
                    let start = Pending::Run(run);
                    let at = start.start();
                    if let Pending::Run(run) = start {
                        finished.push(self.run(run, at));
                    }
                }
                other => rest.push(other),
            }
        }
        let next = (!rest.is_empty()).then(|| rest.remove(0)).map(|work| Taken { start: work.start(), work });
        self.queue.split(was, finished, next.as_ref().map(|next| &next.start), rest);
        next
    }

    fn run(&mut self, mut run: Run, start: Position) -> Finished<V::Item> {
        let (dir, lost) = match self.directory_of(&mut run) {
            Ok(dir) => (Some(dir), None),
            Err(reason) => (None, Some(reason)),
        };
        let mut items = Vec::new();
        let mut found = Vec::new();
        let mut outcomes = Vec::with_capacity(run.entries.len());
        let mut stopped = None;
        for entry in &run.entries {
            let outcome = match (entry.skip.or(lost), &dir) {
                (Some(reason), _) => Err(reason),
                (None, None) => Err(Reason::Changed),
                (None, Some(dir)) => {
                    let (path, kind) = (&*entry.path, entry.kind);
                    let target =
                        Target { tree: self.tree, home: &run.home, dir, name: &entry.name, path, kind };
                    self.visitor.visit(&target, entry.after, &mut self.scratch, &mut found)
                }
            };
            // A visit that was broken off counts as not begun.
            if outcome == Err(Reason::Time) && self.stops() {
                stopped = Some(Arc::clone(&entry.path));
                break;
            }
            let position = |line| Position { path: Arc::clone(&entry.path), line };
            items.extend(found.drain(..).map(|(line, item)| (position(line), item)));
            outcomes.push(outcome.err());
            if self.stops() {
                stopped = run.entries.get(outcomes.len()).map(|next| Arc::clone(&next.path));
                break;
            }
        }
        let events = events(&run, &outcomes, items.is_empty());
        Finished { start, items, events, stopped }
    }

    fn stops(&self) -> bool {
        let Some(cut) = (self.stop)() else { return false };
        self.queue.cut(cut);
        true
    }

    /// The directory of a run: still open, or opened again and still the same.
    fn directory_of(&self, run: &mut Run) -> Result<OwnedFd, Reason> {
        if let Some(opened) = run.opened.take() {
            return Ok(opened);
        }
        let opened = self.tree.open(&run.home.path)?;
        let facts = sys::stat(&opened).map_err(|_| Reason::Changed)?;
        if facts.identity() == run.home.identity { Ok(opened) } else { Err(Reason::Changed) }
    }
}

/// What happened, path by path if an answer may end between them.
fn events(run: &Run, outcomes: &[Option<Reason>], no_items: bool) -> Events {
    // An entry that a cursor led back to was counted with the answer before.
    let counted = run.entries.iter().zip(outcomes).filter(|(entry, _)| entry.after == 0);
    if no_items {
        let mut tally = Tally::default();
        counted.for_each(|(_, outcome)| tally.count(*outcome));
        Events::Summed(tally)
    } else {
        Events::Each(counted.map(|(entry, outcome)| (Arc::clone(&entry.path), *outcome)).collect())
    }
}
