//! Sorting a directory's entries into what is visited, what is counted as left out, and what is gone into.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;

use super::directory::{Directory, Home, Pending, Run, RunEntry, Tree};
use super::tally::Reason;
use super::{Entry, EntryKind, Hidden, Interest, Visitor};
use crate::files::policy::is_git;
use crate::files::sys::{self, Listed};

/// How many entries make a run at most.
const RUN: usize = 64;

/// The longest path that is shown, in bytes of JSON: an answer must have room for at least one.
const LONGEST_PATH: usize = 6 * 1024;

/// A directory on its way to becoming pieces.
pub(super) struct Split<'t, 'a> {
    tree: &'t Tree<'a>,
    directory: Directory,
    entries: Vec<RunEntry>,
    below: Vec<Directory>,
    /// Room for a path: most are needed no longer than it takes to judge them.
    spare: String,
}

/// Why an entry is neither visited nor gone into.
enum LeftOut {
    /// Nobody asked for it, or it was dealt with before.
    Silently,
    Because(Reason),
}

impl From<Reason> for LeftOut {
    fn from(reason: Reason) -> Self {
        Self::Because(reason)
    }
}

impl<'t, 'a> Split<'t, 'a> {
    pub(super) const fn new(tree: &'t Tree<'a>, directory: Directory) -> Self {
        Self { tree, directory, entries: Vec::new(), below: Vec::new(), spare: String::new() }
    }

    /// Puts one entry where it belongs.
    pub(super) fn sort_in<V: Visitor>(&mut self, listed: Listed, opened: &OwnedFd, visitor: &V) {
        let kind = kind_of(&listed, opened);
        let name = OsStr::from_bytes(listed.name.to_bytes());
        let text = name.to_string_lossy();
        let path = self.path_of(&text);
        let left_out = if name.to_str().is_none() {
            Err(Reason::NotUtf8Name.into())
        } else {
            self.place(&Entry { path: &path, name: &text, kind }, visitor)
        };
        let kept = match left_out {
            Ok(()) => Some(None),
            Err(LeftOut::Because(reason)) => Some(Some(reason)),
            Err(LeftOut::Silently) => None,
        };
        let kept = kept.and_then(|skip| self.given_before(&path, skip).map(|after| (skip, after)));
        if let Some((skip, after)) = kept {
            let path = path.as_str().into();
            self.entries.push(RunEntry { path, name: listed.name, kind, skip, after });
        }
        self.spare = path;
    }

    /// The path of an entry below the top; written where that of the one before was.
    fn path_of(&mut self, name: &str) -> String {
        let mut path = std::mem::take(&mut self.spare);
        path.clear();
        if !self.directory.path.is_empty() {
            path.push_str(&self.directory.path);
            path.push('/');
        }
        path.push_str(name);
        path
    }

    /// Decides about one entry; a directory that is to be gone into is noted.
    fn place<V: Visitor>(&mut self, entry: &Entry<'_>, visitor: &V) -> Result<(), LeftOut> {
        if entry.kind == EntryKind::Directory {
            return self.place_directory(entry, visitor);
        }
        if self.is_before(entry.path) {
            return Err(LeftOut::Silently);
        }
        if is_git(OsStr::new(entry.name)) {
            return Err(Reason::Git.into());
        }
        if let Some(reason) = self.tree.judge_child(&self.directory, OsStr::new(entry.name), entry.path) {
            return Err(reason.into());
        }
        self.tree.judge_mounted(entry.path)?;
        self.is_wanted(entry)?;
        interest(visitor, entry)
    }

    fn place_directory<V: Visitor>(&mut self, entry: &Entry<'_>, visitor: &V) -> Result<(), LeftOut> {
        if self.is_wholly_before(entry.path) {
            return Err(LeftOut::Silently);
        }
        if is_git(OsStr::new(entry.name)) {
            return Err(Reason::Git.into());
        }
        let guards = self.tree.guard_child(&self.directory, OsStr::new(entry.name), entry.path)?;
        self.tree.judge_mounted(entry.path)?;
        self.is_wanted(entry)?;
        if visitor.descends(entry) && self.directory.depth + 1 < self.tree.bounds().max_depth {
            self.below.push(Directory {
                path: entry.path.to_owned(),
                depth: self.directory.depth + 1,
                guards,
                ignores: self.directory.ignores.clone(),
                mount: self.directory.mount.clone(),
            });
        }
        interest(visitor, entry)
    }

