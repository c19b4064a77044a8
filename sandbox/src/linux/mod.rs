//! The Linux sandbox, in execution order; one file per step. What each step does, why, and what it does not do: see
//! `docs/sandbox.md`.
//!
//! ```text
//! keeper (sandbox-launch)                      init (pid 1 inside)                       program
//! namespaces  user, mount, pid, ipc, …
//! fork ──────────────────────────────────────▶ lifetime   dies with the keeper
//! network     of its own, lo up, listeners     view       clones, read-only, /tmp, /dev,
//! handover    pidfd, listeners to the launcher            masks, /proc  (or a root of its own)
//! supervisor  signals, time, the end           network    joins the keeper's
//!                                              capabilities, no_new_privs, not dumpable
//!                                              clone ───────────────────────────────────▶ limits, directory
//!                                              init       reaps, forwards, reports        landlock
//!                                                                                         seccomp
//!                                                                                         exec
//! ```
//!
//! Every step is fatal when it fails; the failure names the layer and the system call, and goes over the status pipe. Two
//! facts carry the rest: the program and its descendants are in a process namespace whose first process is ours, so that
//! the kernel ends them all with it; and they hold no capability in a user namespace that they cannot leave, so that what
//! was mounted stays mounted.

mod capabilities;
mod dev;
pub(crate) mod elf;
pub(crate) mod handover;
mod init;
mod landlock;
mod masks;
mod minimal_root;
mod mountinfo;
mod mounts;
mod namespaces;
mod network;
pub(crate) mod probe;
mod proc;
mod program;
mod raw;
mod remedies;
mod scratch;
mod seccomp;
mod self_confinement;
mod supervisor;
mod whole_system;

use std::io;

pub(crate) use self_confinement::confine_self;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};

use crate::keeper::Watch;
use crate::launch::steps::{Job, die_with_parent, reset_signals, tell};
use crate::launch::{Layer, LayerFailure, Policy, Scratch};

/// What a step gives: itself, or the layer that could not be had.
type Step<T = ()> = Result<T, LayerFailure>;

/// A closure for `map_err` on the system calls of one layer: which layer, which call.
fn failed<E: Into<io::Error>>(layer: Layer, call: impl Into<String>) -> impl FnOnce(E) -> LayerFailure {
    move |error| {
        let errno = error.into().raw_os_error().unwrap_or(0);
        remedies::with_remedy(LayerFailure::new(layer, call, errno))
    }
}

/// A request that a policy does not allow.
fn refused(layer: Layer, why: &str) -> LayerFailure {
    LayerFailure::new(layer, why, Errno::EINVAL as i32)
}

/// What the program sees of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    WholeSystem,
    Only,
}

impl View {
    const fn of(policy: Policy) -> Self {
        match policy {
            Policy::Command | Policy::Git => Self::WholeSystem,
            Policy::Claude | Policy::SelfConfinement => Self::Only,
        }
    }
}

/// Runs a confined launch to its end, as the keeper; gives the keeper's exit code.
pub(crate) fn run(job: Job) -> u8 {
    match begin(&job) {
        Ok(begun) => split(job, begun),
        Err(failure) => tell(&job.status, failure),
    }
}

/// What exists before the fork.
struct Begun {
    layers: Vec<Layer>,
    network: network::Meeting,
    filter: seccomp::Filter,
    links: init::Links,
    watch: Option<Watch>,
    null: std::fs::File,
}

fn begin(job: &Job) -> Step<Begun> {
    // A program that ends by a signal lets its keeper end by it too: no memory of either goes to a file.
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0)
        .map_err(failed(Layer::Rlimits, "setrlimit RLIMIT_CORE"))?;
    // Also for us: a parent that ignores SIGCHLD, or blocks it, would keep us from seeing anything end.
    reset_signals().map_err(failed(Layer::Pidns, "sigaction"))?;
    // Whoever launched may be gone when we have something to say. The program starts with nothing blocked.
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    pipe.thread_block().map_err(failed(Layer::Pidns, "sigprocmask"))?;
    let filter = seccomp::Filter::of(job.request.policy, &job.confinement.network)?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.map_err(failed(Layer::Dev, "open /dev/null"))?;
    let mut layers = Vec::new();
    namespaces::enter(namespaces::Process::WithChildren, &mut layers)?;
    // A change of credentials may have taken this back.
    die_with_parent(job.parent)
        .map_err(|failure| LayerFailure::new(Layer::Pidns, "prctl PR_SET_PDEATHSIG", failure.errno))?;
    let network = network::Meeting::arrange().map_err(failed(Layer::Netns, "pidfd_open, pipe"))?;
    let watch = match &job.confinement.scratch {
        Scratch::None | Scratch::Memory { .. } => None,
        Scratch::Directory { path, bytes } => {
            let watch = Watch::on(path, *bytes);
            Some(watch.map_err(failed(Layer::Scratch, format!("open {}", path.display())))?)
        }
    };
    let links = init::Links::make().map_err(failed(Layer::Pidns, "pipe"))?;
    Ok(Begun { layers, network, filter, links, watch, null })
}

fn split(job: Job, begun: Begun) -> u8 {
    let Begun { layers, network, filter, links, watch, null } = begun;
    let (inner, outer) = links.split();
    let (joining, making) = network.split();
    match raw::fork() {
        Ok(raw::Fork::Child) => {
            drop((outer, making, watch));
            init::run(job, layers, filter, inner, joining, &null)
        }
        Ok(raw::Fork::Parent(init)) => {
            drop((inner, joining));
            match making.make(&job.confinement.network) {
                Ok(listeners) => {
                    supervisor::run(job, init, &listeners, supervisor::Kept { links: outer, watch }, &null)
                }
                // The child dies with us.
                Err(failure) => tell(&job.status, failure),
            }
        }
        Err(errno) => tell(&job.status, failed(Layer::Pidns, "fork")(errno)),
    }
}
