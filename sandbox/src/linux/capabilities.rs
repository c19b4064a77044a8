//! Step 4: no privilege, and none to be had.
//!
//! Inside a user namespace its first process holds every capability; the steps before needed that. From here on nothing
//! does. Emptying the bounding set means that not even executing a file as user 0 gives one back.

use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Step, failed};
use crate::launch::Layer;

/// Drops every capability from every set, and every way to get one through a set-user-id file.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn drop_all(layers: &mut Vec<Layer>) -> Step {
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel knows no more than the ones before.
            Err(rustix::io::Errno::INVAL) if number > 0 => break,
            Err(errno) => return Err(failed(Layer::Capabilities, "prctl PR_CAPBSET_DROP")(errno)),
        }
    }
    rustix::thread::clear_ambient_capability_set()
        .map_err(failed(Layer::Capabilities, "prctl PR_CAP_AMBIENT_CLEAR_ALL"))?;
    give_up()?;
    layers.push(Layer::Capabilities);
    rustix::thread::set_no_new_privs(true).map_err(failed(Layer::NoNewPrivs, "prctl PR_SET_NO_NEW_PRIVS"))?;
    layers.push(Layer::NoNewPrivs);
    Ok(())
}

/// Gives up what this process holds; enough for one that executes nothing.
pub(super) fn give_up() -> Step {
    keep(CapabilitySet::empty())
}

/// Gives up everything but looking into directories, of files of ours, that their owner closed.
pub(super) fn give_up_all_but_looking() -> Step {
    keep(CapabilitySet::DAC_READ_SEARCH)
}

fn keep(kept: CapabilitySet) -> Step {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(failed(Layer::Capabilities, "capset"))
}

/// Keeps processes of the same user from tracing this one or reading its memory.
pub(super) fn hide_memory() -> Step {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(failed(Layer::Capabilities, "prctl PR_SET_DUMPABLE"))
}
