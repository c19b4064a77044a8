//! Work in the order of the paths, and its results in the same order.
//!
//! Every piece of work stands for an interval of the order, and no two overlap: a directory is replaced by the pieces
//! it consists of. What lies before the first piece that is pending or being worked on is final.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::directory::Pending;
use super::tally::{Reason, Tally};
use super::{Cut, Position, Walked};

/// A finished run of entries of one directory, with no subdirectory between them.
#[derive(Debug)]
pub(super) struct Finished<T> {
    /// Where it begins in the order.
    pub start: Position,
    pub items: Vec<(Position, T)>,
    pub events: Events,
    /// Set when it could not be finished: the path that was being visited.
    pub stopped: Option<Arc<str>>,
}

/// What happened to the entries of a run.
#[derive(Debug)]
pub(super) enum Events {
    /// A run without items: an answer never ends inside one.
    Summed(Tally),
    /// Path by path, in order; `None` is a visit.
    Each(Vec<(Arc<str>, Option<Reason>)>),
}

impl Events {
    fn is_empty(&self) -> bool {
        match self {
            Self::Summed(tally) => *tally == Tally::default(),
            Self::Each(events) => events.is_empty(),
        }
    }
}

/// What happened to all entries, in order.
#[derive(Debug, Default)]
pub(super) struct Counted(Vec<(Position, Events)>);

impl Counted {
    pub(super) fn up_to(&self, position: Option<&Position>) -> Tally {
        let mut sum = Tally::default();
        for (_, events) in self.0.iter().filter(|(start, _)| position.is_none_or(|p| start <= p)) {
            match events {
                Events::Summed(tally) => sum.add(tally),
                Events::Each(events) => {
                    let counted = events.iter().filter(|(path, _)| position.is_none_or(|p| *path <= p.path));
                    counted.for_each(|(_, event)| sum.count(*event));
                }
            }
        }
        sum
    }

    fn add(&mut self, start: Position, events: Events) {
        match (self.0.last_mut(), events) {
            (Some((_, Events::Summed(sum))), Events::Summed(more)) => sum.add(&more),
            (_, events) => self.0.push((start, events)),
        }
    }
}

/// The queue that the workers share.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// How many items are wanted.
    wanted: usize,
}

struct State<T> {
    pending: BTreeMap<Position, Pending>,
    /// Where the pieces begin that are being worked on.
    running: Vec<Position>,
    /// Finished, but not everything before it.
    early: BTreeMap<Position, Finished<T>>,
    /// How many items those hold.
    early_items: usize,
    items: Vec<(Position, T)>,
    counted: Counted,
    /// The path that was being visited when the first unfinished run was stopped.
    stopped: Option<Arc<str>>,
    /// 0 if that path is still to be visited, `u64::MAX` if it is passed by.
    stopped_line: u64,
    cut: Option<Cut>,
}

/// A piece of work that a worker has taken.
pub(super) struct Taken {
    pub start: Position,
    pub work: Pending,
}

