//! Descriptors that go from the keeper to whoever launched.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// The pidfd, and as many listeners as there may be.
const MOST: usize = 16;

/// Sends the pidfd of the first process inside, then the listeners.
pub(super) fn send(
    control: BorrowedFd<'_>,
    init: BorrowedFd<'_>,
    listeners: &[TcpListener],
) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = std::iter::once(init).chain(listeners.iter().map(AsFd::as_fd)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // A message has to have a byte to carry them.
    rustix::net::sendmsg(control, &[IoSlice::new(b"+")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives them; none when the keeper ended before it sent any.
pub(crate) async fn receive(control: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    loop {
        control.readable().await?;
        match control.try_io(Interest::READABLE, || receive_now(control.as_fd())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

fn receive_now(control: BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    rustix::net::recvmsg(
        control,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(fds.flatten().collect())
}
