//! Step 6a: Landlock, the second lock on files, and a third on the network, signals and abstract sockets.
//!
//! The view has decided already what is there and what can be written. Landlock says it again in another part of the
//! kernel, to the program alone, and for good: whoever undid a mount would still be refused. The file rules are
//! required from the version that covers truncation on (3); rules for TCP (4), devices (5), signals and abstract sockets
//! (6) are used where the kernel has them, since the namespaces cover them as well.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, RestrictSelf, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags};

use super::dev::DEVICES;
use super::{Step, failed};
use crate::launch::{Confinement, Layer, LayerFailure, Network, Remedy, SCRATCH, Scratch};

/// Without truncation under control, files that cannot be written could still be emptied.
const LEAST: ABI = ABI::V3;
/// Rights of later versions are not known here, and are not asked for.
const MOST: ABI = ABI::V9;

/// What may be done with a file or below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    /// Read it, list it.
    Read,
    /// And execute it.
    Execute,
    /// Use a device.
    Device,
    /// Anything but make devices and sockets and execute.
    Write,
    /// And execute.
    WriteAndExecute,
    /// Connect to the Unix sockets in it.
    Connect,
}

impl Right {
    fn access(self, abi: ABI) -> BitFlags<AccessFs> {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let special = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock;
        let write = AccessFs::from_write(ABI::V3) & !special;
        let known = AccessFs::from_all(abi);
        known
            & match self {
                Self::Read => read,
                Self::Execute => read | AccessFs::Execute,
                Self::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
                Self::Write => read | write,
                Self::WriteAndExecute => read | write | AccessFs::Execute,
                Self::Connect => read | AccessFs::ResolveUnix,
            }
    }
}

/// What a process is granted; all else is refused.
#[derive(Debug, Default)]
pub(super) struct Grants {
    files: Vec<(PathBuf, Right)>,
    ports: Vec<u16>,
    private_loopback: bool,
}

impl Grants {
    /// Commands and git: read and execute everything that is in view, write what is writable.
    pub(super) fn for_whole_system(confinement: &Confinement) -> Self {
        let mut files = vec![("/".into(), Right::Execute), ("/dev/shm".into(), Right::WriteAndExecute)];
        files.extend([("/dev/pts".into(), Right::Device)]);
        files.extend(devices(&DEVICES));
        files.extend(scratch(&confinement.scratch));
        files.extend(confinement.writable.iter().map(|path| (path.clone(), Right::WriteAndExecute)));
        let private_loopback = confinement.network == Network::PrivateLoopback;
        Self { files, ports: Vec::new(), private_loopback }
    }

    /// Claude Code: what was named, and how.
    pub(super) fn for_minimal_root(confinement: &Confinement) -> Self {
        let mut files = vec![("/proc".into(), Right::Read)];
        files.extend(devices(&DEVICES));
        files.extend(scratch(&confinement.scratch));
        for (paths, right) in [
            (&confinement.programs, Right::Execute),
            (&confinement.readable, Right::Read),
            (&confinement.writable, Right::Write),
        ] {
            files.extend(paths.iter().map(|path| (path.clone(), right)));
        }
        let ports = match &confinement.network {
            Network::Listeners { ports } => ports.clone(),
            Network::None | Network::PrivateLoopback => Vec::new(),
        };
        Self { files, ports, private_loopback: false }
    }

    /// A process that confines itself: the sockets in these directories.
    pub(super) fn for_itself(reachable: &[PathBuf]) -> Self {
        let files = reachable.iter().map(|path| (path.clone(), Right::Connect)).collect();
        Self { files, ..Self::default() }
    }
}

fn devices(names: &[&str]) -> Vec<(PathBuf, Right)> {
    names.iter().map(|name| (Path::new("/dev").join(name), Right::Device)).collect()
}

fn scratch(scratch: &Scratch) -> Option<(PathBuf, Right)> {
    match scratch {
        Scratch::None => None,
        Scratch::Directory { .. } | Scratch::Memory { .. } => Some((SCRATCH.into(), Right::WriteAndExecute)),
    }
}

