//! The two moments at which the front gives up what it does not need.
//!
//! [`harden`] comes first of all, before the key is in memory. [`confine`] stands between binding and serving: all that
//! takes authority (reading the key, binding the listener) is done by then, and what follows needs only the listener and
//! the executor's `front` socket. It returns the layers that are in force, so that nobody takes one for granted that is
//! not there.

use std::path::Path;

/// What serving still needs.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// The one directory that must stay visible: it holds the executor's `front` socket and nothing else.
    pub front_directory: &'a Path,
}

/// Keeps other processes of this user from reading our memory or tracing us, where the system can do that.
///
/// # Errors
/// When the system can and refuses.
pub fn harden() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}

/// Confines this process to `needs` and returns the names of the layers in force.
///
/// None are: whatever the account can reach, this process can. Its safety rests on what it does, not on what it could do.
///
/// # Errors
/// When a layer cannot be put in force; the caller must not serve then.
pub fn confine(needs: Needs<'_>) -> std::io::Result<Vec<&'static str>> {
    let Needs { front_directory: _ } = needs;
    tracing::debug!("no self-confinement layer on this build");
    Ok(Vec::new())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_hardened_process_is_not_dumpable() {
        harden().unwrap();
        assert!(!nix::sys::prctl::get_dumpable().unwrap());
    }

    #[test]
    fn only_layers_in_force_are_reported() {
        assert!(confine(Needs { front_directory: Path::new("/run/g/front") }).unwrap().is_empty());
    }
}
