//! The keeper: what stays of `sandbox-launch` while the program runs.
//!
//! It passes signals on, watches the time, and ends everything when whoever launched lets go. When the program has ended
//! it says how, over the control socket, and then ends the same way itself.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, WaitOptions, pidfd_open, pidfd_send_signal};

use super::init::{Outer, stand_aside};
use super::{capabilities, handover, raw};
use crate::keeper::{Clock, Due, Watch, torn_down};
use crate::launch::steps::{Job, SETUP_FAILED, tell};
use crate::launch::{Ended, Exit, TimeLimit};

/// What is passed on when somebody sends it to the keeper.
const PASSED_ON: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// Keeps the program; gives the exit code, or ends by the signal that ended the program.
pub(super) fn run(job: Job, init: Pid, listeners: &[TcpListener], kept: Kept, null: &File) -> u8 {
    let Job { confinement, control, status, .. } = job;
    let keeper = match Keeper::take(init, control, kept, null) {
        Ok(keeper) => keeper,
        // The child dies with us.
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(0);
            return tell(
                &status,
                crate::launch::LayerFailure::new(crate::launch::Layer::Pidns, "keep", errno),
            );
        }
    };
    if handover::send(keeper.control.as_fd(), keeper.init.as_fd(), listeners).is_err() {
        return SETUP_FAILED;
    }
    // Only the program's side may hold the status pipe from now on: its end means that the program runs.
    drop(status);
    keeper.keep(confinement.time)
}

/// What the keeper keeps besides the first process.
pub(super) struct Kept {
    pub links: Outer,
    /// The scratch, where it has to be watched.
    pub watch: Option<Watch>,
}

struct Keeper {
    pid: Pid,
    init: OwnedFd,
    control: File,
    links: Outer,
    signals: SignalFd,
    watch: Option<Watch>,
    scratch_full: bool,
}

impl Keeper {
    fn take(pid: Pid, control: File, kept: Kept, null: &File) -> io::Result<Self> {
        let number = rustix::process::Pid::from_raw(pid.as_raw()).ok_or(io::ErrorKind::NotFound)?;
        let init = pidfd_open(number, PidfdFlags::empty())?;
        let mut all = SigSet::empty();
        PASSED_ON.into_iter().for_each(|signal| all.add(signal));
        all.thread_block()?;
        let signals = SignalFd::with_flags(&all, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        stand_aside(null)?;
        let Kept { links, watch } = kept;
        // It needs no privilege in the namespaces that it has made.
        let given_up = match &watch {
            None => capabilities::give_up(),
            // A program could hide what it writes behind a directory that nobody may list.
            Some(_) => capabilities::give_up_all_but_looking(),
        };
        given_up.map_err(|failure| io::Error::from_raw_os_error(failure.errno))?;
        Ok(Self { pid, init, control, links, signals, watch, scratch_full: false })
    }

    fn keep(mut self, limit: Option<TimeLimit>) -> ! {
        let ended = self.watch(Clock::start(limit)).unwrap_or_else(|_| torn_down());
        // Whatever is still inside is gone when this returns.
        self.kill();
        let number = rustix::process::Pid::from_raw(self.pid.as_raw());
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitpid(number, WaitOptions::empty()) {}
        let _ = self.control.write_all(&serde_json::to_vec(&ended).unwrap_or_default());
        // The end of the socket is the end of what is told.
        drop(self.control);
        // Whoever launched waits for this process: nothing is tidied up that its end tidies up.
        raw::leave(end_as(ended.how))
    }

    fn kill(&self) {
        // One that has ended already needs no signal.
        let _ = pidfd_send_signal(&self.init, rustix::process::Signal::KILL);
    }

    fn watch(&mut self, mut clock: Clock) -> io::Result<Ended> {
        loop {
            let mut fds = [self.links.result.as_fd(), self.control.as_fd(), self.signals.as_fd()]
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            match poll(&mut fds, self.patience(&clock)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let [result, control, signals] = fds.map(|fd| fd.any().unwrap_or(true));
            if result {
                return self.result(&clock);
            }
            if control {
                self.ordered()?;
            }
            if signals {
                while let Ok(Some(signal)) = self.signals.read_signal() {
                    self.pass_on(&[u8::try_from(signal.ssi_signo).unwrap_or_default()]);
                }
            }
            match clock.tick() {
                Due::Nothing => {}
                Due::Request => self.pass_on(&[Signal::SIGTERM as u8]),
                Due::Kill => self.kill(),
            }
            if self.watch.as_mut().is_some_and(Watch::is_over) {
                self.scratch_full = true;
                self.watch = None;
                self.kill();
            }
        }
    }

    /// How long nothing will be due.
    fn patience(&self, clock: &Clock) -> PollTimeout {
        let next = clock.next().into_iter().chain(self.watch.as_ref().map(Watch::next)).min();
        next.map_or(PollTimeout::NONE, |at| {
            // Rounded up: a poll that returns too early would come back at once, again and again.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        })
    }

    /// What the first process says; nothing when it was killed.
    fn result(&mut self, clock: &Clock) -> io::Result<Ended> {
        let mut text = Vec::new();
        (&mut self.links.result).take(4096).read_to_end(&mut text)?;
        let ended: Ended = serde_json::from_slice(&text).unwrap_or_else(|_| torn_down());
        Ok(Ended { timed_out: clock.timed_out(), scratch_full: self.scratch_full, ..ended })
    }

    /// Signals that whoever launched asks for. When it has let go, or is gone, everything inside ends.
    fn ordered(&mut self) -> io::Result<()> {
        let mut numbers = [0; 16];
        match self.control.read(&mut numbers) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.pass_on(numbers.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn pass_on(&mut self, numbers: &[u8]) {
        // A first process that has just ended needs no order; the result says so next.
        let _ = self.links.orders.write_all(numbers);
    }
}

/// Ends this process the way the program ended.
fn end_as(how: Exit) -> u8 {
    let signal = match how {
        Exit::Code(code) => return u8::try_from(code).unwrap_or(u8::MAX),
        Exit::Signal(signal) => signal,
        Exit::TornDown => Signal::SIGKILL as i32,
    };
    raw::die_by(signal);
    // Not reached unless the signal is one that does not end a process.
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
