//! How many connections a socket serves at a time.
//!
//! A peer that opens connections without end, or opens them and goes quiet, takes places of its own socket only, and
//! descriptors are left for everybody else.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::{Connected, UdsConnectInfo};

/// A connection that holds one of its socket's places.
#[derive(Debug)]
pub(super) struct Placed {
    stream: UnixStream,
    _place: OwnedSemaphorePermit,
}

/// The connections that find a place; `full` is told of each one that is closed because there is none.
pub(super) fn bounded(
    connections: impl Stream<Item = io::Result<UnixStream>> + Send,
    places: usize,
    full: impl Fn() + Send,
) -> impl Stream<Item = io::Result<Placed>> + Send {
    let places = Arc::new(Semaphore::new(places));
    connections.filter_map(move |connected| match connected {
        Err(error) => Some(Err(error)),
        Ok(stream) => match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => Some(Ok(Placed { stream, _place: place })),
            Err(_) => {
                full();
                None
            }
        },
    })
}

impl Connected for Placed {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