impl<T> Queue<T> {
    pub(super) fn new(top: Pending, wanted: usize) -> Self {
        let state = State {
            pending: BTreeMap::from([(top.start(), top)]),
            running: Vec::new(),
            early: BTreeMap::new(),
            early_items: 0,
            items: Vec::new(),
            counted: Counted::default(),
            stopped: None,
            stopped_line: 0,
            cut: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), wanted }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first piece that is left; `None` when there is nothing more to do.
    pub(super) fn take(&self) -> Option<Taken> {
        let mut state = self.lock();
        loop {
            if state.cut.is_some() {
                return None;
            }
            if let Some((start, work)) = state.pending.pop_first() {
                state.running.push(start.clone());
                return Some(Taken { start, work });
            }
            if state.running.is_empty() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Replaces a piece by what it consists of: runs that are finished, the piece that the same worker goes on with,
    /// and the rest.
    pub(super) fn split(
        &self,
        was: &Position,
        finished: Vec<Finished<T>>,
        next: Option<&Position>,
        rest: Vec<Pending>,
    ) {
        let mut state = self.lock();
        let news = !rest.is_empty();
        for run in finished {
            state.early_items += run.items.len();
            state.early.insert(run.start.clone(), run);
        }
        for piece in rest {
            state.pending.insert(piece.start(), piece);
        }
        state.leave(was);
        state.running.extend(next.cloned());
        state.settle();
        state.end_when_there_is_enough(self.wanted);
        let over = state.cut.is_some() || (state.running.is_empty() && state.pending.is_empty());
        drop(state);
        if news || over {
            self.changed.notify_all();
        }
    }

    /// Ends everything; the piece stays to be done.
    pub(super) fn give_back(&self, piece: Taken, cut: Cut) {
        let mut state = self.lock();
        state.leave(&piece.start);
        state.pending.insert(piece.start, piece.work);
        state.cut.get_or_insert(cut);
        drop(state);
        self.changed.notify_all();
    }

    /// Ends everything because a run was stopped in the middle.
    pub(super) fn cut(&self, cut: Cut) {
        self.lock().cut.get_or_insert(cut);
        self.changed.notify_all();
    }

    /// What was found, once every worker has ended.
    pub(super) fn finish(self) -> Walked<T> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.walked(self.wanted)
    }
}

impl<T> State<T> {
    fn leave(&mut self, was: &Position) {
        if let Some(index) = self.running.iter().position(|running| running == was) {
            self.running.swap_remove(index);
        }
    }

    /// Moves finished runs to the results as far as nothing before them is open.
    fn settle(&mut self) {
        while self.stopped.is_none() {
            let Some(first) = self.early.first_entry() else { return };
            let open_before = self.pending.first_key_value().is_some_and(|(start, _)| start < first.key())
                || self.running.iter().any(|start| start < first.key());
            if open_before {
                return;
            }
            let run = first.remove();
            self.early_items -= run.items.len();
            self.items.extend(run.items);
            if run.stopped.is_none() || !run.events.is_empty() {
                self.counted.add(run.start, run.events);
            }
            self.stopped = run.stopped;
        }
    }

    /// Drops pending work that lies behind enough items, and ends everything if all of those are final.
    fn end_when_there_is_enough(&mut self, wanted: usize) {
        if self.items.len() > wanted {
            self.cut.get_or_insert(Cut::Items);
            return;
        }
        if self.items.len() + self.early_items <= wanted {
            return;
        }
        let mut have = self.items.len();
        let enough = self.early.iter().find(|(_, run)| {
            have += run.items.len();
            have > wanted
        });
        if let Some(bound) = enough.map(|(start, _)| start.clone()) {
            drop(self.pending.split_off(&bound));
        }
    }

    /// Without this, a file that cannot be searched in the time there is would be begun again and again.
    fn pass_by_what_took_all_the_time(&mut self) {
        let nothing_done = self.items.is_empty() && self.counted.0.is_empty();
        let Some(path) = self.stopped.clone().filter(|_| nothing_done && self.cut == Some(Cut::Time)) else {
            return;
        };
        let start = Position { path: Arc::clone(&path), line: 0 };
        self.counted.add(start, Events::Each(vec![(path, Some(Reason::Time))]));
        self.stopped_line = u64::MAX;
    }