/// The version that the kernel has, as far as it is known here.
///
/// # Errors
/// When there is none, or one that is too old.
pub(super) fn version() -> Step<ABI> {
    let unavailable = |errno: nix::errno::Errno| LayerFailure {
        remedy: Some(Remedy::LandlockMissing),
        ..LayerFailure::new(Layer::Landlock, "landlock_create_ruleset", errno as i32)
    };
    // Asks without restricting anything.
    let asked =
        RestrictSelf::default().no_new_privs(false).apply().map_err(refusal("landlock_restrict_self"))?;
    match asked.landlock {
        LandlockStatus::Available { effective_abi, .. } if effective_abi >= LEAST => {
            Ok(effective_abi.min(MOST))
        }
        LandlockStatus::NotEnabled => Err(unavailable(nix::errno::Errno::EOPNOTSUPP)),
        _ => Err(unavailable(nix::errno::Errno::ENOSYS)),
    }
}

/// Restricts this process, and whatever it starts, to `grants`.
///
/// # Errors
/// When the kernel's Landlock is missing, too old, or does not enforce every rule.
pub(super) fn restrict(grants: &Grants, layers: &mut Vec<Layer>) -> Step {
    let abi = version()?;
    restrict_in(grants, &Handled::all(abi, grants), abi)?;
    layers.push(Layer::Landlock);
    layers.extend((abi >= ABI::V4 && !grants.private_loopback).then_some(Layer::LandlockTcp));
    layers.extend((abi >= ABI::V6).then_some(Layer::LandlockScopes));
    Ok(())
}

/// In what a process is restricted at all: what is not handled is allowed.
#[derive(Debug, Clone, Copy)]
struct Handled {
    files: BitFlags<AccessFs>,
    network: BitFlags<AccessNet>,
    scopes: BitFlags<Scope>,
}

impl Handled {
    /// Everything that the kernel can tell apart, but the TCP of a command that has a network of its own.
    fn all(abi: ABI, grants: &Grants) -> Self {
        let network = if abi >= ABI::V4 && !grants.private_loopback {
            AccessNet::BindTcp | AccessNet::ConnectTcp
        } else {
            BitFlags::empty()
        };
        Self { files: AccessFs::from_all(abi), network, scopes: Scope::from_all(abi) }
    }
}

fn restrict_in(grants: &Grants, handled: &Handled, abi: ABI) -> Step {
    let files = grants.files.iter().map(|(path, right)| open(path, *right, abi)).collect::<Step<Vec<_>>>()?;
    let enforced = || -> Result<RulesetStatus, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(handled.files)?;
        if !handled.network.is_empty() {
            ruleset = ruleset.handle_access(handled.network)?;
        }
        if !handled.scopes.is_empty() {
            ruleset = ruleset.scope(handled.scopes)?;
        }
        let mut created = ruleset.create()?.set_compatibility(CompatLevel::HardRequirement);
        for (file, access) in files {
            created = created.add_rule(PathBeneath::new(file, access & handled.files))?;
        }
        if handled.network.contains(AccessNet::ConnectTcp) {
            for port in &grants.ports {
                created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
            }
        }
        Ok(created.restrict_self()?.ruleset)
    };
    match enforced().map_err(refusal("landlock_restrict_self"))? {
        RulesetStatus::FullyEnforced => {}
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            return Err(LayerFailure::new(Layer::Landlock, "landlock_restrict_self: rules are left out", 0));
        }
    }
    Ok(())
}

/// What a rule is for. A right for directories cannot be given on a file.
fn open(path: &Path, right: Right, abi: ABI) -> Step<(OwnedFd, BitFlags<AccessFs>)> {
    let open = || -> rustix::io::Result<(OwnedFd, bool)> {
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        Ok((file, FileType::from_raw_mode(found.st_mode).is_dir()))
    };
    let (file, is_directory) = open().map_err(failed(Layer::Landlock, format!("open {}", path.display())))?;
    let access = right.access(abi);
    Ok((file, if is_directory { access } else { access & AccessFs::from_file(abi) }))
}

fn refusal(call: &str) -> impl FnOnce(RulesetError) -> LayerFailure {
    move |error| {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        let mut errno = None;
        while let Some(this) = cause {
            errno = this.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error).or(errno);
            cause = this.source();
        }
        let text = format!("{call}: {error}");
        let errno = errno.map_or_else(|| std::io::ErrorKind::Other.into(), std::io::Error::from_raw_os_error);
        failed::<std::io::Error>(Layer::Landlock, text)(errno)
    }
}

#[cfg(test)]
mod tests;
