//! Putting the profile on, and having it proven from inside.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::places::{Asked, Places, real};
use super::profile::Profile;
use super::run_directory::{RunDirectory, directory};
use super::{outcome, raw, translate};
use crate::launch::status::{self, Failed};
use crate::launch::{
    Confinement, Exit, LaunchRequest, Layer, LayerFailure, Network, Policy, ProcessGroup, Remedy, Scratch,
};

/// The one program that puts profiles on, by its absolute path: nothing is looked for.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// What the launcher does inside, before it becomes the program.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inside {
    pub request: LaunchRequest,
    /// A file that only the profile keeps it from.
    pub outside: PathBuf,
    /// What is in force once that file was refused.
    pub layers: Vec<Layer>,
}

/// A program that runs.
#[derive(Debug)]
pub(super) struct Started {
    pub child: Child,
    pub layers: Vec<String>,
    /// Where the scratch is.
    pub scratch: Option<PathBuf>,
}

fn failed(layer: Layer, call: impl Into<String>) -> impl FnOnce(io::Error) -> LayerFailure {
    move |error| LayerFailure::new(layer, call, error.raw_os_error().unwrap_or(0))
}

/// Starts the program of a request. `spawned` hears its number before it can have done anything.
///
/// # Errors
/// When any step fails; nothing runs then.
pub(super) fn start(
    request: &LaunchRequest,
    confinement: &Confinement,
    run: &RunDirectory,
    spawned: &mut dyn FnMut(i32),
) -> Result<Started, Failed> {
    can_be_had(request.policy, confinement)?;
    let scratch = scratch(confinement, run)?;
    let launcher = std::env::current_exe().map_err(failed(Layer::Seatbelt, "find the launcher"))?;
    let asked = Asked { request, confinement, scratch: scratch.as_deref(), launcher: &launcher };
    let profile = Profile::compose(request.policy, &Places::of(&asked, real)?)?;
    let mut layers = vec![Layer::Seatbelt, Layer::ProcessTracker, Layer::Rlimits];
    layers.extend(scratch.is_some().then_some(Layer::Scratch));
    let inside = Inside {
        request: translate::for_this_system(request, confinement, scratch.as_deref()),
        outside: run.outside(),
        layers,
    };
    let (child, layers) = put_on(&profile, &real(&launcher), &inside, spawned)?;
    Ok(Started { child, layers, scratch })
}

/// What no profile can give is refused, and never left out.
fn can_be_had(policy: Policy, confinement: &Confinement) -> Result<(), LayerFailure> {
    let refused = |layer, why: &str| Err(LayerFailure::new(layer, why, Errno::EINVAL as i32));
    match (policy, &confinement.network) {
        (_, Network::PrivateLoopback) => Err(LayerFailure {
            remedy: Some(Remedy::NoNetworkOfItsOwn),
            ..LayerFailure::new(Layer::Netns, "a network of its own", Errno::ENOTSUP as i32)
        }),
        (Policy::Command | Policy::Git, Network::Listeners { .. }) => {
            refused(Layer::Seatbelt, "this policy has no listeners")
        }
        (Policy::SelfConfinement, _) if confinement.scratch != Scratch::None => {
            refused(Layer::Scratch, "this policy has no scratch")
        }
        _ => confinement.writable.iter().try_for_each(|path| {
            let found = path.metadata().and_then(|_| path.is_absolute().then_some(()).ok_or_else(invalid));
            found.map_err(failed(Layer::Seatbelt, format!("realpath {}", path.display())))
        }),
    }
}

fn invalid() -> io::Error {
    Errno::EINVAL.into()
}

/// The scratch with a home directory in it.
fn scratch(confinement: &Confinement, run: &RunDirectory) -> Result<Option<PathBuf>, LayerFailure> {
    let scratch = match &confinement.scratch {
        Scratch::None => return Ok(None),
        Scratch::Directory { path, .. } => {
            path.canonicalize().map_err(failed(Layer::Scratch, format!("realpath {}", path.display())))?
        }
        Scratch::Memory { .. } => run.scratch().map_err(failed(Layer::Scratch, "mkdir"))?,
    };
    directory(&scratch.join("home")).map_err(failed(Layer::Scratch, "mkdir home"))?;
    Ok(Some(scratch))
}

fn put_on(
    profile: &Profile,
    launcher: &Path,
    inside: &Inside,
    spawned: &mut dyn FnMut(i32),
) -> Result<(Child, Vec<String>), Failed> {
    let order = serde_json::to_vec(inside)
        .map_err(|error| LayerFailure::new(Layer::Seatbelt, error.to_string(), Errno::EINVAL as i32))?;
    let pipe = || io::pipe().map_err(failed(Layer::Seatbelt, "pipe"));
    let ((order_in, order_out), (proof_in, proof_out)) = (pipe()?, pipe()?);
    let mut command = Command::new(SANDBOX_EXEC);
    command.args(profile.arguments()).arg(launcher).arg("--inside");
    command.args([order_in.as_raw_fd().to_string(), proof_out.as_raw_fd().to_string()]);
    command.env_clear().current_dir("/");
    raw::prepare(&mut command, inside.request.group, vec![order_in.into(), proof_out.into()]);
    let spawn = command.spawn().map_err(failed(Layer::Seatbelt, format!("start {SANDBOX_EXEC}")));
    let mut child = spawn?;
    // Our copies of its ends go with this, so that the proof can end.
    drop(command);
    spawned(i32::try_from(child.id()).unwrap_or(i32::MAX));
    // A pipe that breaks means that it has ended; the proof, or the want of it, tells why.
    let _ = File::from(OwnedFd::from(order_out)).write_all(&order);
    match said(proof_in) {
        Ok(layers) => Ok((child, layers)),
        Err(failed) => {
            let how = child.wait().map_or(Exit::TornDown, how_it_ended);
            Err(failed.unwrap_or_else(|| outcome::of_silence(how).into()))
        }
    }
}

/// What comes from inside until the program takes over.
fn said(proof: PipeReader) -> Result<Vec<String>, Option<Failed>> {
    let mut text = Vec::new();
    // Two short lines; nothing but the launcher itself can write there.
    proof.take(64 * 1024).read_to_end(&mut text).map_err(|_| None)?;
    status::outcome(&text)
}

pub(super) fn how_it_ended(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::TornDown,
    }
}

/// Whether the program leads a group of its own.
pub(super) fn group_of(group: ProcessGroup, pid: i32) -> Option<i32> {
    match group {
        ProcessGroup::OwnSession => Some(pid),
        ProcessGroup::Inherited => None,
    }
}

/// The word by which the launcher knows that it is inside.
pub(crate) fn is_inside(word: &OsStr) -> bool {
    word == "--inside"
}
