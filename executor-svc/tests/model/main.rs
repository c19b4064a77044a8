//! The session protocol, checked exhaustively: every order in which callers, processes, crashes and the clock can come,
//! within bounds that are printed.
//!
//! What decides is the product's own machine (`session::apply`). Around it stand small models of what it is embedded in: the
//! ledger's other tables, the executor's memory (which a crash empties), the process table, and files. Callers and shims
//! say whatever they could ever have said, so that lost, doubled, late and reordered messages and a front that dies with
//! an answer are all among it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod beside;
mod callers;
mod commit;
mod facts;
mod faults;
mod ids;
mod moves;
mod progress;
mod rooms;
mod subagents;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use executor_svc::session::{Command, NewSession, Profile, RootBinding, SubagentPolicy, create};
use stateright::{Checker, HasDiscoveries, Model, Property};

use commit::{Asker, plain, record};
use faults::Fault;
use moves::{Ask, Bounds, Move, Shape, Subagents, possible};
use world::{Executor, File, LEASE_STEPS, Ledger, NOW, Phase, Process, STEP, World};

/// The model: how much may happen, and what is wrong with the gateway, if anything.
#[derive(Debug, Clone)]
struct Gateway {
    bounds: Bounds,
    fault: Option<Fault>,
}

impl Gateway {
    fn first(&self) -> World {
        let step = create(
            NewSession {
                id: ids::session(0),
                label: None,
                profile: Profile::WorktreeWrite,
                subagents: SubagentPolicy::DeepseekExplicit,
                root: RootBinding { path: "/".into(), device: 0, inode: 0 },
                isolation: None,
                source_directory: "/".into(),
                claude_session_id: String::new(),
                lease_id: ids::lease(0),
                lease_ttl: Duration::from_millis(STEP.unsigned_abs() * LEASE_STEPS),
                recovery_hash: String::new(),
                run_id: ids::run(0),
                prompt: String::new(),
                skills: Vec::new(),
            },
            NOW,
        );
        let mut world = World {
            session: Arc::new(plain(step.session)),
            ledger: Ledger { once: BTreeMap::new(), leases: 1, ..Ledger::default() },
            executor: Executor::in_phase(Phase::Up),
            crashes_left: self.bounds.crashes,
            foreign_left: self.bounds.foreign,
            broken: BTreeSet::new(),
        };
        step.effects.iter().for_each(|effect| record(&mut world, effect));
        if self.bounds.subagents.is_some() {
            let asks = Move::OpenTurn { run: 0, ask: Ask::First, stale: false };
            let way = [[Move::StepLaunch(0); 3].as_slice(), &[Move::Attach(0), asks]].concat();
            way.into_iter().for_each(|next| self.happen(&mut world, next));
        }
        world
    }

    /// Lets it happen. Where it is refused, the world stays as it is.
    fn happen(&self, world: &mut World, next: Move) {
        match next {
            Move::Reply { lease, id, turn, shape } => drop(self.reply(world, lease, id, turn, shape)),
            Move::Continue { lease, key, content } => drop(self.go_on(world, lease, key, content)),
            Move::Recover { key, right } => drop(self.recover(world, key, right)),
            Move::Stop { lease, key, content } => drop(self.stop(world, lease, key, content)),
            Move::Look { lease } => drop(self.look(world, lease)),
            Move::Attach(run) => drop(self.attach(world, run)),
            Move::OpenTurn { run, ask, stale } => drop(self.open_turn(world, run, ask, stale)),
            Move::Invoke { run, action } => drop(self.invoke(world, run, action)),
            Move::EndRun { run, how } => drop(self.end_run(world, run, how)),
            Move::ProcessDies(run) => world.ledger.runs[usize::from(run)].process = Process::Gone,
            Move::StepLaunch(run) => self.step_launch(world, run),
            Move::CarryOutEnd(run) => self.carry_out_end(world, run),
            Move::NoticeGone(run) => self.notice_gone(world, run),
            Move::StepFlight { action, works } => self.step_flight(world, action, works),
            Move::StepAsk { turn, answer } => self.step_ask(world, turn, answer),
            Move::TimeOut => self.time_out(world),
            Move::CheckLease => drop(self.submit(world, Asker::House, None, |_| Command::CheckLease)),
            Move::Interrupt => self.interrupt(world),
            Move::Resolve(action) => drop(self.resolve(world, action)),
            Move::FinishResolve => drop(self.finish_resolve(world)),
            Move::Crash => Self::crash(world),
            Move::Start => Self::start(world),
            Move::Reconcile(action) => self.reconcile(world, action),
            Move::Adopt => self.adopt(world),
            Move::TimePasses => {
                let lease = &mut Arc::make_mut(&mut world.session).lease;
                if self.bounds.subagents.is_none() {
                    lease.expires_at = lease.expires_at.moved(-STEP);
                } else {
                    // All that is left of it passes, and the reaper looks.
                    lease.expires_at = NOW;
                    let _ = self.submit(world, Asker::House, None, |_| Command::CheckLease);
                }
            }
            Move::ForeignWrite(action) => {
                world.ledger.actions[usize::from(action)].file = File::Foreign;
                world.foreign_left = false;
            }
        }
    }
}

