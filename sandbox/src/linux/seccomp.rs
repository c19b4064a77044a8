//! Step 6b: the system call filter.
//!
//! The lists are data (`policy/seccomp-*.toml`), a reason for each line: one base for all, and one list for what the
//! policy and its network rule add. They deny; what they do not name stays allowed, because the programs are anybody's.
//! What remains dangerous is dangerous on objects that the view does not show or the namespaces do not hold.
//!
//! Calls of a foreign architecture, and of x32, kill the process. The filters are compiled when the crate is built.

#[cfg(test)]
mod compile;
#[cfg(test)]
mod data;

use seccompiler::sock_filter;

use super::{Step, failed, refused};
use crate::launch::{Layer, Network, Policy};

include!(concat!(env!("OUT_DIR"), "/filters.rs"));

/// The filter of one launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filter(&'static [sock_filter]);

impl Filter {
    /// The filter for this policy and network rule.
    ///
    /// # Errors
    /// When the policy does not allow that rule.
    pub(super) fn of(policy: Policy, network: &Network) -> Step<Self> {
        let program: &[sock_filter] = match (policy, network) {
            (Policy::Command | Policy::Git | Policy::Claude, Network::None) => &NETWORK_NONE,
            (Policy::Command, Network::PrivateLoopback) => &NETWORK_LOOPBACK,
            (Policy::Claude, Network::Listeners { .. }) => &NETWORK_PORTS,
            (Policy::SelfConfinement, Network::None) => &SELF,
            (Policy::Git | Policy::Claude | Policy::SelfConfinement, Network::PrivateLoopback)
            | (Policy::Command | Policy::Git | Policy::SelfConfinement, Network::Listeners { .. }) => {
                return Err(refused(Layer::Seccomp, "the policy does not allow this rule for the network"));
            }
        };
        Ok(Self(program))
    }

    /// Installs it for this thread and all that comes from it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn install(self, layers: &mut Vec<Layer>) -> Step {
        seccompiler::apply_filter(self.0).map_err(|error| {
            let source = match error {
                seccompiler::Error::Prctl(source) | seccompiler::Error::Seccomp(source) => source,
                other => std::io::Error::other(other),
            };
            failed::<std::io::Error>(Layer::Seccomp, "seccomp SECCOMP_SET_MODE_FILTER")(source)
        })?;
        layers.push(Layer::Seccomp);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
