//! Step 5: the first process inside.
//!
//! It builds the view, gives up every privilege, starts the program and stays to reap what the program leaves behind.
//! When the program ends it says how, exactly as the kernel told it, and exits; the kernel then kills whatever is still
//! inside, however it was detached, and the keeper's wait returns only when all of that is gone.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use rustix::process::WaitOptions;

use super::seccomp::Filter;
use super::{Step, View, capabilities, failed, minimal_root, network, program, raw, whole_system};
use crate::launch::status::Failed;
use crate::launch::steps::{Job, tell};
use crate::launch::{Ended, Exit, Layer, ProcessGroup, Usage};

/// The pipes between the keeper and the first process.
pub(super) struct Links {
    orders_in: PipeReader,
    orders_out: PipeWriter,
    result_in: PipeReader,
    result_out: PipeWriter,
}

/// The first process's ends.
pub(super) struct Inner {
    /// Numbers of signals for the program; its end is the keeper's end.
    orders: PipeReader,
    /// How the program ended.
    result: PipeWriter,
}

/// The keeper's ends.
pub(super) struct Outer {
    pub orders: PipeWriter,
    pub result: PipeReader,
}

impl Links {
    pub(super) fn make() -> io::Result<Self> {
        let (orders_in, orders_out) = io::pipe()?;
        let (result_in, result_out) = io::pipe()?;
        Ok(Self { orders_in, orders_out, result_in, result_out })
    }

    pub(super) fn split(self) -> (Inner, Outer) {
        let Self { orders_in, orders_out, result_in, result_out } = self;
        (Inner { orders: orders_in, result: result_out }, Outer { orders: orders_out, result: result_in })
    }
}

/// Runs as the first process; never returns.
pub(super) fn run(
    job: Job,
    layers: Vec<Layer>,
    filter: Filter,
    links: Inner,
    network: network::Joining,
    null: &File,
) -> ! {
    match start(&job, layers, filter, &links, network) {
        Ok((program, children)) => {
            let group = job.request.group;
            // The program holds the status pipe now; with its exec, and our copies gone, the pipe ends.
            drop(job);
            let Inner { orders, mut result } = links;
            let standard = stand_aside(null);
            let ended = standard.and_then(|()| watch(program, group, &children, orders));
            if let Ok(ended) = ended {
                // A keeper that is gone needs no answer.
                let _ = result.write_all(&serde_json::to_vec(&ended).unwrap_or_default());
            }
            raw::leave(0)
        }
        Err(failure) => raw::leave(tell(&job.status, failure)),
    }
}

fn start(
    job: &Job,
    mut layers: Vec<Layer>,
    filter: Filter,
    links: &Inner,
    network: network::Joining,
) -> Result<(Pid, SignalFd), Failed> {
    die_with_keeper(links)?;
    match View::of(job.request.policy) {
        View::WholeSystem => whole_system::build(&job.request, &job.confinement, &mut layers)?,
        View::Only => minimal_root::build(&job.request, &job.confinement, &mut layers)?,
    }
    network.join(&job.confinement.network, &mut layers)?;
    capabilities::drop_all(&mut layers)?;
    capabilities::hide_memory()?;
    let children = watch_children().map_err(failed(Layer::Pidns, "signalfd"))?;
    let become_program = || tell(&job.status, program::become_it(job, std::mem::take(&mut layers), filter));
    let program = raw::start(become_program).map_err(failed(Layer::Pidns, "clone"))?;
    Ok((program, children))
}

/// Arranges to be killed when the keeper dies. The keeper may have died just before: then the order pipe has ended.
fn die_with_keeper(links: &Inner) -> Step {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(failed(Layer::Pidns, "prctl PR_SET_PDEATHSIG"))?;
    let mut fds = [PollFd::new(links.orders.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::ZERO) {
        Ok(0) => Ok(()),
        _ => Err(failed(Layer::Pidns, "the keeper is gone")(Errno::ESRCH)),
    }
}

fn watch_children() -> nix::Result<SignalFd> {
    let mut child = SigSet::empty();
    child.add(Signal::SIGCHLD);
    child.thread_block()?;
    SignalFd::with_flags(&child, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// Lets go of the program's standard streams, so that they end with the program.
pub(super) fn stand_aside(null: &File) -> io::Result<()> {
    let null = null.as_fd();
    rustix::stdio::dup2_stdin(null)?;
    rustix::stdio::dup2_stdout(null)?;
    rustix::stdio::dup2_stderr(null)?;
    Ok(())
}

fn watch(
    program: Pid,
    group: ProcessGroup,
    children: &SignalFd,
    mut orders: PipeReader,
) -> io::Result<Ended> {
    loop {
        let mut fds = [children.as_fd(), orders.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [ended, ordered] = fds.map(|fd| fd.any().unwrap_or(true));
        if ordered && let Carried::Out = carry_out(&mut orders, program, group)? {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if ended {
            while let Ok(Some(_)) = children.read_signal() {}
            if let Some(how) = reap(program)? {
                return Ok(Ended { how, timed_out: false, scratch_full: false, usage: usage()? });
            }
        }
    }
}

/// Whether the keeper still is there.
enum Carried {
    On,
    Out,
}

/// Passes signals on to the program, or to its whole group if it leads one.
fn carry_out(orders: &mut PipeReader, program: Pid, group: ProcessGroup) -> io::Result<Carried> {
    let mut numbers = [0; 16];
    let count = orders.read(&mut numbers)?;
    for &number in numbers.iter().take(count) {
        if let Ok(signal) = Signal::try_from(i32::from(number)) {
            // One that has just ended needs no signal. A group that is not made yet: the program alone.
            let _ = match group {
                ProcessGroup::Inherited => nix::sys::signal::kill(program, signal),
                ProcessGroup::OwnSession => nix::sys::signal::killpg(program, signal)
                    .or_else(|_| nix::sys::signal::kill(program, signal)),
            };
        }
    }
    Ok(if count == 0 { Carried::Out } else { Carried::On })
}

/// Reaps all that has ended; says how the program ended if it was among them.
fn reap(program: Pid) -> io::Result<Option<Exit>> {
    let mut how = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == program.as_raw() => {
                let code = status.exit_status().map(Exit::Code);
                how = code.or_else(|| status.terminating_signal().map(Exit::Signal)).or(how);
            }
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(how),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn usage() -> io::Result<Usage> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let positive = |value: i64| u64::try_from(value).unwrap_or(0);
    Ok(Usage {
        peak_memory_bytes: positive(used.max_rss()) * 1024,
        user_us: positive(used.user_time().num_microseconds()),
        system_us: positive(used.system_time().num_microseconds()),
    })
}
