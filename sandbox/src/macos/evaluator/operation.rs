//! Operations, and which filters each can have.

use super::Broken;

/// What an operation is about, and so what can be asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum About {
    /// A file, by its path.
    Path,
    /// A peer: an address, or the path of a socket.
    Peer,
    /// Another process.
    Process,
    /// A service of the system.
    Service,
    /// A setting of the kernel.
    Setting,
    /// A shared object's name.
    Shared,
    /// A system call.
    Call,
    /// A family of sockets.
    Socket,
    /// Nothing that could be told apart here.
    Nothing,
}

use About::{Call, Nothing, Path, Peer, Process, Service, Setting, Shared, Socket};

/// Every operation that is known here.
pub(in super::super) const OPERATIONS: &[(&str, About)] = &[
    ("appleevent-send", Nothing),
    ("file-chroot", Path),
    ("file-clone", Path),
    ("file-ioctl", Path),
    ("file-link", Path),
    ("file-map-executable", Path),
    ("file-mknod", Path),
    ("file-mount", Path),
    ("file-read-data", Path),
    ("file-read-metadata", Path),
    ("file-read-xattr", Path),
    ("file-unmount", Path),
    ("file-write-acl", Path),
    ("file-write-create", Path),
    ("file-write-data", Path),
    ("file-write-flags", Path),
    ("file-write-mode", Path),
    ("file-write-owner", Path),
    ("file-write-setugid", Path),
    ("file-write-times", Path),
    ("file-write-unlink", Path),
    ("file-write-xattr", Path),
    ("fs-usage", Nothing),
    ("iokit-open", Nothing),
    ("ipc-posix-sem", Shared),
    ("ipc-posix-shm-read-data", Shared),
    ("ipc-posix-shm-read-metadata", Shared),
    ("ipc-posix-shm-write-create", Shared),
    ("ipc-posix-shm-write-data", Shared),
    ("ipc-posix-shm-write-unlink", Shared),
    ("ipc-sysv-msg", Nothing),
    ("ipc-sysv-sem", Nothing),
    ("ipc-sysv-shm", Nothing),
    ("job-creation", Nothing),
    ("lsopen", Nothing),
    ("mach-lookup", Service),
    ("mach-priv-task-port", Process),
    ("mach-register", Service),
    ("network-bind", Peer),
    ("network-inbound", Peer),
    ("network-outbound", Peer),
    ("nvram-set", Nothing),
    ("process-exec", Path),
    ("process-exec-interpreter", Path),
    ("process-fork", Nothing),
    ("process-info-listpids", Process),
    ("process-info-pidfdinfo", Process),
    ("process-info-pidinfo", Process),
    ("process-info-setcontrol", Process),
    ("signal", Process),
    ("syscall-unix", Call),
    ("sysctl-read", Setting),
    ("sysctl-write", Setting),
    ("system-audit", Nothing),
    ("system-fsctl", Nothing),
    ("system-kext-load", Nothing),
    ("system-reboot", Nothing),
    ("system-socket", Socket),
    ("user-preference-read", Nothing),
];

/// Several operations under one name.
const GROUPS: &[&str] =
    &["file*", "file-read*", "file-write*", "ipc-posix-shm*", "process-exec*", "process-info*"];

/// The operations that a name in a rule stands for.
pub(super) fn named(name: &str) -> Result<Vec<(&'static str, About)>, Broken> {
    let prefix = GROUPS.contains(&name).then(|| name.strip_suffix('*')).flatten();
    let found: Vec<_> = OPERATIONS
        .iter()
        .copied()
        .filter(|(known, _)| prefix.map_or(*known == name, |prefix| known.starts_with(prefix)))
        .collect();
    if found.is_empty() { Err(Broken::Operation(name.to_owned())) } else { Ok(found) }
}

/// Operations that a profile refuses only where it says so, whatever its default is.
pub(super) const ALLOWED_BY_DEFAULT: &[&str] = &["syscall-unix"];
