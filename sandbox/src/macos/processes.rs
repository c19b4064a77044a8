//! The processes of this machine.

use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::raw;
use super::tracker::Processes;

/// This machine.
#[derive(Debug)]
pub(super) struct Machine;

impl Processes for Machine {
    fn children(&mut self, pid: i32) -> Vec<i32> {
        raw::children(pid)
    }

    fn members(&mut self, group: i32) -> Vec<i32> {
        raw::members(group)
    }

    fn started(&mut self, pid: i32) -> Option<u64> {
        crate::process::started(u32::try_from(pid).ok()?)
    }

    fn signal(&mut self, pid: i32, signal: Signal) {
        // Never a group and never everybody. One that has just ended needs no signal.
        if pid > 1 {
            let _ = nix::sys::signal::kill(Pid::from_raw(pid), signal);
        }
    }

    fn wait(&mut self, moment: Duration) {
        std::thread::sleep(moment);
    }
}
