//! Following every process that a program starts, where no process namespace can be had.
//!
//! Children are asked for whenever a known process forks, and again before the end. A number alone names nobody: each is
//! kept with its start time, and only signalled while that still fits. The end stops everything first, so that nothing
//! forks while the list is made, and is over when twice in a row nothing was found.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

/// The processes of the machine.
pub(super) trait Processes {
    /// The children of a process.
    fn children(&mut self, pid: i32) -> Vec<i32>;
    /// The processes of a group.
    fn members(&mut self, group: i32) -> Vec<i32>;
    /// When a process began, in any unit; nothing if there is none, or it has ended and only waits to be reaped.
    fn started(&mut self, pid: i32) -> Option<u64>;
    /// Sends a signal; what has just ended needs none.
    fn signal(&mut self, pid: i32, signal: Signal);
    /// Waits a moment.
    fn wait(&mut self, moment: Duration);
}

/// What is known of the program's processes.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    known: BTreeMap<i32, u64>,
    group: Option<i32>,
}

/// How long the end may take.
const PATIENCE: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(2);

impl Tracker {
    /// Follows this process, and its group if it leads one.
    pub(super) fn of(pid: i32, group: Option<i32>, processes: &mut impl Processes) -> Self {
        let mut this = Self { known: BTreeMap::new(), group };
        this.note(pid, processes);
        this
    }

    /// Follows one that somebody else has found. Gives whether it is new.
    pub(super) fn add(&mut self, pid: i32, started: u64) -> bool {
        self.known.insert(pid, started) != Some(started)
    }

    /// Follows what is in this group as well.
    #[cfg(target_os = "macos")]
    pub(super) fn add_group(&mut self, group: i32) {
        self.group = Some(group);
    }

    fn note(&mut self, pid: i32, processes: &mut impl Processes) -> Option<(i32, u64)> {
        let started = processes.started(pid)?;
        self.add(pid, started).then_some((pid, started))
    }

    /// Looks for new children of all that is known, and for theirs. Gives what is new.
    pub(super) fn look(&mut self, processes: &mut impl Processes) -> Vec<(i32, u64)> {
        let mut new = Vec::new();
        let mut waiting: Vec<i32> = self.alive(processes);
        if let Some(group) = self.group {
            for pid in processes.members(group) {
                new.extend(self.note(pid, processes));
            }
            waiting.extend(new.iter().map(|(pid, _)| *pid));
        }
        while let Some(pid) = waiting.pop() {
            for child in processes.children(pid) {
                if let Some(found) = self.note(child, processes) {
                    new.push(found);
                    waiting.push(found.0);
                }
            }
        }
        new
    }

    /// Those that still run. What has ended is forgotten: its number may be another's.
    fn alive(&mut self, processes: &mut impl Processes) -> Vec<i32> {
        self.known.retain(|pid, started| processes.started(*pid) == Some(*started));
        self.known.keys().copied().collect()
    }

    /// Ends everything. Gives how many are left when the patience is over: none, unless the kernel keeps one.
    pub(super) fn end(&mut self, processes: &mut impl Processes) -> usize {
        let until = Instant::now() + PATIENCE;
        let mut empty = 0;
        while empty < 2 {
            self.stop_all(processes, until);
            let alive = self.alive(processes);
            for pid in &alive {
                processes.signal(*pid, Signal::SIGKILL);
            }
            empty = if alive.is_empty() { empty + 1 } else { 0 };
            if !alive.is_empty() && Instant::now() >= until {
                return alive.len();
            }
            processes.wait(MOMENT);
        }
        0
    }

