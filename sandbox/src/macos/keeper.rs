//! The keeper: what stays of `sandbox-launch` while the program runs.
//!
//! It passes signals on, watches the time and the scratch, follows every process, and ends all of them when the program
//! ends or whoever launched lets go. Then it says how the program ended, and ends the same way itself.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Child;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

use super::processes::Machine;
use super::run_directory::RunDirectory;
use super::start::{Started, group_of, how_it_ended, start};
use super::tracker::{Processes, Tracker};
use super::watcher::{PASSED_ON, Watcher};
use crate::keeper::{Clock, Due, Watch, torn_down};
use crate::launch::status::{Failed, Line};
use crate::launch::steps::{Job, SETUP_FAILED, reset_signals, tell};
use crate::launch::{
    Confinement, Ended, Exit, LaunchRequest, Layer, LayerFailure, ProcessGroup, Scratch, Usage,
};

/// Between two looks for new processes, at most; a fork is told at once.
const LOOK: Duration = Duration::from_millis(500);

/// Runs a confined launch to its end; gives the keeper's exit code.
pub(crate) fn run(job: Job) -> u8 {
    let Job { request, confinement, control, status, .. } = job;
    let keeper = match Keeper::begin(&request, &confinement, control) {
        Ok(keeper) => keeper,
        Err(failed) => return tell(status, failed),
    };
    let ready = Line::Ready(keeper.layers.clone()).encode();
    let told = (&status).write_all(&ready);
    drop(status);
    if told.is_err() {
        // Nobody has heard that it runs: it must not.
        return keeper.finish(torn_down()).map_or(SETUP_FAILED, |_| SETUP_FAILED);
    }
    keeper.keep(&confinement)
}

fn failed<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> LayerFailure {
    move |error| LayerFailure::new(Layer::ProcessTracker, call, error.into().raw_os_error().unwrap_or(0))
}

struct Keeper {
    child: Child,
    layers: Vec<String>,
    pid: i32,
    group: ProcessGroup,
    control: File,
    queue: Kqueue,
    tracker: Tracker,
    watcher: Watcher,
    watch: Option<Watch>,
    scratch_full: bool,
    _run: RunDirectory,
}

impl Keeper {
    fn begin(request: &LaunchRequest, confinement: &Confinement, control: File) -> Result<Self, Failed> {
        setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(failed("setrlimit RLIMIT_CORE"))?;
        reset_signals().map_err(failed("sigaction"))?;
        let mut blocked = SigSet::empty();
        PASSED_ON.into_iter().chain([Signal::SIGPIPE]).for_each(|signal| blocked.add(signal));
        blocked.thread_block().map_err(failed("sigprocmask"))?;
        let flags = fcntl(control.as_fd(), FcntlArg::F_GETFL).map_err(failed("fcntl"))?;
        let flags = OFlag::from_bits_truncate(flags) | OFlag::O_NONBLOCK;
        fcntl(control.as_fd(), FcntlArg::F_SETFL(flags)).map_err(failed("fcntl"))?;
        let run = RunDirectory::make().map_err(failed("mkdtemp"))?;
        let mut watcher = Watcher::start(&run).map_err(failed("fork"))?;
        let queue = queue(&control).map_err(failed("kqueue"))?;
        let mut tracker = Tracker::default();
        let group = request.group;
        let begun = start(request, confinement, &run, &mut |pid| {
            tracker = Tracker::of(pid, group_of(group, pid), &mut Machine);
            follow(&queue, pid);
            watcher.tell(pid, Machine.started(pid).unwrap_or_default());
        });
        let Started { child, layers, scratch } = match begun {
            Ok(started) => started,
            Err(failed) => {
                tracker.end(&mut Machine);
                watcher.release();
                return Err(failed);
            }
        };
        let watch = match (&confinement.scratch, scratch) {
            (Scratch::Directory { bytes, .. } | Scratch::Memory { bytes }, Some(path)) => {
                Watch::on(&path, *bytes).ok()
            }
            _ => None,
        };
        let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
        let scratch_full = false;
        let keeper = Self {
            child,
            layers,
            pid,
            group,
            control,
            queue,
            tracker,
            watcher,
            watch,
            scratch_full,
            _run: run,
        };
        keeper.stand_aside(confinement)
    }

    /// Lets go of the program's standard streams, so that they end with the program.
    fn stand_aside(self, confinement: &Confinement) -> Result<Self, Failed> {
        let aside = || -> io::Result<()> {
            let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
            rustix::stdio::dup2_stdin(&null)?;
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(&null)?;
            Ok(())
        };
        let watched = self.watch.is_some() || confinement.scratch == Scratch::None;
        let done = if watched {
            aside().map_err(failed("dup2"))
        } else {
            Err(failed("open the scratch")(Errno::EIO))
        };
        match done {
            Ok(()) => Ok(self),
            Err(failure) => {
                let _ = self.finish(torn_down());
                Err(failure.into())
            }
        }
    }

    fn keep(mut self, confinement: &Confinement) -> u8 {
        let ended = self.watch_until_the_end(Clock::start(confinement.time)).unwrap_or_else(|_| torn_down());
        match self.finish(ended) {
            Ok(ended) => end_as(ended.how),
            Err(_) => end_as(Exit::TornDown),
        }
    }