    /// Hidden, ignored, too long to show.
    fn is_wanted(&self, entry: &Entry<'_>) -> Result<(), Reason> {
        if self.tree.bounds().hidden == Hidden::LeftOut && entry.name.starts_with('.') {
            return Err(Reason::Hidden);
        }
        let is_directory = entry.kind == EntryKind::Directory;
        if self.directory.ignores.as_ref().is_some_and(|ignores| ignores.ignores(entry.path, is_directory)) {
            return Err(Reason::Ignored);
        }
        // No character takes more than six times its bytes, so most paths need no closer look.
        let bytes = self.tree.top_bytes() + 1 + entry.path.len();
        if bytes * 6 > LONGEST_PATH && shown_bytes(&self.tree.real(entry.path)) > LONGEST_PATH {
            return Err(Reason::PathTooLong);
        }
        Ok(())
    }

    /// Whether the cursor lies behind this path.
    fn is_before(&self, path: &str) -> bool {
        path < &*self.tree.bounds().after.path
    }

    /// Whether the cursor lies behind this directory and all that is below it.
    fn is_wholly_before(&self, path: &str) -> bool {
        let after = &*self.tree.bounds().after.path;
        if after.is_empty() {
            return false;
        }
        let contents = format!("{path}/");
        path < after && contents.as_str() < after && !after.starts_with(&contents)
    }

    /// The line up to which an entry was given before; `None` if it is done with.
    fn given_before(&self, path: &str, skip: Option<Reason>) -> Option<u64> {
        let after = &self.tree.bounds().after;
        match path.cmp(&*after.path) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Greater => Some(0),
            std::cmp::Ordering::Equal if after.line == u64::MAX || (skip.is_some() && after.line > 0) => None,
            std::cmp::Ordering::Equal => Some(after.line),
        }
    }

    /// The pieces, in their order. The first run gets the open directory, if it comes first.
    pub(super) fn pieces(mut self, home: &Arc<Home>, opened: OwnedFd) -> Vec<Pending> {
        self.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut below: Vec<_> = self.below.into_iter().map(|d| (format!("{}/", d.path), d)).collect();
        below.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut below = VecDeque::from(below);
        let mut pieces: Vec<Pending> = Vec::with_capacity(below.len() + 1);
        let mut opened = Some(opened);
        let mut run: Vec<RunEntry> = Vec::new();
        for entry in self.entries {
            while below.front().is_some_and(|(start, _)| start.as_str() < &*entry.path) {
                close(&mut run, home, &mut opened, &mut pieces);
                pieces.extend(below.pop_front().map(|(_, directory)| Pending::Directory(directory)));
            }
            run.push(entry);
            if run.len() == RUN {
                close(&mut run, home, &mut opened, &mut pieces);
            }
        }
        close(&mut run, home, &mut opened, &mut pieces);
        pieces.extend(below.into_iter().map(|(_, directory)| Pending::Directory(directory)));
        pieces
    }
}

fn close(run: &mut Vec<RunEntry>, home: &Arc<Home>, opened: &mut Option<OwnedFd>, pieces: &mut Vec<Pending>) {
    if run.is_empty() {
        return;
    }
    // Only the first piece is worked on at once; the others would keep the descriptor for long.
    let opened = if pieces.is_empty() { opened.take() } else { None };
    pieces.push(Pending::Run(Run { home: Arc::clone(home), entries: std::mem::take(run), opened }));
}

fn interest<V: Visitor>(visitor: &V, entry: &Entry<'_>) -> Result<(), LeftOut> {
    match visitor.interest(entry) {
        Interest::Visit => Ok(()),
        Interest::None => Err(LeftOut::Silently),
        Interest::Skip(reason) => Err(reason.into()),
    }
}

fn kind_of(listed: &Listed, opened: &OwnedFd) -> EntryKind {
    let kind = match listed.kind {
        FileType::Unknown => {
            sys::stat_child(opened, &listed.name).map_or(FileType::Unknown, |facts| facts.kind)
        }
        known => known,
    };
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => EntryKind::Other,
    }
}

/// How many bytes a path takes as a JSON string.
fn shown_bytes(path: &Path) -> usize {
    serde_json::to_string(&path.to_string_lossy()).map_or(usize::MAX, |json| json.len())
}