impl Model for Gateway {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![self.first()]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        // What is broken is found; there is no need to look at what follows.
        if world.broken.is_empty() {
            possible(world, &self.bounds, moves);
        }
    }

    fn next_state(&self, world: &World, next: Move) -> Option<World> {
        let mut after = world.clone();
        self.happen(&mut after, next);
        (after != *world).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        facts::all()
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

fn check(name: &str, bounds: &Bounds) {
    let began = Instant::now();
    let model = Gateway { bounds: *bounds, fault: None };
    let checker =
        model.checker().threads(threads()).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    // Past the test harness, which keeps what passing tests print.
    let told = format!(
        "model {name}: {} states, {} ways between them, depth {}, {:.0?}: {bounds:?}\n",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed(),
    );
    std::io::stdout().write_all(told.as_bytes()).unwrap();
    if let Some((fact, path)) = checker.discoveries().into_iter().next() {
        panic!("{name}: does not hold: {fact}\n{:#?}", path.into_actions());
    }
    assert!(checker.is_done(), "{name}: everything within the bounds was looked at");
}

/// Within these bounds every fault below can be found.
const SMALL: Bounds = Bounds {
    runs: 2,
    turns: 2,
    actions: 1,
    leases: 2,
    crashes: 1,
    foreign: true,
    shapes: &[Shape::Text, Shape::Write],
    subagents: None,
};

/// The same for the faults that are about subagents.
const BESIDE: Bounds = Bounds {
    runs: 1,
    turns: 2,
    actions: 2,
    leases: 1,
    crashes: 1,
    foreign: false,
    shapes: &[
        Shape::Text,
        Shape::Write,
        Shape::Start,
        Shape::StartTwice,
        Shape::StartAndRead,
        Shape::Get,
        Shape::Stop,
    ],
    subagents: Some(Subagents { starts: 1, turns: 1, actions: 0, answers: &[Shape::Text] }),
};

/// What is looked at each time: several models, each deep where the others are shallow. `MODEL=deep` looks at more.
fn models() -> Vec<(&'static str, Bounds)> {
    let lives = Bounds { actions: 0, foreign: false, shapes: &[Shape::Text], ..SMALL };
    let writes = Bounds { runs: 1, shapes: &[Shape::Write], ..SMALL };
    let pairs = Bounds { leases: 1, actions: 2, foreign: false, shapes: &[Shape::ReadAndWrite], ..writes };
    let commands = Bounds { leases: 1, foreign: false, shapes: &[Shape::Command, Shape::Read], ..writes };
    if is_deep() {
        return vec![
            ("lives", Bounds { turns: 3, leases: 3, crashes: 2, ..lives }),
            ("writes", SMALL),
            ("pairs", Bounds { leases: 2, crashes: 2, ..pairs }),
        ];
    }
    vec![("lives", lives), ("writes", writes), ("pairs", pairs), ("commands", commands)]
}

/// The same where there are subagents.
fn models_with_subagents() -> Vec<(&'static str, Bounds)> {
    let delegated = Bounds {
        turns: 1,
        actions: 1,
        leases: 2,
        foreign: true,
        shapes: &[Shape::Start],
        subagents: Some(Subagents { starts: 1, turns: 2, actions: 1, answers: &[Shape::Write, Shape::Text] }),
        ..BESIDE
    };
    let twice = Some(Subagents { starts: 2, turns: 1, actions: 0, answers: &[Shape::Text] });
    let again = Bounds {
        turns: 3,
        actions: 3,
        crashes: 0,
        shapes: &[Shape::Start, Shape::Stop],
        subagents: twice,
        ..BESIDE
    };
    if is_deep() {
        return vec![
            ("beside", Bounds { leases: 2, ..BESIDE }),
            ("again", Bounds { crashes: 1, ..again }),
            ("delegated", Bounds { crashes: 2, ..delegated }),
        ];
    }
    vec![("again", again), ("beside", BESIDE), ("delegated", delegated)]
}

fn is_deep() -> bool {
    std::env::var("MODEL").is_ok_and(|which| which == "deep")
}

#[test]
fn every_fact_holds_in_every_state_that_can_be_reached() {
    for (name, bounds) in models() {
        check(name, &bounds);
    }
}

#[test]
fn every_fact_holds_beside_a_subagent_and_for_it() {
    for (name, bounds) in models_with_subagents() {
        check(name, &bounds);
    }
}

/// The faulty gateway breaks the fact, and the checker finds how.
fn finds(fault: Fault, fact: &'static str, bounds: &Bounds) {
    let model = Gateway { bounds: *bounds, fault: Some(fault) };
    let found = HasDiscoveries::AnyOf([fact].into());
    let checker = model.checker().threads(threads()).finish_when(found).spawn_bfs().join();
    let Some(path) = checker.discovery(fact) else {
        panic!("{fault:?}: not found in {} states: {fact}", checker.unique_state_count());
    };
    println!(
        "{fault:?}: {fact}: found after {} states: {:?}",
        checker.unique_state_count(),
        path.into_actions()
    );
}

#[test]
fn the_checker_finds_what_is_wrong_with_a_faulty_gateway() {
    let cases = [
        (Fault::ChecksNoLease, facts::OLD_LEASES),
        (Fault::ForgetsIds, facts::ONE_MEANING),
        (Fault::AnswersTwice, facts::ONE_REPLY),
        (Fault::PerformsAgain, facts::ONE_EFFECT),
        (Fault::PerformsFirst, facts::DURABLE_FIRST),
        (Fault::PerformsFirst, facts::ACCOUNTED),
        (Fault::GuessesAfterACrash, facts::ACCOUNTED),
        (Fault::ForgetsTheProcess, facts::NO_STRAYS),
        (Fault::ForgetsTheProcess, facts::SEEN_TO_END),
        (Fault::ForgetsOrders, facts::GOES_ON),
        (Fault::TakesOldLaunches, facts::OLD_LAUNCHES),
        (Fault::LeavesTurnsOpen, facts::PENDING),
        (Fault::SettlesAgain, facts::RECEIPTS_STAY),
    ];
    let cases = cases.map(|(fault, fact)| (fault, fact, SMALL));
    let beside = [
        (Fault::StartsAnother, facts::ONE_SUBAGENT),
        (Fault::ForgetsTheLock, facts::LOCKED),
        (Fault::ForgetsTheLock, facts::NO_END_BESIDE),
        (Fault::LooksAtOneCall, facts::STARTS_ALONE),
        (Fault::ReleasesFirst, facts::COMMITTED_FIRST),
        (Fault::AsksUncounted, facts::COUNTED_FIRST),
        (Fault::ForgetsItsProcess, facts::SUBAGENT_FIRST),
        (Fault::ForgetsItsProcess, facts::NO_STRAYS),
        (Fault::LaunchesTheDead, facts::OVER_FOR_GOOD),
        (Fault::TakesOldLaunches, facts::APART),
        (Fault::ForgetsTheSubagent, facts::GOES_ON),
    ];
    let cases: Vec<_> = cases.into_iter().chain(beside.map(|(fault, fact)| (fault, fact, BESIDE))).collect();
    let broken: BTreeSet<_> = cases.iter().map(|(_, fact, _)| *fact).collect();
    let facts: BTreeSet<_> = facts::all().iter().map(|fact| fact.name).collect();
    assert_eq!(broken, facts, "every fact can be broken");
    for (fault, fact, bounds) in cases {
        finds(fault, fact, &bounds);
    }
}
