//! Binding the one listener, before there is a runtime: what binds has authority that what serves has given up.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::sys::stat::{Mode, fchmod};

use crate::cli::Listen;

const BACKLOG: i32 = 1024;

/// A bound listener.
#[derive(Debug)]
pub enum Bound {
    /// On loopback.
    Tcp(TcpListener),
    /// On a socket of this user.
    Unix(UnixListener, PathBuf),
}

/// Why nothing could be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is not free, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Tcp {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot listen on unix:{path}: {source}")]
    Unix {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Bound {
    /// Binds.
    ///
    /// # Errors
    /// With the address or path and the reason.
    pub fn bind(listen: &Listen) -> Result<Self, BindError> {
        match listen {
            Listen::Tcp(address) => match bind_loopback(*address) {
                Ok(listener) => Ok(Self::Tcp(listener)),
                Err(source) => Err(BindError::Tcp { address: *address, source }),
            },
            Listen::Unix(path) => match bind_private(path) {
                Ok(listener) => Ok(Self::Unix(listener, path.clone())),
                Err(source) => Err(BindError::Unix { path: path.clone(), source }),
            },
        }
    }

    /// Where clients reach the surface at `path`.
    ///
    /// # Errors
    /// When the system does not tell the port.
    pub fn endpoint(&self, path: &str) -> io::Result<String> {
        Ok(match self {
            Self::Tcp(listener) => format!("http://{}{path}", listener.local_addr()?),
            Self::Unix(_, socket) => format!("unix:{}", socket.display()),
        })
    }
}

fn bind_loopback(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listen_with_room(&listener)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Listens, with room for a burst of connections that have not been accepted yet. Said again, it changes the room.
fn listen_with_room(socket: &impl AsFd) -> io::Result<()> {
    Ok(listen(&socket.as_fd(), Backlog::new(BACKLOG)?)?)
}

/// A socket that only this user can open, before anybody can.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists())
    {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    remove_stale(path)?;
    let socket = stream_socket()?;
    // On Linux the file gets the socket's own mode, so there is no moment at which others could connect.
    let _ = fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR);
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listen_with_room(&socket)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn stream_socket() -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None)?;
    // There is one thread at this time, and it starts no program in between.
    nix::fcntl::fcntl(&socket, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    Ok(socket)
}

/// Removes a socket that nobody listens on. Anything else in its place stays.
fn remove_stale(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "something that is no socket is in the way"))
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"))
        }
        Ok(_) => std::fs::remove_file(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_private_and_a_stale_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/mcp.sock");
        let first = Bound::bind(&Listen::Unix(path.clone())).unwrap();
        assert_eq!(path.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let taken = Bound::bind(&Listen::Unix(path.clone())).unwrap_err();
        assert!(taken.to_string().contains("another process listens there"), "{taken}");
        drop(first);
        Bound::bind(&Listen::Unix(path)).unwrap();
    }

    #[test]
    fn a_file_in_the_sockets_place_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp.sock");
        std::fs::write(&path, "mine").unwrap();
        let refused = Bound::bind(&Listen::Unix(path.clone())).unwrap_err();
        assert!(refused.to_string().contains("no socket"), "{refused}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }
}
