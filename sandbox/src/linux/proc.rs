//! Step 3d: `/proc` of its own.
//!
//! It shows the processes of the new process namespace and no other, and is read-only, so that not even root can
//! change the kernel's settings through it. The host's /proc is never kept: it would show the environment of every
//! process of the same user. Where no other can be mounted, the launch fails.

use super::Step;
use super::mounts::{FROZEN, NOEXEC, Tree};
use crate::launch::Layer;

/// Makes it; not attached yet. Only a member of the process namespace can.
pub(super) fn mount() -> Step<Tree> {
    Tree::new(Layer::Proc, "proc", &[], FROZEN | NOEXEC)
}
