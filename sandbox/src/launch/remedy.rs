//! What can be done on a host that does not give a layer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What can be done about a layer that cannot be had. Its text is for the person who runs the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Ubuntu 23.10 and later let only programs with an AppArmor profile make user namespaces.
    AppArmorUserns,
    /// `user.max_user_namespaces` is 0.
    MaxUserNamespaces,
    /// Debian's `kernel.unprivileged_userns_clone` is 0.
    UnprivilegedUsernsClone,
    /// A container's own system call filter or capability set forbids it.
    NestedContainer,
    /// A container covers parts of /proc, so that no other /proc can be mounted.
    CoveredProc,
    /// We are inside a sandbox of our own already.
    NestedSandbox,
    /// The kernel has no Landlock, or it is not switched on.
    LandlockMissing,
    /// The kernel is too old for the system call.
    KernelTooOld,
    /// The process has more than one thread.
    SingleThread,
    /// What is to be hidden holds what the program needs.
    HidesWhatIsNeeded,
    /// macOS: we are inside a sandbox of some kind already, and the system lets nobody put on another.
    NestedSeatbelt,
    /// macOS: there is more to hide than a profile can hold.
    TooMuchToHide,
    /// macOS: a program cannot have a network of its own.
    NoNetworkOfItsOwn,
    /// macOS: the process has to be started confined.
    StartConfined,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AppArmorUserns => {
                "AppArmor forbids user namespaces to programs without a profile \
                 (kernel.apparmor_restrict_unprivileged_userns=1). Install one as /etc/apparmor.d/gatehouse:\n\
                 \x20 abi <abi/4.0>,\n  include <tunables/global>\n\
                 \x20 profile gatehouse /**/{sandbox-launch,mcp-front,runner-shim} flags=(unconfined) { userns, }\n\
                 and load it: apparmor_parser -r /etc/apparmor.d/gatehouse"
            }
            Self::MaxUserNamespaces => {
                "user namespaces are switched off; allow them: sysctl -w user.max_user_namespaces=15000"
            }
            Self::UnprivilegedUsernsClone => {
                "user namespaces are switched off for ordinary users; allow them: \
                 sysctl -w kernel.unprivileged_userns_clone=1"
            }
            Self::NestedContainer => {
                "this looks like a container whose own confinement forbids namespaces or mounts; run it with \
                 --security-opt seccomp=unconfined --security-opt apparmor=unconfined (or a profile that allows \
                 unshare, mount and pivot_root), or run Gatehouse outside of it"
            }
            Self::CoveredProc => {
                "parts of /proc are covered here (a container does that), and the kernel then lets nobody mount \
                 another; run the container with --security-opt systempaths=unconfined, or Gatehouse outside of it"
            }
            Self::NestedSandbox => "this runs inside a sandbox of Gatehouse already, and they do not nest",
            Self::LandlockMissing => {
                "Landlock is not available; it needs Linux 6.2 or later with CONFIG_SECURITY_LANDLOCK, and \
                 `landlock` in the list of the kernel's lsm= parameter"
            }
            Self::KernelTooOld => "the kernel is too old; Linux 6.2 or later is needed",
            Self::SingleThread => "it must be called before a second thread is started",
            Self::HidesWhatIsNeeded => {
                "a path to be hidden holds something that the program needs; take that out of it"
            }
            Self::NestedSeatbelt => {
                "this runs inside a sandbox already (of another program that started Gatehouse), and they do not \
                 nest; start Gatehouse from launchd or from a terminal outside of it"
            }
            Self::TooMuchToHide => {
                "there are more protected files here than a profile can hold; choose a smaller directory as the \
                 session's root, or move them into one directory"
            }
            Self::NoNetworkOfItsOwn => {
                "macOS gives a program no network of its own; set commands.private_loopback = false"
            }
            Self::StartConfined => {
                "on macOS a process cannot confine itself once it runs; have Gatehouse's launcher start it"
            }
        })
    }
}
