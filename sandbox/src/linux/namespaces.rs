//! Step 1: namespaces of our own.
//!
//! One `unshare` for all but the network. The user namespace comes first in the kernel's order, so the others belong to it and
//! an ordinary user may have them. Our user and group are mapped to themselves and nothing else is: files keep their owner's
//! name (git asks whether a repository is its user's), and no other identity can be taken on.
//!
//! A network namespace takes the kernel several times as long as all others together. So it is a step of its own, which
//! the keeper takes while the first process builds the view; see `network.rs`.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use nix::sched::{CloneFlags, setns, unshare};

use super::{Step, failed};
use crate::launch::{Layer, LayerFailure};

/// Whom the namespaces are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    /// A process that stays as it is; a process namespace, which only children enter, is of no use to it.
    Itself,
    /// A process that forks: its first child becomes the first process of a namespace.
    WithChildren,
}

/// Which layer each flag is.
const ALL: [(CloneFlags, Layer); 6] = [
    (CloneFlags::CLONE_NEWUSER, Layer::Userns),
    (CloneFlags::CLONE_NEWNS, Layer::Mountns),
    (CloneFlags::CLONE_NEWPID, Layer::Pidns),
    (CloneFlags::CLONE_NEWIPC, Layer::Ipcns),
    (CloneFlags::CLONE_NEWUTS, Layer::Utsns),
    (CloneFlags::CLONE_NEWCGROUP, Layer::Cgroupns),
];

/// Enters namespaces of our own, all but a network's.
///
/// # Errors
/// When the kernel does not give them, or does not let us map ourselves (AppArmor refuses there).
pub(super) fn enter(process: Process, layers: &mut Vec<Layer>) -> Step {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let wanted = ALL.iter().filter(|(_, layer)| process == Process::WithChildren || *layer != Layer::Pidns);
    let flags = wanted.clone().fold(CloneFlags::empty(), |flags, (flag, _)| flags | *flag);
    unshare(flags).map_err(|errno| culprit(wanted.clone(), errno))?;
    // Without this an ordinary user may not map a group: dropping a group could open a file that denies it.
    map("setgroups", "deny")?;
    map("uid_map", &format!("{user} {user} 1\n"))?;
    map("gid_map", &format!("{group} {group} 1\n"))?;
    layers.extend(wanted.map(|(_, layer)| *layer));
    Ok(())
}

/// Enters a network namespace of our own, in which there is nothing; to be called after [`enter`].
///
/// # Errors
/// When the kernel does not give it.
pub(super) fn leave_network(layers: &mut Vec<Layer>) -> Step {
    unshare(CloneFlags::CLONE_NEWNET).map_err(failed(Layer::Netns, "unshare netns"))?;
    layers.push(Layer::Netns);
    Ok(())
}

/// Enters the network namespace that the process behind `keeper` (a pidfd) is in.
///
/// # Errors
/// When that process is gone.
pub(super) fn join_network(keeper: BorrowedFd<'_>, layers: &mut Vec<Layer>) -> Step {
    setns(keeper, CloneFlags::CLONE_NEWNET).map_err(failed(Layer::Netns, "setns netns"))?;
    layers.push(Layer::Netns);
    Ok(())
}

/// Which of the namespaces cannot be had: the kernel gives all of them or none, and does not say. Nothing runs after
/// this, so that it does no harm to get some of them.
fn culprit<'a>(
    wanted: impl Iterator<Item = &'a (CloneFlags, Layer)>,
    errno: nix::errno::Errno,
) -> LayerFailure {
    for (flag, layer) in wanted {
        if let Err(errno) = unshare(*flag) {
            return failed(*layer, format!("unshare {layer}"))(errno);
        }
    }
    failed(Layer::Userns, "unshare")(errno)
}

fn map(file: &str, text: &str) -> Step {
    // The file must exist: opened for writing only, never created.
    let write = |path: String| -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    };
    write(format!("/proc/self/{file}")).map_err(failed(Layer::Userns, format!("write /proc/self/{file}")))
}
