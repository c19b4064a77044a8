//! Who ends everything when the keeper itself is killed: a process outside of the sandbox that waits for that.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, Signal};

use super::processes::Machine;
use super::raw;
use super::run_directory::{self, RunDirectory};
use super::tracker::Tracker;

/// The keeper's end: what it tells, and what its death tells.
#[derive(Debug)]
pub(super) struct Watcher(PipeWriter);

const RECORD: usize = 12;

impl Watcher {
    /// Starts it. Before the program, so that the program has no descriptor of it.
    pub(super) fn start(run: &RunDirectory) -> io::Result<Self> {
        let (theirs, ours) = io::pipe()?;
        match raw::fork()? {
            raw::Fork::Parent => Ok(Self(ours)),
            raw::Fork::Child => {
                drop(ours);
                let done = stand_apart(&theirs).and_then(|()| watch(theirs, run));
                raw::leave(u8::from(done.is_err()))
            }
        }
    }

    /// Tells it of a process.
    pub(super) fn tell(&mut self, pid: i32, started: u64) {
        let record = [&pid.to_ne_bytes()[..], &started.to_ne_bytes()].concat();
        // A watcher that was killed watches no more: the keeper still does.
        let _ = self.0.write_all(&record);
    }

    /// Lets it go: everything has ended.
    pub(super) fn release(mut self) {
        self.tell(0, 0);
    }
}

/// Nothing of the keeper's is held, and no signal meant for it counts.
fn stand_apart(theirs: &PipeReader) -> io::Result<()> {
    SigSet::all().thread_block()?;
    // One that leads a group already cannot leave it; the child of a fork never does.
    nix::unistd::setsid()?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    raw::close_all_but(theirs.as_fd())
}

fn watch(mut told: PipeReader, run: &RunDirectory) -> io::Result<()> {
    let mut tracker = Tracker::default();
    let mut record = [0; RECORD];
    let mut program = None;
    while told.read_exact(&mut record).is_ok() {
        let (pid, started) = record.split_at(4);
        let pid = i32::from_ne_bytes(pid.try_into().unwrap_or_default());
        if pid == 0 {
            return Ok(());
        }
        program.get_or_insert(pid);
        tracker.add(pid, u64::from_ne_bytes(started.try_into().unwrap_or_default()));
    }
    // The keeper is gone without a word. A group has the number of the process that leads it, or there is none of it.
    if let Some(program) = program {
        tracker.add_group(program);
    }
    tracker.end(&mut Machine);
    run_directory::remove(run.path());
    Ok(())
}

/// What is passed on when somebody sends it to the keeper.
pub(super) const PASSED_ON: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];
