//! The descriptors that a launcher inherits, by number.
#![allow(unsafe_code, reason = "raw descriptors named by number")]

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Order, status pipe and control socket, as the arguments name them.
pub fn inherited() -> (File, File, UnixStream) {
    let mut numbers =
        std::env::args().skip(1).map(|text| text.parse::<i32>().expect("a descriptor's number"));
    let mut next = || {
        let number = numbers.next().expect("three descriptors");
        assert!(number > 2, "not a standard descriptor");
        // SAFETY: whoever starts a launcher leaves it these descriptors, each named once; nothing else in this process
        // knows them.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).expect("an open descriptor");
        fd
    };
    (next().into(), next().into(), next().into())
}
