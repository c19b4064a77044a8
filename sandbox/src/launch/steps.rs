//! The launched side: what `sandbox-launch` does before it becomes the program, or starts it in a sandbox.

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

use super::status::{Failed, Failure, Line, Stage};
use super::{Confinement, LaunchRequest, Layer, Limits, Order, Policy, ProcessGroup, raw};

/// The largest request, in bytes: arguments and environment together stay below what the kernel takes anyway.
pub(crate) const MAX_REQUEST: u64 = 8 * 1024 * 1024;

/// Runs the whole launch; comes back when it failed, or when a confined program has ended, with the process's exit code.
/// `arguments` are the numbers of the order's and the status pipe's descriptors and, for a confined program, the control
/// socket's.
#[must_use]
pub fn run(arguments: &[OsString]) -> u8 {
    #[cfg(target_os = "macos")]
    if let Some((first, rest)) = arguments.split_first()
        && crate::macos::is_inside(first)
    {
        return crate::macos::run_inside(rest);
    }
    let numbers: Option<Vec<i32>> = arguments.iter().map(|text| text.to_str()?.parse().ok()).collect();
    let Some([order, status, control @ ..]) = numbers.as_deref() else {
        return SETUP_FAILED;
    };
    let (Ok(order), Ok(status)) = (raw::take_inherited(*order), raw::take_inherited(*status)) else {
        return SETUP_FAILED;
    };
    match prepare(order) {
        Ok((order, program)) => launch(order, program, status, control.first().copied()),
        Err(failure) => tell(status, failure),
    }
}

/// The launcher's exit code when nothing was started. The status pipe says why; the code alone says nothing.
pub(crate) const SETUP_FAILED: u8 = 125;

/// Says why nothing was started.
pub(crate) fn tell(mut status: impl Write, failed: impl Into<Failed>) -> u8 {
    // Nobody is left to tell when this fails; the exit code still says that nothing ran.
    let _ = status.write_all(&Line::Failed(failed.into()).encode());
    SETUP_FAILED
}

fn prepare(order: File) -> Result<(Order, Program), Failure> {
    let order = read_order(order)?;
    die_with_parent(order.parent)?;
    let program = Program::prepare(&order.launch)?;
    if order.launch.group == ProcessGroup::OwnSession {
        nix::unistd::setsid().map_err(Failure::at(Stage::Session))?;
    }
    Ok((order, program))
}

fn launch(order: Order, program: Program, status: File, control: Option<i32>) -> u8 {
    let Order { launch: request, parent, confinement: Some(confinement) } = order else {
        let Err(failure) = settle(&order.launch).and_then(|()| program.start(&status, &[]));
        return tell(&status, failure);
    };
    match control.ok_or(Errno::EINVAL).and_then(raw::take_inherited) {
        Ok(control) => confine(Job { request, confinement, program, control, status, parent }),
        Err(errno) => tell(status, Failure::at(Stage::Request)(errno)),
    }
}

/// Everything about a confined launch.
pub(crate) struct Job {
    pub request: LaunchRequest,
    pub confinement: Confinement,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "prepared once more, inside"))]
    pub program: Program,
    pub control: File,
    pub status: File,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no signal for its death"))]
    pub parent: u32,
}

#[cfg(target_os = "linux")]
fn confine(job: Job) -> u8 {
    crate::linux::run(job)
}

#[cfg(target_os = "macos")]
fn confine(job: Job) -> u8 {
    crate::macos::run(job)
}

/// What every program gets, confined or not: limits, umask, directory, signals.
pub(crate) fn settle(request: &LaunchRequest) -> Result<(), Failure> {
    limit(&request.limits)?;
    umask(Mode::from_bits_truncate(0o077));
    nix::unistd::chdir(Path::new(&request.cwd)).map_err(Failure::at(Stage::Directory))?;
    reset_signals().map_err(Failure::at(Stage::Signals))
}

/// Arranges to be killed when the parent dies, however it dies. The parent may have died just before: then we have
/// another one by now. macOS has no such arrangement; there the keeper of a confined program notices.
pub(crate) fn die_with_parent(parent: u32) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
        .map_err(Failure::at(Stage::ParentDeath))?;
    if nix::unistd::getppid().as_raw().unsigned_abs() == parent {
        Ok(())
    } else {
        Err(Failure::new(Stage::ParentDeath, Errno::ESRCH as i32))
    }
}

fn read_order(order: File) -> Result<Order, Failure> {
    let malformed = || Failure::new(Stage::Request, Errno::EINVAL as i32);
    let mut text = Vec::new();
    order.take(MAX_REQUEST).read_to_end(&mut text).map_err(|_| malformed())?;
    let order: Order = serde_json::from_slice(&text).map_err(|_| malformed())?;
    let request = &order.launch;
    let absolute = |path: &OsStr| Path::new(path).is_absolute();
    let sound = request.argv.first().is_some_and(|program| absolute(program)) && absolute(&request.cwd);
    // A process confines itself by a call of its own; as a launch it would be a launch without a policy. Where there is no
    // such call it is started confined.
    let of_itself = request.policy == Policy::SelfConfinement;
    let started_confined = cfg!(target_os = "macos") && order.confinement.is_some();
    if sound && (!of_itself || started_confined) { Ok(order) } else { Err(malformed()) }
}

fn limit(limits: &Limits) -> Result<(), Failure> {
    #[cfg(target_os = "macos")]
    if let Some(processes) = limits.processes {
        crate::macos::limit_processes(processes).map_err(Failure::at(Stage::Limits))?;
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
pub(crate) fn reset_signals() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    raw::default_signals()
}

/// Arguments and environment in the form exec takes, prepared before anything is changed.
pub(crate) struct Program {
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    pub(crate) fn prepare(request: &LaunchRequest) -> Result<Self, Failure> {
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

    /// Closes what is not the program's, says that all is set up by `layers`, and becomes the program.
    pub(crate) fn start(&self, mut status: impl Write, layers: &[Layer]) -> Result<Infallible, Failure> {
        raw::close_others_on_exec().map_err(Failure::at(Stage::Descriptors))?;
        let ready = Line::Ready(layers.iter().map(|layer| layer.name().to_owned()).collect());
        let told = status.write_all(&ready.encode());
        told.map_err(|_| Failure::new(Stage::Descriptors, Errno::EPIPE as i32))?;
        self.exec()
    }

    fn exec(&self) -> Result<Infallible, Failure> {
        let program = self.argv.first().ok_or_else(|| Failure::new(Stage::Exec, Errno::EINVAL as i32))?;
        nix::unistd::execve(program, &self.argv, &self.env).map_err(Failure::at(Stage::Exec))
    }
}