    fn walked(mut self, wanted: usize) -> Walked<T> {
        self.settle();
        self.pass_by_what_took_all_the_time();
        let open = self.pending.keys().next().cloned();
        let stopped = self.stopped.map(|path| Position { path, line: self.stopped_line });
        let stop = [open, stopped].into_iter().flatten().min();
        let mut items = self.items;
        let cut = if items.len() > wanted {
            items.truncate(wanted);
            items.last().map(|(position, _)| (Cut::Items, position.clone()))
        } else {
            stop.map(|stop| (self.cut.unwrap_or(Cut::Time), stop))
        };
        Walked { items, cut, tally: self.counted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Position {
        Position { path: path.into(), line: 0 }
    }

    fn run(path: &str, items: &[u64], stopped: Option<&str>) -> Finished<u64> {
        let position = |line| Position { path: path.into(), line };
        let mut tally = Tally::default();
        tally.count(None);
        Finished {
            start: at(path),
            items: items.iter().map(|line| (position(*line), *line)).collect(),
            events: Events::Summed(tally),
            stopped: stopped.map(Arc::from),
        }
    }

    fn queue(wanted: usize) -> Queue<u64> {
        let queue = Queue::new(Pending::placeholder(""), wanted);
        let top = queue.take().unwrap();
        let pieces = ["a", "b", "c"].into_iter().map(Pending::placeholder).collect();
        queue.split(&top.start, Vec::new(), None, pieces);
        queue
    }

    #[test]
    fn results_stand_in_the_order_of_paths_whoever_is_first() {
        let queue = queue(10);
        let (a, b) = (queue.take().unwrap(), queue.take().unwrap());
        assert_eq!((&*a.start.path, &*b.start.path), ("a", "b"));
        queue.split(&b.start, vec![run("b", &[2], None)], None, Vec::new());
        queue.split(&a.start, vec![run("a", &[1], None)], None, Vec::new());
        let c = queue.take().unwrap();
        queue.split(&c.start, vec![run("c", &[3], None)], None, Vec::new());
        assert!(queue.take().is_none());
        let walked = queue.finish();
        assert_eq!(walked.items.iter().map(|(_, item)| *item).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(walked.cut, None);
        assert_eq!(walked.tally_up_to(None).visited(), 3);
    }

    #[test]
    fn what_was_done_ahead_of_an_open_piece_does_not_count() {
        let queue = queue(10);
        let (a, b) = (queue.take().unwrap(), queue.take().unwrap());
        queue.split(&b.start, vec![run("b", &[2], None)], None, Vec::new());
        queue.give_back(a, Cut::Time);
        assert!(queue.take().is_none());
        let walked = queue.finish();
        assert!(walked.items.is_empty());
        assert_eq!(walked.cut, Some((Cut::Time, at("a"))));
        assert_eq!(walked.tally_up_to(None).visited(), 0);
    }

    #[test]
    fn enough_items_end_the_walk_behind_the_last_one_that_is_wanted() {
        let queue = queue(2);
        let (a, b) = (queue.take().unwrap(), queue.take().unwrap());
        queue.split(&b.start, vec![run("b", &[1, 2, 3], None)], None, Vec::new());
        assert!(queue.lock().pending.is_empty(), "c cannot matter any more");
        queue.split(&a.start, vec![run("a", &[5], None)], None, Vec::new());
        assert!(queue.take().is_none());
        let walked = queue.finish();
        assert_eq!(walked.items.len(), 2);
        assert_eq!(walked.cut, Some((Cut::Items, Position { path: "b".into(), line: 1 })));
    }

    #[test]
    fn a_file_that_alone_took_all_the_time_is_passed_by() {
        let queue = queue(10);
        let a = queue.take().unwrap();
        let events = Events::Summed(Tally::default());
        let run = Finished { start: at("a"), items: Vec::new(), events, stopped: Some("a".into()) };
        queue.cut(Cut::Time);
        queue.split(&a.start, vec![run], None, Vec::new());
        let walked = queue.finish();
        assert_eq!(walked.cut, Some((Cut::Time, Position { path: "a".into(), line: u64::MAX })));
        assert_eq!(walked.tally_up_to(None).skipped(), std::collections::BTreeMap::from([("time", 1)]));
    }

    #[test]
    fn a_run_that_stopped_in_the_middle_hides_everything_behind_it() {
        let queue = queue(10);
        let (a, b) = (queue.take().unwrap(), queue.take().unwrap());
        queue.split(&b.start, vec![run("b", &[2], None)], None, Vec::new());
        queue.cut(Cut::Time);
        queue.split(&a.start, vec![run("a", &[1], Some("a7"))], None, Vec::new());
        let walked = queue.finish();
        assert_eq!(walked.items.len(), 1);
        assert_eq!(walked.cut, Some((Cut::Time, at("a7"))));
    }
}
