//! Changing what a name stands for, in one step, and taking it back.

use std::ffi::CStr;
use std::fs::File;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use super::Replacer;
use super::current::Current;
use super::fault::ReplaceFault;
use super::perform::WriterCheck;
use super::place::Place;

/// Whether an error says that the file system does not know the flag or the call.
pub(super) fn is_unsupported(errno: Errno) -> bool {
    // The last two are one on Linux and two on macOS.
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
        || errno.raw_os_error() == Errno::OPNOTSUPP.raw_os_error()
}

/// Swaps two names of the directory.
pub(super) fn exchange(place: &Place, one: &CStr, other: &CStr) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(&place.directory, one, &place.directory, other, RenameFlags::EXCHANGE)
}

/// Renames to a name that is free, in one step where the file system can.
pub(super) fn rename_to_free(place: &Place, from: &CStr, to: &CStr) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(&place.directory, from, &place.directory, to, RenameFlags::NOREPLACE)
}

/// Renames, whatever has the name.
pub(super) fn rename_over(place: &Place, from: &CStr, to: &CStr) -> rustix::io::Result<()> {
    rustix::fs::renameat(&place.directory, from, &place.directory, to)
}

/// Gives a file a second name that is free, in one step.
pub(super) fn link_to_free(place: &Place, from: &CStr, to: &CStr) -> rustix::io::Result<()> {
    rustix::fs::linkat(&place.directory, from, &place.directory, to, AtFlags::empty())
}

/// Removes a name.
pub(super) fn remove(place: &Place, name: &CStr) -> rustix::io::Result<()> {
    rustix::fs::unlinkat(&place.directory, name, AtFlags::empty())
}

/// Whether somebody has the old file open for writing.
#[derive(Debug)]
pub(super) enum Writers<'a> {
    /// Nobody, and who tries waits.
    #[cfg(target_os = "linux")]
    Nobody(gatehouse_sandbox::open_file::NoWriters<'a>),
    /// Somebody has.
    #[cfg(target_os = "linux")]
    Somebody,
    /// The system does not tell.
    Unknown(std::marker::PhantomData<&'a ()>),
}

/// A child process has the descriptors of its parent until it is executed: our own last write can look like somebody
/// else's for that long. How many milliseconds to wait before each look.
#[cfg(target_os = "linux")]
const AGAIN: [u64; 4] = [0, 1, 4, 15];

#[cfg(target_os = "linux")]
pub(super) fn writers<'a>(replacer: &Replacer, file: &'a File) -> Writers<'a> {
    if !replacer.watch.asks_for_writers() {
        return Writers::Unknown(std::marker::PhantomData);
    }
    for pause in AGAIN {
        std::thread::sleep(std::time::Duration::from_millis(pause));
        match gatehouse_sandbox::open_file::no_writers(file) {
            Ok(Some(lease)) => return Writers::Nobody(lease),
            Ok(None) => {}
            Err(_) => return Writers::Unknown(std::marker::PhantomData),
        }
    }
    Writers::Somebody
}

#[cfg(not(target_os = "linux"))]
pub(super) const fn writers<'a>(_: &Replacer, _: &'a File) -> Writers<'a> {
    Writers::Unknown(std::marker::PhantomData)
}

impl Writers<'_> {
    /// Whether somebody writes, or has asked to since.
    pub(super) fn disturbed(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Nobody(lease) => !lease.undisturbed(),
            #[cfg(target_os = "linux")]
            Self::Somebody => true,
            Self::Unknown(_) => false,
        }
    }

    /// Whether they would have been seen.
    pub(super) const fn check(&self) -> WriterCheck {
        match self {
            #[cfg(target_os = "linux")]
            Self::Nobody(_) | Self::Somebody => WriterCheck::Lease,
            Self::Unknown(_) => WriterCheck::None,
        }
    }
}

pub(super) const WRITTEN: &str = "another process has it open for writing";
pub(super) const REPLACED: &str = "another process replaced it";
pub(super) const TOUCHED: &str = "another process changed it";
pub(super) const MOVED: &str = "another process moved its directory";

/// Keeps writers off the old file, and makes sure that it has the bytes that were read.
pub(super) fn guard<'a>(replacer: &Replacer, current: &'a Current) -> Result<Writers<'a>, &'static str> {
    let writers = writers(replacer, &current.file);
    if writers.disturbed() {
        return Err(WRITTEN);
    }
    if current.has_same_bytes() { Ok(writers) } else { Err(TOUCHED) }
}

/// Looks at what now stands under `name`, where the old file should stand, and says what is wrong with it.
pub(super) fn inspect(
    place: &Place,
    name: &CStr,
    current: &Current,
    writers: &Writers<'_>,
) -> Result<(), &'static str> {
    match place.facts_of(name) {
        Ok(Some(now)) if now.identity() != current.facts.identity() => return Err(REPLACED),
        Ok(Some(now)) if !current.is_alike(&now) => return Err(TOUCHED),
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => return Err(REPLACED),
    }
    if writers.disturbed() {
        return Err(WRITTEN);
    }
    // Where writers are kept off, the bytes are those that were looked at since.
    if writers.check() == WriterCheck::None && !current.has_same_bytes() {
        return Err(TOUCHED);
    }
    if place.is_still_there() { Ok(()) } else { Err(MOVED) }
}

/// How often putting back is tried while other processes change the name at the same time.
const TRIES: usize = 16;

/// Puts what stands under the temporary name back in its place, and removes our new file, if nobody else has written
/// to it meanwhile: `is_untouched` says so once it has lost its name.
///
/// Whatever another process put in the place meanwhile is newer, and stays.
pub(super) fn put_back(
    place: &Place,
    temporary: &CStr,
    ours: (u64, u64),
    is_untouched: impl Fn() -> bool,
) -> Result<(), ReplaceFault> {
    let identity = |name: &CStr| place.facts_of(name).ok().flatten().map(|facts| facts.identity());
    let mut goes = ours;
    for _ in 0..TRIES {
        let older = identity(temporary);
        match exchange(place, temporary, &place.name) {
            Ok(()) if identity(temporary) == Some(goes) => {
                if goes == ours && !is_untouched() {
                    return Err(lost(place, temporary, "it was written to as well"));
                }
                remove(place, temporary).map_err(|errno| lost(place, temporary, errno))?;
                return place.sync();
            }
            // Something newer came out: it goes back in, and what we have just put there comes out.
            Ok(()) => goes = older.unwrap_or(goes),
            Err(Errno::NOENT) => match rename_to_free(place, temporary, &place.name) {
                Ok(()) => return place.sync(),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(lost(place, temporary, errno)),
            },
            Err(errno) => return Err(lost(place, temporary, errno)),
        }
    }
    Err(lost(place, temporary, Errno::BUSY))
}

/// Puts a file that was to be removed back in its place.
pub(super) fn put_back_removed(place: &Place, temporary: &CStr) -> Result<(), ReplaceFault> {
    let back = match rename_to_free(place, temporary, &place.name) {
        Err(errno) if is_unsupported(errno) => {
            link_to_free(place, temporary, &place.name).and_then(|()| remove(place, temporary))
        }
        result => result,
    };
    back.map_err(|errno| lost(place, temporary, errno))?;
    place.sync()
}

fn lost(place: &Place, temporary: &CStr, cause: impl std::fmt::Display) -> ReplaceFault {
    let why = format!(
        "other processes changed it at the same moment, and not all they wrote could be put back: the rest is kept \
         beside the file as {} ({cause})",
        temporary.to_string_lossy()
    );
    ReplaceFault::Uncertain { path: place.path.clone(), why }
}