    /// Stops everything, and what it had started before it stopped, until nothing new turns up twice in a row: a fork that
    /// had begun still comes to its end. Only then may anything be killed: the children of what is gone are nobody's.
    fn stop_all(&mut self, processes: &mut impl Processes, until: Instant) {
        let mut quiet = 0;
        while quiet < 2 && Instant::now() < until {
            for pid in self.alive(processes) {
                processes.signal(pid, Signal::SIGSTOP);
            }
            quiet = if self.look(processes).is_empty() { quiet + 1 } else { 0 };
            processes.wait(MOMENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// A machine on which processes fork when they are looked at, leave their group, and reuse numbers.
    #[derive(Default)]
    struct Machine {
        /// Parent, group, start time.
        all: BTreeMap<i32, (i32, i32, u64)>,
        stopped: BTreeSet<i32>,
        /// How many more children each running one of these has in it.
        forking: BTreeMap<i32, u32>,
        next: i32,
        killed_strangers: usize,
        ours: BTreeSet<i32>,
    }

    impl Machine {
        fn start(&mut self, pid: i32, parent: i32, group: i32) {
            self.all.insert(pid, (parent, group, u64::from(pid.unsigned_abs()) + 1000));
            self.next = self.next.max(pid) + 1;
        }

        fn forks_by_itself(&mut self) {
            for (pid, left) in self.forking.clone() {
                if left > 0 && self.all.contains_key(&pid) && !self.stopped.contains(&pid) {
                    self.forking.insert(pid, left - 1);
                    let child = self.next;
                    // In a group of its own, and forking on.
                    self.start(child, pid, child);
                    self.ours.insert(child);
                    self.forking.insert(child, left - 1);
                }
            }
        }
    }

    impl Processes for Machine {
        fn children(&mut self, pid: i32) -> Vec<i32> {
            self.all.iter().filter(|(_, (parent, ..))| *parent == pid).map(|(pid, _)| *pid).collect()
        }

        fn members(&mut self, group: i32) -> Vec<i32> {
            self.all.iter().filter(|(_, (_, own, _))| *own == group).map(|(pid, _)| *pid).collect()
        }

        fn started(&mut self, pid: i32) -> Option<u64> {
            self.all.get(&pid).map(|(_, _, started)| *started)
        }

        fn signal(&mut self, pid: i32, signal: Signal) {
            self.forks_by_itself();
            match signal {
                Signal::SIGSTOP => drop(self.stopped.insert(pid)),
                _ => {
                    self.all.remove(&pid);
                    self.killed_strangers += usize::from(!self.ours.contains(&pid));
                    // Orphans go to the first process.
                    self.all.values_mut().filter(|(parent, ..)| *parent == pid).for_each(|found| found.0 = 1);
                }
            }
        }

        fn wait(&mut self, _: Duration) {
            self.forks_by_itself();
        }
    }

    fn machine() -> (Machine, Tracker) {
        let mut machine = Machine::default();
        machine.start(1, 0, 1);
        machine.start(50, 1, 50);
        machine.start(100, 1, 100);
        machine.ours.insert(100);
        let tracker = Tracker::of(100, Some(100), &mut machine);
        (machine, tracker)
    }

    #[test]
    fn grandchildren_in_other_groups_are_found_while_their_parents_live() {
        let (mut machine, mut tracker) = machine();
        machine.start(101, 100, 100);
        machine.start(102, 101, 102);
        assert_eq!(tracker.look(&mut machine), [(101, 1101), (102, 1102)]);
        assert_eq!(tracker.look(&mut machine), []);
        // The parent goes, the grandchild is an orphan: still known.
        machine.ours.extend([101, 102]);
        machine.signal(101, Signal::SIGKILL);
        assert_eq!(tracker.end(&mut machine), 0);
        assert_eq!(machine.all.keys().copied().collect::<Vec<_>>(), [1, 50]);
    }

    #[test]
    fn an_orphan_that_stayed_in_the_group_is_found_by_the_group() {
        let (mut machine, mut tracker) = machine();
        machine.start(101, 1, 100);
        machine.ours.insert(101);
        assert_eq!(tracker.end(&mut machine), 0);
        assert_eq!(machine.all.len(), 2);
    }

    #[test]
    fn what_forks_all_the_time_is_ended_and_nobody_else() {
        let (mut machine, mut tracker) = machine();
        machine.forking.insert(100, 6);
        assert_eq!(tracker.end(&mut machine), 0);
        assert_eq!(machine.all.keys().copied().collect::<Vec<_>>(), [1, 50]);
        assert_eq!(machine.killed_strangers, 0);
    }

    #[test]
    fn a_number_that_is_another_process_by_now_is_left_alone() {
        let (mut machine, mut tracker) = machine();
        machine.all.insert(100, (1, 7, 9999));
        assert_eq!(tracker.end(&mut machine), 0);
        assert!(machine.all.contains_key(&100));
    }

    #[test]
    fn what_cannot_be_ended_is_told() {
        struct Stuck;
        impl Processes for Stuck {
            fn children(&mut self, _: i32) -> Vec<i32> {
                Vec::new()
            }
            fn members(&mut self, _: i32) -> Vec<i32> {
                Vec::new()
            }
            fn started(&mut self, _: i32) -> Option<u64> {
                Some(1)
            }
            fn signal(&mut self, _: i32, _: Signal) {}
            fn wait(&mut self, moment: Duration) {
                std::thread::sleep(moment);
            }
        }
        assert_eq!(Tracker::of(5, None, &mut Stuck).end(&mut Stuck), 1);
    }
}
