//! Doing what was prepared.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::Serialize;

use super::WithoutExchange;
use super::current::Current;
use super::fault::ReplaceFault;
use super::intent::After;
use super::place::{MadeDirectory, Place};
use super::steps::Step;
use super::swap::{self, is_unsupported};
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
        let result = self.make_directories(&mut made).and_then(|()| self.change());
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

    fn before(&self, step: Step) -> Result<(), ReplaceFault> {
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
        self.before(Step::SyncDirectory)
            .and_then(|()| self.place.sync())
            .map_err(|fault| self.uncertain(&fault))?;
        self.before(Step::Finish)?;
        Ok(done)
    }

    fn conflict(&self, what: &'static str) -> ReplaceFault {
        ReplaceFault::Conflict { path: self.place.path.clone(), what }
    }

    /// The change is made, and it is not known whether it would survive a loss of power.
    fn uncertain(&self, fault: &ReplaceFault) -> ReplaceFault {
        let why =
            format!("the new bytes are in their place, and could not be confirmed on the disk ({fault})");
        ReplaceFault::Uncertain { path: self.place.path.clone(), why }
    }

    fn expect_unchanged(&self, current: &Current) -> Result<(), ReplaceFault> {
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

    fn expect_in_place(&self) -> Result<(), ReplaceFault> {
        if self.place.is_still_there() { Ok(()) } else { Err(self.conflict(swap::MOVED)) }
    }

    fn make_temporary<'a>(&'a self, name: &'a CStr) -> Result<Temporary<'a>, ReplaceFault> {
        Temporary::make(&self.replacer, &self.place, name, &self.new_bytes, self.current.as_ref())
    }

    fn replace(&self, name: &CStr, current: &Current) -> Result<(How, WriterCheck), ReplaceFault> {
        let place = &self.place;
        self.expect_unchanged(current)?;
        let mut temporary = self.make_temporary(name)?;
        self.expect_unchanged(current)?;
        let swapped =
            self.replacer.watch.before(Step::Swap).and_then(|()| swap::exchange(place, name, &place.name));
        match swapped {
            Ok(()) => temporary.give_away(),
            Err(errno) if is_unsupported(errno) => return self.rename_over(temporary, current),
            Err(Errno::NOENT) => return Err(self.conflict("another process removed it")),
            Err(errno) => return Err(ReplaceFault::of(errno, &place.path)),
        }
        let put_back = |fault: ReplaceFault| match self
            .before(Step::PutBack)
            .and_then(|()| swap::put_back(place, name, temporary.identity))
        {
            Ok(()) => fault,
            Err(lost) => lost,
        };
        self.before(Step::Verify).map_err(put_back)?;
        let writers = swap::inspect(place, name, current).map_err(|what| put_back(self.conflict(what)))?;
        if let Err(fault) = self.read_back(&temporary) {
            // Somebody changed what we wrote: that is newer and stays. The old file was as expected.
            swap::remove(place, name).map_err(|errno| ReplaceFault::of(errno, &place.path))?;
            return Err(fault);
        }
        self.before(Step::RemoveOld).map_err(put_back)?;
        if writers.disturbed() {
            return Err(put_back(self.conflict(swap::WRITTEN)));
        }
        swap::remove(place, name).map_err(|errno| put_back(ReplaceFault::of(errno, &place.path)))?;
        let check = if writers.is_known() { WriterCheck::Lease } else { WriterCheck::None };
        Ok((How::Exchanged, check))
    }

    /// The weaker way, for file systems that cannot swap.
    fn rename_over(
        &self,
        mut temporary: Temporary<'_>,
        current: &Current,
    ) -> Result<(How, WriterCheck), ReplaceFault> {
        let place = &self.place;
        if self.replacer.options.without_exchange == WithoutExchange::Refuse {
            return Err(ReplaceFault::NoExchange { path: place.path.clone() });
        }
        let writers = swap::inspect(place, &place.name, current).map_err(|what| self.conflict(what))?;
        if writers.disturbed() {
            return Err(self.conflict(swap::WRITTEN));
        }
        swap::rename_over(place, temporary.name, &place.name)
            .map_err(|errno| ReplaceFault::of(errno, &place.path))?;
        temporary.give_away();
        if writers.disturbed() || !current.has_same_bytes() {
            let why = "another process wrote to it as it was replaced, and its file system keeps no old file: that \
                       change is lost";
            return Err(ReplaceFault::Uncertain { path: place.path.clone(), why: why.to_owned() });
        }
        self.read_back(&temporary)?;
        let check = if writers.is_known() { WriterCheck::Lease } else { WriterCheck::None };
        Ok((How::Renamed, check))
    }

    fn create(&self, name: &CStr) -> Result<(How, WriterCheck), ReplaceFault> {
        let place = &self.place;
        if place.facts_of(&place.name)?.is_some() {
            return Err(self.conflict("another process made it"));
        }
        let mut temporary = self.make_temporary(name)?;
        self.expect_in_place()?;
        let how = self.take_free_name(&temporary)?;
        temporary.give_away();
        let kept = self.before(Step::Verify).and_then(|()| self.expect_in_place());
        if let Err(fault) = kept {
            // Only what is ours is taken back.
            super::temporary::remove_if(&place.directory, &place.name, temporary.identity);
            return Err(fault);
        }
        self.read_back(&temporary)?;
        Ok((how, WriterCheck::NotNeeded))
    }

    fn take_free_name(&self, temporary: &Temporary<'_>) -> Result<How, ReplaceFault> {
        let (place, name) = (&self.place, temporary.name);
        let exists = || self.conflict("another process made it");
        let fault = |errno| ReplaceFault::of(errno, &place.path);
        let taken = self
            .replacer
            .watch
            .before(Step::Swap)
            .and_then(|()| swap::rename_to_free(place, name, &place.name));
        match taken {
            Ok(()) => return Ok(How::Created),
            Err(Errno::EXIST) => return Err(exists()),
            Err(errno) if is_unsupported(errno) => {}
            Err(errno) => return Err(fault(errno)),
        }
        match swap::link_to_free(place, name, &place.name) {
            Ok(()) => return swap::remove(place, name).map(|()| How::Created).map_err(fault),
            Err(Errno::EXIST) => return Err(exists()),
            // No hard links here.
            Err(_) if self.replacer.options.without_exchange == WithoutExchange::Rename => {}
            Err(_) => return Err(ReplaceFault::NoExchange { path: place.path.clone() }),
        }
        if place.facts_of(&place.name)?.is_some() {
            return Err(exists());
        }
        swap::rename_over(place, name, &place.name).map(|()| How::Renamed).map_err(fault)
    }

    fn remove(&self, name: &CStr, current: &Current) -> Result<(How, WriterCheck), ReplaceFault> {
        let place = &self.place;
        self.expect_unchanged(current)?;
        let moved = self
            .replacer
            .watch
            .before(Step::Swap)
            .and_then(|()| swap::rename_to_free(place, &place.name, name));
        match moved {
            Ok(()) => {}
            // Nobody else knows the temporary name.
            Err(errno) if is_unsupported(errno) => swap::rename_over(place, &place.name, name)
                .map_err(|errno| ReplaceFault::of(errno, &place.path))?,
            Err(Errno::NOENT) => return Err(self.conflict("another process removed it")),
            Err(errno) => return Err(ReplaceFault::of(errno, &place.path)),
        }
        let put_back = |fault: ReplaceFault| match self
            .before(Step::PutBack)
            .and_then(|()| swap::put_back_removed(place, name))
        {
            Ok(()) => fault,
            Err(lost) => lost,
        };
        self.before(Step::Verify).map_err(put_back)?;
        let writers = swap::inspect(place, name, current).map_err(|what| put_back(self.conflict(what)))?;
        self.before(Step::RemoveOld).map_err(put_back)?;
        if writers.disturbed() {
            return Err(put_back(self.conflict(swap::WRITTEN)));
        }
        swap::remove(place, name).map_err(|errno| put_back(ReplaceFault::of(errno, &place.path)))?;
        let check = if writers.is_known() { WriterCheck::Lease } else { WriterCheck::None };
        Ok((How::Removed, check))
    }

    /// Whether the name stands for our file, with our bytes.
    fn read_back(&self, temporary: &Temporary<'_>) -> Result<(), ReplaceFault> {
        let there = self.place.facts_of(&self.place.name)?;
        let is_ours = there.is_some_and(|there| there.identity() == temporary.identity);
        if is_ours && temporary.read_back().as_deref() == self.intent.after.sha256() {
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
