//! Which layers this host gives, found out by putting them up.
//!
//! `sandbox-launch --probe` carries out the very steps of a launch, once for each policy, with nothing to be started in the
//! end. What it says about a host is therefore what a launch would say.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::launch::{LaunchError, Launcher, Layer, LayerFailure, Policy};

/// What a host gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// For each policy how far it got.
    pub policies: Vec<PolicyReport>,
    /// The kernel's version of Landlock, as far as it is used; 0: none.
    pub landlock_version: i32,
}

/// How far one policy got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyReport {
    /// The policy.
    pub policy: Policy,
    /// The layers that were put up.
    pub layers: Vec<Layer>,
    /// The layer that could not be had; none: all are there.
    pub failure: Option<LayerFailure>,
}

impl Report {
    /// Whether every policy can be enforced here.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.policies.iter().all(|policy| policy.failure.is_none())
    }

    #[cfg(target_os = "macos")]
    pub(crate) const NEEDED: [(Policy, &'static [Layer]); 4] = {
        use Layer::{ProcessTracker, Rlimits, Scratch, Seatbelt};
        [
            (Policy::Command, &[Seatbelt, ProcessTracker, Rlimits, Scratch]),
            (Policy::Git, &[Seatbelt, ProcessTracker, Rlimits, Scratch]),
            (Policy::Claude, &[Seatbelt, ProcessTracker, Rlimits]),
            (Policy::SelfConfinement, &[Seatbelt, ProcessTracker, Rlimits]),
        ]
    };

    #[cfg(target_os = "linux")]
    pub(crate) const NEEDED: [(Policy, &'static [Layer]); 3] = {
        use Layer::{
            Capabilities, Cgroupns, Dev, Ipcns, Landlock, LandlockScopes, LandlockTcp, Loopback, Masks,
            MinimalRoot, Mountns, Netns, NoNewPrivs, Pidns, Proc, ReadOnlyView, Scratch, Seccomp, Userns,
            Utsns,
        };
        [
            (
                Policy::Command,
                &[
                    Userns,
                    Mountns,
                    Pidns,
                    Netns,
                    Ipcns,
                    Utsns,
                    Cgroupns,
                    Loopback,
                    ReadOnlyView,
                    Scratch,
                    Dev,
                    Proc,
                    Masks,
                    Capabilities,
                    NoNewPrivs,
                    Landlock,
                    LandlockTcp,
                    LandlockScopes,
                    Seccomp,
                ],
            ),
            (
                Policy::Claude,
                &[
                    Userns,
                    Mountns,
                    Pidns,
                    Netns,
                    Ipcns,
                    Utsns,
                    Cgroupns,
                    Loopback,
                    Dev,
                    Proc,
                    MinimalRoot,
                    Capabilities,
                    NoNewPrivs,
                    Landlock,
                    LandlockTcp,
                    LandlockScopes,
                    Seccomp,
                ],
            ),
            (
                Policy::SelfConfinement,
                &[
                    Userns,
                    Mountns,
                    Netns,
                    Ipcns,
                    Utsns,
                    Cgroupns,
                    MinimalRoot,
                    Capabilities,
                    NoNewPrivs,
                    Landlock,
                    LandlockTcp,
                    LandlockScopes,
                    Seccomp,
                ],
            ),
        ]
    };
}

/// The table for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in &self.policies {
            writeln!(f, "{}", report.policy.name())?;
            for layer in report.expected() {
                let state = match &report.failure {
                    _ if report.layers.contains(layer) => "yes",
                    Some(failure) if failure.layer == *layer => "NO",
                    Some(_) => "not reached",
                    // Everything required is there; this one the kernel does not have.
                    None => "no, covered by others",
                };
                writeln!(f, "  {:<16} {state}", layer.name())?;
            }
            if let Some(failure) = &report.failure {
                writeln!(f, "  {failure}")?;
            }
        }
        if cfg!(target_os = "linux") {
            writeln!(f, "Landlock version {}", self.landlock_version)
        } else {
            Ok(())
        }
    }
}

impl PolicyReport {
    fn expected(&self) -> &'static [Layer] {
        Report::NEEDED.iter().find(|(policy, _)| *policy == self.policy).map_or(&[], |(_, layers)| *layers)
    }
}

/// `sandbox-launch --probe [--json]`: prints the report; the exit code is 0 when everything can be enforced, else 1.
#[must_use]
pub fn run(arguments: &[OsString]) -> u8 {
    let report = look();
    let text = if arguments.iter().any(|word| word == "--json") {
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    } else {
        report.to_string()
    };
    let told = io::stdout().write_all(text.as_bytes());
    u8::from(told.is_err() || !report.is_usable())
}

#[cfg(target_os = "linux")]
fn look() -> Report {
    crate::linux::probe::look()
}

#[cfg(target_os = "macos")]
fn look() -> Report {
    crate::macos::probe::look()
}

impl Launcher {
    /// Asks the launcher what this host gives.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub async fn probe(&self) -> Result<Report, LaunchError> {
        let mut command = tokio::process::Command::new(self.program());
        command.env_clear().current_dir("/").args(["--probe", "--json"]).kill_on_drop(true);
        let output = command.output().await;
        let output =
            output.map_err(|source| LaunchError::Launcher { path: self.program().to_owned(), source })?;
        serde_json::from_slice(&output.stdout).map_err(|_| LaunchError::Silent)
    }
}
