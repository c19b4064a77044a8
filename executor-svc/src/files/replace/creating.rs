//! Making a file where there is none.

use std::ffi::CStr;

use rustix::io::Errno;

use super::WithoutExchange;
use super::fault::ReplaceFault;
use super::perform::{How, WriterCheck};
use super::steps::Step;
use super::swap::{self, is_unsupported};
use super::target::Prepared;
use super::temporary::{Temporary, remove_if};

impl Prepared {
    pub(super) fn create(&self, name: &CStr) -> Result<(How, WriterCheck), ReplaceFault> {
        let place = &self.place;
        if place.facts_of(&place.name)?.is_some() {
            return Err(self.conflict("another process made it"));
        }
        let temporary = self.make_temporary(name)?;
        self.expect_in_place()?;
        let how = self.take_free_name(&temporary)?;
        temporary.give_away();
        let kept = self.before(Step::Verify).and_then(|()| self.expect_in_place());
        if let Err(fault) = kept {
            // Only what is ours is taken back.
            remove_if(&place.directory, &place.name, temporary.identity);
            return Err(fault);
        }
        self.read_back(&temporary)?;
        self.sync()?;
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
}
