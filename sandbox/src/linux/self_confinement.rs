//! The same steps for a process that confines itself: front and shim.
//!
//! It stays in the process namespace that it is in (a process cannot leave it; only children would enter another), so
//! here Landlock's scope is what keeps it from signalling others, where the kernel has that.

use std::fs;
use std::path::PathBuf;

use rustix::process::DumpableBehavior;

use super::namespaces::Process;
use super::seccomp::Filter;
use super::{Step, capabilities, failed, landlock, minimal_root, namespaces};
use crate::launch::{Layer, LayerFailure, Network, Policy, Remedy};

/// Confines this process to `reachable`.
///
/// # Errors
/// When a layer cannot be had; the process must not go on then.
pub(crate) fn confine_self(reachable: &[PathBuf]) -> Step<Vec<Layer>> {
    let mut layers = Vec::new();
    confine(reachable, &mut layers)?;
    Ok(layers)
}

/// The same, with what was put up told also where it ends in an error.
pub(super) fn confine(reachable: &[PathBuf], layers: &mut Vec<Layer>) -> Step {
    only_thread()?;
    let filter = Filter::of(Policy::SelfConfinement, &Network::None)?;
    // A process that cannot be dumped does not own its files in /proc, and so could not map its own identity.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
        .map_err(failed(Layer::Userns, "prctl PR_SET_DUMPABLE"))?;
    let entered = namespaces::enter(Process::Itself, layers).and_then(|()| namespaces::leave_network(layers));
    capabilities::hide_memory()?;
    entered?;
    minimal_root::build_for_itself(reachable, layers)?;
    capabilities::drop_all(layers)?;
    landlock::restrict(&landlock::Grants::for_itself(reachable), layers)?;
    filter.install(layers)
}

fn only_thread() -> Step {
    let threads = fs::read_dir("/proc/self/task").map_err(failed(Layer::Userns, "list /proc/self/task"))?;
    if threads.count() == 1 {
        return Ok(());
    }
    let call = "unshare with more than one thread";
    let failure = LayerFailure::new(Layer::Userns, call, nix::errno::Errno::EINVAL as i32);
    Err(LayerFailure { remedy: Some(Remedy::SingleThread), ..failure })
}
