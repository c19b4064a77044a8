//! Removing a file, to undo its creation.

use std::ffi::CStr;

use rustix::io::Errno;

use super::current::Current;
use super::fault::ReplaceFault;
use super::perform::{How, WriterCheck};
use super::steps::Step;
use super::swap::{self, is_unsupported};
use super::target::Prepared;

impl Prepared {
    /// Takes the file out of its name, looks at it, and removes it or puts it back.
    pub(super) fn remove(&self, name: &CStr, current: &Current) -> Result<(How, WriterCheck), ReplaceFault> {
        let place = &self.place;
        let writers = swap::guard(&self.replacer, current).map_err(|what| self.conflict(what))?;
        self.expect_unchanged(current)?;
        match self.take_out(name) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(self.conflict("another process removed it")),
            Err(errno) => return Err(ReplaceFault::of(errno, &place.path)),
        }
        let put_back = |fault: ReplaceFault| {
            let put = || swap::put_back_removed(place, name);
            self.before(Step::PutBack).and_then(|()| put()).err().unwrap_or(fault)
        };
        self.before(Step::Verify).and_then(|()| self.inspect(name, current, &writers)).map_err(put_back)?;
        self.sync()?;
        self.before(Step::RemoveOld)
            .and_then(|()| self.inspect(name, current, &writers))
            .map_err(put_back)?;
        swap::remove(place, name).map_err(|errno| put_back(ReplaceFault::of(errno, &place.path)))?;
        Ok((How::Removed, writers.check()))
    }

    fn take_out(&self, name: &CStr) -> rustix::io::Result<()> {
        self.replacer.watch.before(Step::Swap)?;
        match swap::rename_to_free(&self.place, &self.place.name, name) {
            // Nobody else knows the temporary name.
            Err(errno) if is_unsupported(errno) => swap::rename_over(&self.place, &self.place.name, name),
            result => result,
        }
    }
}
