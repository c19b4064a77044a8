//! Replacing a file that is there.

use std::ffi::CStr;

use rustix::io::Errno;

use super::WithoutExchange;
use super::current::Current;
use super::fault::ReplaceFault;
use super::perform::{How, WriterCheck};
use super::steps::Step;
use super::swap::{self, Writers, is_unsupported};
use super::target::Prepared;
use super::temporary::Temporary;

impl Prepared {
    /// Swaps the old file and the new one, looks at what came out, and lets it go or puts it back.
    pub(super) fn replace(&self, name: &CStr, current: &Current) -> Result<(How, WriterCheck), ReplaceFault> {
        self.expect_unchanged(current)?;
        let temporary = self.make_temporary(name)?;
        // From here until it is decided, who wants to write to the old file waits, and is seen to; and who wants to
        // write to the new one waits as well, so that nobody's work goes away with it if it has to.
        let new_writers = swap::writers(&self.replacer, &temporary.file);
        if new_writers.disturbed() {
            return Err(self.conflict("another process has its temporary file open"));
        }
        let writers = swap::guard(&self.replacer, current).map_err(|what| self.conflict(what))?;
        self.expect_unchanged(current)?;
        let place = &self.place;
        match self.swap_names(name) {
            Ok(()) => temporary.give_away(),
            Err(errno) if is_unsupported(errno) => return self.rename_over(&temporary, current, &writers),
            Err(Errno::NOENT) => return Err(self.conflict("another process removed it")),
            Err(errno) => return Err(ReplaceFault::of(errno, &place.path)),
        }
        let put_back = |fault: ReplaceFault| {
            let is_untouched = || !new_writers.disturbed() && temporary.has(&self.new_bytes);
            let put = || swap::put_back(place, name, temporary.identity, is_untouched);
            self.before(Step::PutBack).and_then(|()| put()).err().unwrap_or(fault)
        };
        self.before(Step::Verify).and_then(|()| self.inspect(name, current, &writers)).map_err(put_back)?;
        // The name is made durable before the old file goes: who found it just before the swap has so long to show up.
        self.sync()?;
        self.before(Step::RemoveOld)
            .and_then(|()| self.inspect(name, current, &writers))
            .map_err(put_back)?;
        let kept = self.read_back(&temporary);
        swap::remove(place, name).map_err(|errno| put_back(ReplaceFault::of(errno, &place.path)))?;
        kept.map(|()| (How::Exchanged, writers.check()))
    }

    fn swap_names(&self, name: &CStr) -> rustix::io::Result<()> {
        self.replacer.watch.before(Step::Swap)?;
        swap::exchange(&self.place, name, &self.place.name)
    }

    /// Whether what now has the temporary name is the old file as it was expected.
    pub(super) fn inspect(
        &self,
        name: &CStr,
        current: &Current,
        writers: &Writers<'_>,
    ) -> Result<(), ReplaceFault> {
        swap::inspect(&self.place, name, current, writers).map_err(|what| self.conflict(what))
    }

    /// The weaker way, for file systems that cannot swap.
    fn rename_over(
        &self,
        temporary: &Temporary<'_>,
        current: &Current,
        writers: &Writers<'_>,
    ) -> Result<(How, WriterCheck), ReplaceFault> {
        let place = &self.place;
        if self.replacer.options.without_exchange == WithoutExchange::Refuse {
            return Err(ReplaceFault::NoExchange { path: place.path.clone() });
        }
        swap::inspect(place, &place.name, current, writers).map_err(|what| self.conflict(what))?;
        swap::rename_over(place, temporary.name, &place.name)
            .map_err(|errno| ReplaceFault::of(errno, &place.path))?;
        temporary.give_away();
        if writers.disturbed() || !current.has_same_bytes() {
            let why = "another process wrote to it as it was replaced, and its file system keeps no old file: that \
                       change is lost";
            return Err(ReplaceFault::Uncertain { path: place.path.clone(), why: why.to_owned() });
        }
        self.read_back(temporary)?;
        self.sync()?;
        Ok((How::Renamed, writers.check()))
    }
}
