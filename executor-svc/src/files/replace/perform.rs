//! Doing what was prepared.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use serde::Serialize;

use super::current::Current;
use super::fault::ReplaceFault;
use super::intent::After;
use super::place::{MadeDirectory, Place};
use super::steps::Step;
use super::swap;
use super::target::Prepared;
use super::temporary::{Temporary, as_name};
use crate::files::session::SessionFiles;

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// SHA-256 of the bytes before; `None` if there was no file.
    pub before_sha256: Option<String>,
    /// SHA-256 of the bytes after, read back; `None` if the file was removed.
    pub after_sha256: Option<String>,
    /// The directories that were made on the way, outermost first.
    pub created_directories: Vec<PathBuf>,
    /// The empty directories that were removed with the file.
    pub removed_directories: Vec<PathBuf>,
    /// How the name came to stand for something else.
    pub how: How,
    /// Whether a process that still had the old file open for writing would have been seen.
    pub foreign_writer_check: WriterCheck,
}

/// How a name came to stand for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The old and the new file were swapped in one step, and the old one was looked at afterwards.
    Exchanged,
    /// The name was free, and was taken in one step.
    Created,
    /// Renamed over the old file, or to a name that was free just before: the file system can do no better. A change
    /// by another process in that instant would not have been seen.
    Renamed,
    /// The file was taken out of its name, looked at and removed.
    Removed,
}

/// How it was found out whether another process had the old file open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WriterCheck {
    /// By a lease of the kernel.
    Lease,
    /// Not at all: the system does not tell.
    None,
    /// There was no old file.
    NotNeeded,
}

impl Prepared {
    /// Does it. It blocks on the disk.
    ///
    /// # Errors
    /// Unless the fault is [`ReplaceFault::Uncertain`], the file is what it was or what another process made of it, and
    /// nothing of ours is left.
    pub fn perform(mut self) -> Result<Outcome, ReplaceFault> {
        let mut made = Vec::new();
        let result = self
            .before(Step::Begin)
            .and_then(|()| self.make_directories(&mut made))
            .and_then(|()| self.change());
        match result {
            Ok((how, check)) => Ok(self.outcome(how, check, made)),
            Err(fault) => {
                // Only those that are empty can be removed.
                for directory in made.iter().rev() {
                    let _ = rustix::fs::unlinkat(&directory.parent, &directory.name, AtFlags::REMOVEDIR);
                }
                Err(fault)
            }
        }
    }

    fn outcome(&self, how: How, check: WriterCheck, made: Vec<MadeDirectory>) -> Outcome {
        Outcome {
            before_sha256: self.intent.before.sha256().map(str::to_owned),
            after_sha256: self.intent.after.sha256().map(str::to_owned),
            created_directories: made.into_iter().map(|directory| directory.path).collect(),
            removed_directories: remove_empty(&self.files, &self.place.path, &self.empty_directories),
            how,
            foreign_writer_check: check,
        }
    }

    pub(super) fn before(&self, step: Step) -> Result<(), ReplaceFault> {
        self.replacer.before(step, &self.place.path)
    }

    fn make_directories(&mut self, made: &mut Vec<MadeDirectory>) -> Result<(), ReplaceFault> {
        while !self.place.missing.is_empty() {
            self.before(Step::MakeDirectories)?;
            let next = self.place.make_next_directory(&self.files, self.replacer.options.umask)?;
            made.extend(next);
        }
        Ok(())
    }

    fn change(&self) -> Result<(How, WriterCheck), ReplaceFault> {
        let Some(name) = as_name(&self.intent.temporary) else {
            return Err(self.conflict("the name of its temporary file is not one"));
        };
        let done = match (&self.current, &self.intent.after) {
            (Some(current), After::File { .. }) => self.replace(&name, current),
            (None, After::File { .. }) => self.create(&name),
            (Some(current), After::Absent) => self.remove(&name, current),
            (None, After::Absent) => Err(self.conflict("there is nothing to remove")),
        }?;
        self.before(Step::Finish)?;
        Ok(done)
    }

    /// Makes the new name durable. What fails from here on leaves the new bytes in their place.
    pub(super) fn sync(&self) -> Result<(), ReplaceFault> {
        self.before(Step::SyncDirectory)
            .and_then(|()| self.place.sync())
            .map_err(|fault| self.uncertain(&fault))
    }

    pub(super) fn conflict(&self, what: &'static str) -> ReplaceFault {
        ReplaceFault::Conflict { path: self.place.path.clone(), what }
    }

    /// The change is made, and it is not known whether it would survive a loss of power.
    fn uncertain(&self, fault: &ReplaceFault) -> ReplaceFault {
        let why =
            format!("the new bytes are in their place, and could not be confirmed on the disk ({fault})");
        ReplaceFault::Uncertain { path: self.place.path.clone(), why }
    }

    pub(super) fn expect_unchanged(&self, current: &Current) -> Result<(), ReplaceFault> {
        let now = self.place.facts_of(&self.place.name)?;
        match now {
            None => return Err(self.conflict("another process removed it")),
            Some(now) if now.identity() != current.facts.identity() => {
                return Err(self.conflict("another process replaced it"));
            }
            Some(_) => {}
        }
        if !current.is_untouched() {
            return Err(self.conflict("another process changed it"));
        }
        self.expect_in_place()
    }

    pub(super) fn expect_in_place(&self) -> Result<(), ReplaceFault> {
        if self.place.is_still_there() { Ok(()) } else { Err(self.conflict(swap::MOVED)) }
    }

    pub(super) fn make_temporary<'a>(&'a self, name: &'a CStr) -> Result<Temporary<'a>, ReplaceFault> {
        Temporary::make(&self.replacer, &self.place, name, &self.new_bytes, self.current.as_ref())
    }

    /// Whether the name stands for our file, with our bytes.
    pub(super) fn read_back(&self, temporary: &Temporary<'_>) -> Result<(), ReplaceFault> {
        let there = self.place.facts_of(&self.place.name)?;
        let is_ours = there.is_some_and(|there| there.identity() == temporary.identity);
        if is_ours && temporary.has(&self.new_bytes) {
            return Ok(());
        }
        Err(self.conflict("it was written, and another process changed it again at once"))
    }
}

/// Removes those of these directories that are empty, as far as they lie on the way to the file; gives them, innermost
/// first.
pub(super) fn remove_empty(files: &SessionFiles, file: &Path, directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut wanted: Vec<_> = directories.iter().filter(|directory| file.starts_with(directory)).collect();
    wanted.sort_by_key(|directory| std::cmp::Reverse(directory.components().count()));
    let mut removed = Vec::new();
    for directory in wanted {
        let Ok(place) = Place::find(files, directory) else { break };
        if rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::REMOVEDIR).is_err() {
            break;
        }
        let _ = place.sync();
        removed.push(directory.clone());
    }
    removed
}
