//! The two moments at which the front gives up what it does not need.
//!
//! [`harden`] comes first of all, before the key is in memory. [`confine`] stands between binding and serving: all that
//! takes authority (reading the key, binding the listener) is done by then, and what follows needs only the listener and
//! the executor's `front` socket.

use std::fmt;
use std::path::Path;

use gatehouse_sandbox::confine::{SelfPolicy, confine_self};
use gatehouse_sandbox::launch::{LaunchError, Layer};

/// What serving still needs.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// The one directory that stays visible: it holds the executor's `front` socket and nothing else.
    pub front_directory: &'a Path,
}

/// What confines this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// These layers, for good.
    Layers(Vec<Layer>),
    /// Nothing that it could have put up itself: on this system a process is confined by whoever starts it.
    FromOutside,
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layers(layers) => {
                let names: Vec<&str> = layers.iter().map(|layer| layer.name()).collect();
                f.write_str(&names.join(" "))
            }
            Self::FromOutside => f.write_str("left to whoever starts it"),
        }
    }
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

/// Confines this process, and every thread that it starts from now on, to `needs`. It must have one thread.
///
/// Afterwards there is no other file, no program, no process and no network for it, whoever is in control of it. What is
/// open stays open.
///
/// # Errors
/// When a layer cannot be had: the error names it, the system call, and what can be done. The caller must not go on then.
pub fn confine(needs: Needs<'_>) -> Result<Confinement, LaunchError> {
    match confine_self(&SelfPolicy { reachable: vec![needs.front_directory.to_owned()] }) {
        Ok(layers) => Ok(Confinement::Layers(layers)),
        Err(LaunchError::Unsupported) => Ok(Confinement::FromOutside),
        Err(error) => Err(error),
    }
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
    fn a_process_with_threads_is_not_confined_and_says_so() {
        let refused = confine(Needs { front_directory: Path::new("/") }).unwrap_err().to_string();
        assert!(
            refused.contains("userns") && refused.contains("unshare with more than one thread"),
            "{refused}"
        );
    }

    #[test]
    fn layers_are_told_by_their_names() {
        let confinement = Confinement::Layers(vec![Layer::Userns, Layer::Seccomp]);
        assert_eq!(confinement.to_string(), "userns seccomp");
    }
}
