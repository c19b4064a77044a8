//! Calls on open files that no crate offers in a safe form: whether somebody else has a file open for writing (Linux),
//! and copying what macOS keeps of a file besides its attributes.
//!
//! They are here because unsafe code is allowed in this crate only.

#![allow(unsafe_code, reason = "fcntl with lease commands and fcopyfile; each with its reason beside it")]

#[cfg(target_os = "linux")]
pub use linux::{NoWriters, no_writers};
#[cfg(target_os = "macos")]
pub use macos::copy_access_list;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

    use nix::errno::Errno;
    use nix::libc;

    /// From the kernel's `asm-generic/fcntl.h`; the libc crate does not have it.
    const F_SETSIG: libc::c_int = 10;

    /// As long as it lives, nobody can begin to write to the file: who opens it for writing waits.
    ///
    /// A read lease of the kernel. After `/proc/sys/fs/lease-break-time` (45 seconds) the kernel takes it away.
    #[derive(Debug)]
    pub struct NoWriters<'file> {
        file: BorrowedFd<'file>,
    }

    /// Makes sure that nobody has a file open for writing, and keeps it so while the answer lives. `None` if somebody
    /// has. The descriptor must be one for reading.
    ///
    /// # Errors
    /// Where the system cannot tell: a file of another user without the right to lease it, a file system without
    /// leases, something that is no regular file.
    pub fn no_writers<Fd: AsFd>(file: &Fd) -> io::Result<Option<NoWriters<'_>>> {
        let file = file.as_fd();
        // Who waits for the lease makes the kernel send a signal. SIGIO would end the process; SIGURG is ignored
        // unless somebody asks for it.
        fcntl(file, F_SETSIG, libc::SIGURG)?;
        match fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) {
            Ok(_) => Ok(Some(NoWriters { file })),
            Err(Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    impl NoWriters<'_> {
        /// Whether nobody has asked to write meanwhile.
        #[must_use]
        pub fn undisturbed(&self) -> bool {
            fcntl(self.file, libc::F_GETLEASE, 0) == Ok(libc::F_RDLCK)
        }
    }

    impl Drop for NoWriters<'_> {
        fn drop(&mut self) {
            // Closing the file would end it as well.
            let _ = fcntl(self.file, libc::F_SETLEASE, libc::F_UNLCK);
        }
    }

    fn fcntl(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> nix::Result<libc::c_int> {
        // SAFETY: the descriptor is open as long as it is borrowed, and all three commands take a plain number.
        Errno::result(unsafe { libc::fcntl(file.as_raw_fd(), command, argument) })
    }

    #[cfg(test)]
    mod tests {
        use std::fs::File;

        use super::*;

        #[test]
        fn a_writer_is_seen_while_it_has_the_file_open() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            let writer = File::create(&path).unwrap();
            let reader = File::open(&path).unwrap();
            assert!(no_writers(&reader).unwrap().is_none());
            drop(writer);
            let lease = no_writers(&reader).unwrap().unwrap();
            assert!(lease.undisturbed());
        }

        #[test]
        fn who_opens_it_for_writing_waits_and_is_seen_to_wait() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            std::fs::write(&path, "x").unwrap();
            let reader = File::open(&path).unwrap();
            let lease = no_writers(&reader).unwrap().unwrap();
            let waiting = std::thread::spawn(move || File::options().append(true).open(path).map(drop));
            while lease.undisturbed() {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished());
            drop(lease);
            waiting.join().unwrap().unwrap();
        }
    }
}

#[cfg(target_os = "macos")]
mod macos {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd};

    use nix::errno::Errno;
    use nix::libc;

    /// Gives the second file the access list of the first.
    ///
    /// # Errors
    /// The system's own.
    pub fn copy_access_list(from: &impl AsFd, to: &impl AsFd) -> io::Result<()> {
        let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
        // SAFETY: both descriptors are open as long as they are borrowed; without a state the call keeps nothing.
        let done = unsafe { libc::fcopyfile(from, to, std::ptr::null_mut(), libc::COPYFILE_ACL) };
        Errno::result(done).map(drop).map_err(io::Error::from)
    }
}
