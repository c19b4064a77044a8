//! Unix sockets: one directory per role, peer uid checked on every connection.

use std::io;
use std::path::{Path, PathBuf};

/// The three roles and where their sockets lie below the runtime directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `mcp-front`.
    Front,
    /// The operator's command line and automation.
    Operator,
    /// A `runner-shim`.
    Runner,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Front, Self::Operator, Self::Runner];

    const fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Operator => "operator",
            Self::Runner => "runner",
        }
    }

    /// The directory (0700) that holds only this role's socket.
    #[must_use]
    pub fn directory(self, runtime_dir: &Path) -> PathBuf {
        runtime_dir.join(self.name())
    }

    /// The socket's path.
    #[must_use]
    pub fn socket(self, runtime_dir: &Path) -> PathBuf {
        self.directory(runtime_dir).join(format!("{}.sock", self.name()))
    }
}

/// The same place under a name that goes on meaning it when the process stands in another directory, or in a root that
/// holds little else: absolute, and without `..`. Links are left as they are where they can be, for a socket's path has to
/// be short.
///
/// # Errors
/// When a path with `..` leads nowhere, or the current directory is gone.
pub fn steady(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    if !absolute.components().any(|part| part == std::path::Component::ParentDir) {
        return Ok(absolute);
    }
    // The last component need not be there yet.
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => absolute.canonicalize(),
    }
}

/// The largest gRPC message either side accepts, in bytes.
pub const MAX_MESSAGE: usize = 8 * 1024 * 1024;

/// Where the runtime directory is when nobody says: `$XDG_RUNTIME_DIR/gatehouse`, else a per-user directory below the
/// temporary folder.
#[must_use]
pub fn default_runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if Path::new(&dir).is_absolute() => PathBuf::from(dir).join("gatehouse"),
        _ => std::env::temp_dir().join(format!("gatehouse-{}", nix::unistd::getuid())),
    }
}

/// The most that the headers of an answer may have, in bytes. A refusal travels in them, with everything that it names;
/// an answer with more is lost.
#[cfg(feature = "client")]
const MAX_HEADERS: u32 = 256 * 1024;

/// Connects, lazily and again after each loss, to a role's socket.
///
/// # Errors
/// When `path` cannot be part of a URI.
#[cfg(feature = "client")]
pub fn channel(path: &Path) -> Result<tonic::transport::Channel, io::Error> {
    channel_noting(path, || {})
}

/// The same, and calls `connected` with each new connection, the first one too.
///
/// # Errors
/// When `path` cannot be part of a URI.
#[cfg(feature = "client")]
pub fn channel_noting(
    path: &Path,
    connected: impl Fn() + Clone + Send + 'static,
) -> Result<tonic::transport::Channel, io::Error> {
    let path = path.to_owned();
    // The URI names no host that exists; the connector below ignores it.
    let endpoint = tonic::transport::Endpoint::from_static("http://gatehouse.invalid")
        .http2_max_header_list_size(MAX_HEADERS);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_: tonic::transport::Uri| {
        let (path, connected) = (path.clone(), connected.clone());
        async move {
            let stream = tokio::net::UnixStream::connect(path).await?;
            connected();
            Ok::<_, io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    })))
}

/// Binds a role's socket: makes its directory (0700), removes a stale socket, refuses anything else in its place.
///
/// # Errors
/// When the directory cannot be made or is not ours alone, or another process listens there.
#[cfg(feature = "server")]
pub fn listen(role: Role, runtime_dir: &Path) -> io::Result<tokio::net::UnixListener> {
    make_private_dir(runtime_dir)?;
    make_private_dir(&role.directory(runtime_dir))?;
    let path = role.socket(runtime_dir);
    remove_stale(&path)?;
    tokio::net::UnixListener::bind(&path)
}

/// A directory that is ours, 0700, and not a link; made if missing.
///
/// # Errors
/// With the path and what is wrong with it.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    match std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(named(error)),
        _ => {}
    }
    let found = path.symlink_metadata().map_err(named)?;
    if !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw() {
        return Err(named(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "is not a directory of this user",
        )));
    }
    if found.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(named)?;
    }
    Ok(())
}

#[cfg(feature = "server")]
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{}: is in the way and not a socket", path.display()),
        )),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!("{}: another executor listens there", path.display()),
            )),
            Err(_) => std::fs::remove_file(path),
        },
    }
}

/// Between a connection that could not be accepted and the next try.
#[cfg(feature = "server")]
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Accepted connections whose peer has our uid; others are closed and logged by the caller's `refused`.
#[cfg(feature = "server")]
pub fn same_user_connections(
    listener: tokio::net::UnixListener,
    refused: impl Fn(Option<u32>) + Send + 'static,
) -> impl tokio_stream::Stream<Item = io::Result<tokio::net::UnixStream>> + Send {
    use tokio_stream::StreamExt;
    let ours = nix::unistd::geteuid().as_raw();
    let accepted = tokio_stream::wrappers::UnixListenerStream::new(listener).then(|accepted| async {
        if accepted.is_err() {
            // Out of descriptors, most likely. The server asks again at once, and would do so for ever.
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
        accepted
    });
    accepted.filter(move |accepted| match accepted {
        Err(_) => true,
        Ok(stream) => {
            let peer = stream.peer_cred().ok().map(|cred| cred.uid());
            let same = peer == Some(ours);
            if !same {
                refused(peer);
            }
            same
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn private_directories_are_0700_and_a_link_in_their_place_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("run");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        make_private_dir(&dir).unwrap();
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);

        let link = top.path().join("link");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert_eq!(make_private_dir(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_steady_name_is_absolute_without_detours_and_keeps_its_links() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        assert_eq!(steady(&top.join("link/./new")).unwrap(), top.join("link/new"));
        assert_eq!(steady(&top.join("link/../real/new")).unwrap(), top.join("real/new"));
        assert_eq!(steady(&top.join("real/..")).unwrap(), top);
        assert!(steady(Path::new("new")).unwrap().is_absolute());
        assert!(steady(&top.join("nowhere/../new")).is_err());
    }

    #[test]
    fn each_role_has_a_directory_of_its_own() {
        let dirs: Vec<_> = Role::ALL.iter().map(|role| role.directory(Path::new("/run/g"))).collect();
        assert_eq!(dirs.len(), 3);
        assert_eq!(Role::Operator.socket(Path::new("/run/g")), Path::new("/run/g/operator/operator.sock"));
    }
}
