//! Step 6b: the system call filter.
//!
//! The lists are data (`policy/seccomp-*.toml`), a reason for each line: one base for all, and one list for what the
//! policy and its network rule add. They deny; what they do not name stays allowed, because the programs are anybody's.
//! What remains dangerous is dangerous on objects that the view does not show or the namespaces do not hold.
//!
//! Three filters are stacked; the strictest answer counts. The first kills x32 calls, which have the native architecture
//! and other numbers; the second answers ENOSYS; the third EPERM. All of them kill calls of a foreign architecture.

mod compile;
mod data;

use seccompiler::BpfProgram;

use super::{Step, failed, refused};
use crate::launch::{Layer, LayerFailure, Network, Policy};

pub(super) use compile::Target;

/// The compiled filter of one launch.
#[derive(Debug)]
pub(super) struct Filter {
    programs: Vec<BpfProgram>,
}

impl Filter {
    /// The filter for this policy and network rule, on this machine's architecture.
    ///
    /// # Errors
    /// When the policy does not allow that rule, or its data is broken (a test rules that out).
    pub(super) fn of(policy: Policy, network: &Network) -> Step<Self> {
        let broken = |error: data::Broken| LayerFailure::new(Layer::Seccomp, error.to_string(), 0);
        let list = list(policy, network).ok_or_else(|| {
            refused(Layer::Seccomp, "the policy does not allow this rule for the network")
        })?;
        let target = Target::native().ok_or_else(|| refused(Layer::Seccomp, "unknown architecture"))?;
        let rules = data::Rules::read(&[&data::BASE, list]).map_err(broken)?;
        Ok(Self { programs: compile::compile(&rules, target).map_err(broken)? })
    }

    /// Installs it for this thread and all that comes from it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn install(&self, layers: &mut Vec<Layer>) -> Step {
        for program in &self.programs {
            seccompiler::apply_filter(program).map_err(|error| {
                let errno = match error {
                    seccompiler::Error::Prctl(source) | seccompiler::Error::Seccomp(source) => source,
                    other => std::io::Error::other(other),
                };
                failed::<std::io::Error>(Layer::Seccomp, "seccomp SECCOMP_SET_MODE_FILTER")(errno)
            })?;
        }
        layers.push(Layer::Seccomp);
        Ok(())
    }
}

/// Which list is added to the base; none where the two do not go together.
const fn list(policy: Policy, network: &Network) -> Option<&'static data::List> {
    match (policy, network) {
        (Policy::Command | Policy::Git | Policy::Claude, Network::None) => Some(&data::NETWORK_NONE),
        (Policy::Command, Network::PrivateLoopback) => Some(&data::NETWORK_LOOPBACK),
        (Policy::Claude, Network::Listeners { .. }) => Some(&data::NETWORK_PORTS),
        (Policy::SelfConfinement, Network::None) => Some(&data::SELF),
        (Policy::Git | Policy::Claude | Policy::SelfConfinement, Network::PrivateLoopback)
        | (Policy::Command | Policy::Git | Policy::SelfConfinement, Network::Listeners { .. }) => None,
    }
}

#[cfg(test)]
mod tests;
