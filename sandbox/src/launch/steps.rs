//! The launched side: what `sandbox-launch` does before it becomes the program.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::stat::{Mode, umask};

use super::status::{Failure, Line, Stage};
use super::{LaunchRequest, Limits, Policy, ProcessGroup, raw};

/// The largest request, in bytes: arguments and environment together stay below what the kernel takes anyway.
const MAX_REQUEST: u64 = 8 * 1024 * 1024;

/// Runs the whole launch; comes back only when it failed, with the process's exit code. `arguments` are the request's
/// and the status pipe's descriptor numbers and the parent's pid.
#[must_use]
pub fn run(arguments: &[OsString]) -> u8 {
    const SETUP_FAILED: u8 = 125;
    let numbers: Option<Vec<i32>> = arguments.iter().map(|text| text.to_str()?.parse().ok()).collect();
    let Some([request, status, parent]) = numbers.as_deref() else {
        return SETUP_FAILED;
    };
    let (Ok(request), Ok(mut status)) = (raw::take_inherited(*request), raw::take_inherited(*status)) else {
        return SETUP_FAILED;
    };
    let Err(failure) = launch(request, &mut status, *parent);
    // Nobody is left to tell when this fails; the exit code still says that nothing ran.
    let _ = status.write_all(&Line::Failed(failure).encode());
    SETUP_FAILED
}

fn launch(request: File, status: &mut File, parent: i32) -> Result<Infallible, Failure> {
    die_with_parent(parent)?;
    let request = read_request(request)?;
    let program = Program::prepare(&request)?;
    if request.group == ProcessGroup::OwnSession {
        nix::unistd::setsid().map_err(Failure::at(Stage::Session))?;
    }
    limit(&request.limits)?;
    umask(Mode::from_bits_truncate(0o077));
    nix::unistd::chdir(Path::new(&request.cwd)).map_err(Failure::at(Stage::Directory))?;
    reset_signals().map_err(Failure::at(Stage::Signals))?;
    let layers = confine(request.policy)?;
    raw::close_others_on_exec().map_err(Failure::at(Stage::Descriptors))?;
    let ready = Line::Ready(layers.iter().map(|&layer| layer.to_owned()).collect());
    status.write_all(&ready.encode()).map_err(|_| Failure::new(Stage::Descriptors, Errno::EPIPE as i32))?;
    program.exec()
}

/// Arranges to be killed when the parent dies, however it dies. The parent may have died just before: then we have
/// another one by now. macOS has no such arrangement; there the parent ends what it started, unless it is itself killed.
fn die_with_parent(parent: i32) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
        .map_err(Failure::at(Stage::ParentDeath))?;
    if nix::unistd::getppid().as_raw() == parent {
        Ok(())
    } else {
        Err(Failure::new(Stage::ParentDeath, Errno::ESRCH as i32))
    }
}

fn read_request(request: File) -> Result<LaunchRequest, Failure> {
    let malformed = || Failure::new(Stage::Request, Errno::EINVAL as i32);
    let mut text = Vec::new();
    request.take(MAX_REQUEST).read_to_end(&mut text).map_err(|_| malformed())?;
    let request: LaunchRequest = serde_json::from_slice(&text).map_err(|_| malformed())?;
    let absolute = |path: &OsStr| Path::new(path).is_absolute();
    let sound = request.argv.first().is_some_and(|program| absolute(program)) && absolute(&request.cwd);
    // A process confines itself by a call of its own; as a launch it would be a launch without a policy.
    if sound && request.policy != Policy::SelfConfinement { Ok(request) } else { Err(malformed()) }
}

fn limit(limits: &Limits) -> Result<(), Failure> {
    if cfg!(not(target_os = "linux")) && limits.processes.is_some() {
        return Err(Failure::new(Stage::Limits, Errno::ENOTSUP as i32));
    }
    let wanted = [
        (Resource::RLIMIT_CORE, Some(0)),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        #[cfg(target_os = "linux")]
        (Resource::RLIMIT_NPROC, limits.processes),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_AS, limits.address_space_bytes),
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
    ];
    wanted
        .into_iter()
        .filter_map(|(resource, value)| Some((resource, value?)))
        .try_for_each(|(resource, value)| setrlimit(resource, value, value))
        .map_err(Failure::at(Stage::Limits))
}

/// What is blocked or ignored stays so across exec; the program starts with nothing of ours.
fn reset_signals() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    raw::default_signals()
}

/// Puts up the layers of the operating system's sandbox that `policy` asks for, and names those in force.
///
/// None are built yet, for any policy: what is started here is set apart (session, environment, directory, limits,
/// descriptors) but not confined, and the empty list says so to everyone up to the public result.
///
/// # Errors
/// When a layer cannot be put up; the program is not started then.
pub const fn confine(policy: Policy) -> Result<&'static [&'static str], Failure> {
    match policy {
        Policy::Command | Policy::Claude | Policy::Git | Policy::SelfConfinement => Ok(&[]),
    }
}

/// Arguments and environment in the form exec takes, prepared before anything is changed.
struct Program {
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    fn prepare(request: &LaunchRequest) -> Result<Self, Failure> {
        let argv = request.argv.iter().map(|text| CString::new(text.as_bytes())).collect::<Result<_, _>>();
        let env = request
            .env
            .iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let names_are_sound =
            request.env.keys().all(|name| !name.is_empty() && !name.as_bytes().contains(&b'='));
        match (argv, env.collect::<Result<_, _>>()) {
            (Ok(argv), Ok(env)) if names_are_sound => Ok(Self { argv, env }),
            _ => Err(Failure::new(Stage::Request, Errno::EINVAL as i32)),
        }
    }

    fn exec(&self) -> Result<Infallible, Failure> {
        let program = self.argv.first().ok_or_else(|| Failure::new(Stage::Exec, Errno::EINVAL as i32))?;
        nix::unistd::execve(program, &self.argv, &self.env).map_err(Failure::at(Stage::Exec))
    }
}