    /// Ends whatever is left, then says how the program ended.
    fn finish(mut self, ended: Ended) -> io::Result<Ended> {
        self.tracker.end(&mut Machine);
        self.child.wait()?;
        let ended = Ended { usage: usage()?, ..ended };
        self.watcher.release();
        let flags = fcntl(self.control.as_fd(), FcntlArg::F_GETFL)?;
        fcntl(
            self.control.as_fd(),
            FcntlArg::F_SETFL(OFlag::from_bits_truncate(flags) & !OFlag::O_NONBLOCK),
        )?;
        // Whoever launched may be gone.
        let _ = self.control.write_all(&serde_json::to_vec(&ended).unwrap_or_default());
        Ok(ended)
    }

    fn watch_until_the_end(&mut self, mut clock: Clock) -> io::Result<Ended> {
        loop {
            let mut events =
                [KEvent::new(0, EventFilter::EVFILT_READ, EvFlags::empty(), FilterFlag::empty(), 0, 0); 32];
            let count = match self.queue.kevent(&[], &mut events, Some(self.patience(&clock))) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(errno) => return Err(errno.into()),
            };
            if let Some(status) = self.child.try_wait()? {
                let how = how_it_ended(status);
                let (timed_out, scratch_full) = (clock.timed_out(), self.scratch_full);
                return Ok(Ended { how, timed_out, scratch_full, ..torn_down() });
            }
            for event in events.iter().take(count) {
                if event.filter() == Ok(EventFilter::EVFILT_SIGNAL) {
                    self.pass_on(i32::try_from(event.ident()).unwrap_or(0));
                }
            }
            self.ordered()?;
            self.look();
            match clock.tick() {
                Due::Nothing => {}
                Due::Request => self.pass_on(Signal::SIGTERM as i32),
                Due::Kill => return Ok(Ended { timed_out: true, ..torn_down() }),
            }
            if self.watch.as_mut().is_some_and(Watch::is_over) {
                self.scratch_full = true;
                return Ok(Ended { scratch_full: true, ..torn_down() });
            }
        }
    }

    /// How long nothing will be due.
    fn patience(&self, clock: &Clock) -> libc::timespec {
        let look = Instant::now() + LOOK;
        let next = clock.next().into_iter().chain(self.watch.as_ref().map(Watch::next)).chain([look]).min();
        let left = next.unwrap_or(look).saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        libc::timespec {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(left.subsec_nanos().cast_signed()),
        }
    }

    /// Signals that whoever launched asks for. When it has let go, or is gone, everything inside ends.
    fn ordered(&mut self) -> io::Result<()> {
        let mut numbers = [0; 16];
        match self.control.read(&mut numbers) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                numbers.iter().take(count).for_each(|number| self.pass_on((*number).into()));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn pass_on(&self, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        let program = Pid::from_raw(self.pid);
        // One that has just ended needs no signal.
        let _ = match self.group {
            ProcessGroup::Inherited => nix::sys::signal::kill(program, signal),
            ProcessGroup::OwnSession => nix::sys::signal::killpg(program, signal),
        };
    }

    fn look(&mut self) {
        for (pid, started) in self.tracker.look(&mut Machine) {
            follow(&self.queue, pid);
            self.watcher.tell(pid, started);
        }
    }
}

/// A queue for what whoever launched says, and for signals to the keeper.
fn queue(control: &File) -> nix::Result<Kqueue> {
    let queue = Kqueue::new()?;
    let add = |ident, filter| KEvent::new(ident, filter, EvFlags::EV_ADD, FilterFlag::empty(), 0, 0);
    let number = |signal: Signal| usize::try_from(signal as i32).unwrap_or(0);
    let mut changes: Vec<KEvent> =
        PASSED_ON.into_iter().map(|signal| add(number(signal), EventFilter::EVFILT_SIGNAL)).collect();
    changes.push(add(usize::try_from(control.as_raw_fd()).unwrap_or(0), EventFilter::EVFILT_READ));
    queue.kevent(&changes, &mut [], None)?;
    Ok(queue)
}

/// Has a process's forks and its end told. One that has ended already tells nothing; its children are found by looking.
fn follow(queue: &Kqueue, pid: i32) {
    let what = FilterFlag::NOTE_FORK | FilterFlag::NOTE_EXIT;
    let ident = usize::try_from(pid).unwrap_or(0);
    let change =
        KEvent::new(ident, EventFilter::EVFILT_PROC, EvFlags::EV_ADD | EvFlags::EV_CLEAR, what, 0, 0);
    let _ = queue.kevent(&[change], &mut [], None);
}

fn usage() -> io::Result<Usage> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let positive = |value: i64| u64::try_from(value).unwrap_or(0);
    Ok(Usage {
        // Bytes here, not kibibytes.
        peak_memory_bytes: positive(used.max_rss()),
        user_us: positive(used.user_time().num_microseconds()),
        system_us: positive(used.system_time().num_microseconds()),
    })
}

/// Ends this process the way the program ended.
fn end_as(how: Exit) -> u8 {
    let signal = match how {
        Exit::Code(code) => return u8::try_from(code).unwrap_or(u8::MAX),
        Exit::Signal(signal) => signal,
        Exit::TornDown => Signal::SIGKILL as i32,
    };
    if let (Ok(()), Ok(signal)) = (reset_signals(), Signal::try_from(signal)) {
        let _ = nix::sys::signal::raise(signal);
    }
    // Not reached unless the signal is one that does not end a process.
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
