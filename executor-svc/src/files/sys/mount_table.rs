//! The kernel's table of mounts, read again only after it has changed.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::files::mounts::{Mounts, parse_mountinfo};

/// The table as it was read, and the open file by which the kernel tells of a change since.
struct Table {
    file: File,
    mounts: Mounts,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// The same under the paths that its places have now: the kernel does not tell when a directory on the way gets another name.
pub(in crate::files) fn mounts_by_present_name() -> io::Result<Mounts> {
    Table::read().map(|table| table.mounts)
}

/// Every mount this process can see, as of now.
pub(in crate::files) fn mounts() -> io::Result<Mounts> {
    let mut kept = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = kept.as_ref().filter(|table| table.is_current()) {
        return Ok(table.mounts.clone());
    }
    // Without a table if it cannot be read: what was known before is out of date.
    *kept = None;
    let table = Table::read()?;
    let mounts = table.mounts.clone();
    *kept = Some(table);
    Ok(mounts)
}

impl Table {
    /// Changes count from the opening on, so one that comes while it is read is seen the next time.
    fn read() -> io::Result<Self> {
        let mut file = File::open("/proc/self/mountinfo")?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(Self { file, mounts: Mounts::new(parse_mountinfo(&text)) })
    }

    /// Whether no mount was made, moved or taken away since. The kernel tells of a change once: who hears of it reads
    /// anew.
    fn is_current(&self) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut asked = [PollFd::new(&self.file, PollFlags::PRI)];
        let told = poll(&mut asked, Some(&AT_ONCE));
        told.is_ok() && !asked[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_nobody_changed_is_not_read_again_and_says_what_the_kernel_says() {
        let table = Table::read().unwrap();
        // Another test may mount something at this very moment.
        if table.is_current() {
            let now = Mounts::new(parse_mountinfo(&std::fs::read("/proc/self/mountinfo").unwrap()));
            let root = std::path::Path::new("/");
            assert_eq!(table.mounts.containing(root), now.containing(root));
        }
        assert!(mounts().unwrap().containing(std::path::Path::new("/proc")).is_some());
    }
}
