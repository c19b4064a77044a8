//! What to say about a layer that this host does not give.

use std::fs;

use nix::errno::Errno;

use super::dev::MASK_DIRECTORY;
use crate::launch::{Layer, LayerFailure, Remedy};

/// The same failure, with what can be done about it.
pub(super) fn with_remedy(failure: LayerFailure) -> LayerFailure {
    let host = Host::look();
    let remedy = failure.remedy.or_else(|| remedy(failure.layer, Errno::from_raw(failure.errno), &host));
    LayerFailure { remedy, ..failure }
}

/// What of the host decides which remedy fits. `None` where the kernel has no such switch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Host {
    pub apparmor_restricts_userns: Option<u64>,
    pub max_user_namespaces: Option<u64>,
    pub unprivileged_userns_clone: Option<u64>,
    pub in_our_sandbox: bool,
}

impl Host {
    fn look() -> Self {
        let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        Self {
            apparmor_restricts_userns: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            // Nobody else has that in their /dev.
            in_our_sandbox: std::path::Path::new(MASK_DIRECTORY).symlink_metadata().is_ok(),
        }
    }
}

/// Which remedy fits. Pure, so that hosts which nobody has at hand can be tested.
pub(super) fn remedy(layer: Layer, errno: Errno, host: &Host) -> Option<Remedy> {
    use Errno::{EACCES, EINVAL, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM, EUSERS};
    match (layer, errno) {
        (Layer::Landlock, ENOSYS | EOPNOTSUPP) => Some(Remedy::LandlockMissing),
        (_, ENOSYS) => Some(Remedy::KernelTooOld),
        (Layer::Userns, EINVAL) => Some(Remedy::SingleThread),
        (Layer::Userns, ENOSPC | EUSERS | EPERM) if host.max_user_namespaces == Some(0) => {
            Some(Remedy::MaxUserNamespaces)
        }
        (Layer::Userns, EPERM) if host.unprivileged_userns_clone == Some(0) => {
            Some(Remedy::UnprivilegedUsernsClone)
        }
        // Ubuntu lets the namespace be made, and then takes every capability in it away.
        (_, EPERM | EACCES) if host.apparmor_restricts_userns == Some(1) => Some(Remedy::AppArmorUserns),
        (Layer::Proc, EPERM) => Some(Remedy::CoveredProc),
        (Layer::Userns, EPERM) if host.in_our_sandbox => Some(Remedy::NestedSandbox),
        (Layer::Userns | Layer::Mountns | Layer::ReadOnlyView | Layer::MinimalRoot, EPERM | EACCES) => {
            Some(Remedy::NestedContainer)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_host_gets_its_own_remedy() {
        let plain = Host::default();
        let ubuntu = Host { apparmor_restricts_userns: Some(1), ..plain };
        let off = Host { max_user_namespaces: Some(0), ..plain };
        let debian = Host { unprivileged_userns_clone: Some(0), ..plain };
        let nested = Host { in_our_sandbox: true, ..plain };
        let cases = [
            (Layer::Userns, Errno::EPERM, ubuntu, Some(Remedy::AppArmorUserns)),
            (Layer::Mountns, Errno::EACCES, ubuntu, Some(Remedy::AppArmorUserns)),
            (Layer::Loopback, Errno::EPERM, ubuntu, Some(Remedy::AppArmorUserns)),
            (Layer::Userns, Errno::ENOSPC, off, Some(Remedy::MaxUserNamespaces)),
            (Layer::Userns, Errno::EPERM, debian, Some(Remedy::UnprivilegedUsernsClone)),
            (Layer::Userns, Errno::EPERM, nested, Some(Remedy::NestedSandbox)),
            (Layer::Userns, Errno::EPERM, plain, Some(Remedy::NestedContainer)),
            (Layer::Userns, Errno::EINVAL, plain, Some(Remedy::SingleThread)),
            (Layer::Proc, Errno::EPERM, plain, Some(Remedy::CoveredProc)),
            (Layer::Landlock, Errno::EOPNOTSUPP, plain, Some(Remedy::LandlockMissing)),
            (Layer::ReadOnlyView, Errno::ENOSYS, plain, Some(Remedy::KernelTooOld)),
            (Layer::Scratch, Errno::ENOENT, plain, None),
        ];
        for (layer, errno, host, expected) in cases {
            assert_eq!(remedy(layer, errno, &host), expected, "{layer} {errno} {host:?}");
        }
    }
}
