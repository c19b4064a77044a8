//! What can happen, and what of it can happen now.
//!
//! The network needs no state of its own. A message that is lost is one that was not sent; one that is doubled, late or
//! out of order is one that is sent then. So callers and shims may say at any moment anything that they could ever have
//! said: with ids that were used, to turns that are over, under leases that are gone, from processes that are dead.

use super::beside;
use super::world::{Phase, Process, Tool, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    Reply {
        lease: u8,
        id: u8,
        turn: u8,
        shape: Shape,
    },
    Continue {
        lease: u8,
        key: u8,
        content: u8,
    },
    Recover {
        key: u8,
        right: bool,
    },
    Stop {
        lease: Option<u8>,
        key: u8,
        content: u8,
    },
    Look {
        lease: u8,
    },
    Attach(u8),
    OpenTurn {
        run: u8,
        ask: Ask,
        stale: bool,
    },
    Invoke {
        run: u8,
        action: u8,
    },
    EndRun {
        run: u8,
        how: How,
    },
    ProcessDies(u8),
    StepLaunch(u8),
    CarryOutEnd(u8),
    NoticeGone(u8),
    StepFlight {
        action: u8,
        works: bool,
    },
    /// The broker: asks, and then has an answer of this shape, or none.
    StepAsk {
        turn: u8,
        answer: Option<Shape>,
    },
    /// The subagent's time is over.
    TimeOut,
    CheckLease,
    Interrupt,
    Resolve(u8),
    FinishResolve,
    Crash,
    Start,
    Reconcile(u8),
    Adopt,
    TimePasses,
    ForeignWrite(u8),
}

/// What a reply consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    Text,
    Read,
    Write,
    ReadAndWrite,
    Command,
    Start,
    StartTwice,
    StartAndRead,
    Get,
    Stop,
}

impl Shape {
    pub const ALL: [Self; 10] = [
        Self::Text,
        Self::Read,
        Self::Write,
        Self::ReadAndWrite,
        Self::Command,
        Self::Start,
        Self::StartTwice,
        Self::StartAndRead,
        Self::Get,
        Self::Stop,
    ];

    pub const fn calls(self) -> &'static [Tool] {
        match self {
            Self::Text => &[],
            Self::Read => &[Tool::Read],
            Self::Write => &[Tool::Write],
            Self::ReadAndWrite => &[Tool::Read, Tool::Write],
            Self::Command => &[Tool::Command],
            Self::Start => &[Tool::Start],
            Self::StartTwice => &[Tool::Start, Tool::Start],
            Self::StartAndRead => &[Tool::Start, Tool::Read],
            Self::Get => &[Tool::Get],
            Self::Stop => &[Tool::Stop],
        }
    }
}

/// Which turn Claude Code asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    First,
    /// With the results of the calls that answered this turn.
    ResultsOf(u8),
    /// Nothing that was agreed.
    Nonsense,
}

/// How a shim says that its run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    Finished,
    Erred,
    Failed,
}

/// How much may happen.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub runs: u8,
    pub turns: u8,
    pub actions: u8,
    pub leases: u8,
    pub crashes: u8,
    pub foreign: bool,
    pub shapes: &'static [Shape],
    /// Where there may be subagents, the first run waits from the beginning, and the rest says less.
    pub subagents: Option<Subagents>,
}

/// How much subagents may do.
#[derive(Debug, Clone, Copy)]
pub struct Subagents {
    pub starts: u8,
    /// Of each.
    pub turns: u8,
    /// Of all.
    pub actions: u8,
    /// What the provider may answer.
    pub answers: &'static [Shape],
}

pub fn count(length: usize) -> u8 {
    u8::try_from(length).expect("a small model")
}

/// What can happen now.
pub fn possible(world: &World, bounds: &Bounds, moves: &mut Vec<Move>) {
    match world.executor.phase {
        Phase::Down => moves.push(Move::Start),
        Phase::Starting => starting(world, moves),
        Phase::Up if let Some(may) = &bounds.subagents => beside::possible(world, bounds, may, moves),
        Phase::Up => {
            callers(world, bounds, moves);
            shims(world, bounds, moves);
            rooms(world, moves);
            moves.push(Move::CheckLease);
            moves.extend(world.run().map(|_| Move::Interrupt));
        }
    }
    if world.executor.phase != Phase::Down && world.crashes_left > 0 {
        moves.push(Move::Crash);
    }
    for (run, row) in (0..).zip(&world.ledger.runs) {
        if matches!(row.process, Process::Spawned | Process::Alive | Process::Parting) {
            moves.push(Move::ProcessDies(run));
        }
    }
    if !world.session.lease.expired(super::world::NOW) && (bounds.subagents.is_none() || world.is_up()) {
        moves.push(Move::TimePasses);
    }
    if world.foreign_left && !world.is_up() {
        let prepared = super::world::ActionState::Prepared;
        let files = (0..)
            .zip(&world.ledger.actions)
            .filter(|(_, row)| row.tool == Tool::Write && row.state == prepared);
        moves.extend(files.map(|(action, _)| Move::ForeignWrite(action)));
    }
}

/// The current lease and the one before it stand for all that were ever given out.
fn leases(world: &World) -> impl Iterator<Item = u8> + Clone + use<> {
    let current = world.lease();
    [Some(current), current.checked_sub(1)].into_iter().flatten()
}

fn callers(world: &World, bounds: &Bounds, moves: &mut Vec<Move>) {
    let used = |scope| count(world.ledger.once.keys().filter(|(known, _)| *known == scope).count());
    use super::world::Scope;
    for lease in leases(world) {
        moves.push(Move::Look { lease });
        moves.push(Move::Stop { lease: Some(lease), key: used(Scope::Stop), content: 0 });
        for key in 0..used(Scope::Stop) {
            moves.extend([0, 1].map(|content| Move::Stop { lease: Some(lease), key, content }));
        }
        for key in 0..used(Scope::Continue) {
            moves.extend([0, 1].map(|content| Move::Continue { lease, key, content }));
        }
        if count(world.ledger.runs.len()) < bounds.runs {
            moves.push(Move::Continue { lease, key: used(Scope::Continue), content: 0 });
        }
        replies(world, bounds, lease, used(Scope::Reply), moves);
    }
    moves.push(Move::Stop { lease: None, key: used(Scope::Stop), content: 0 });
    for key in 0..used(Scope::Recover) {
        moves.push(Move::Recover { key, right: true });
    }
    if world.ledger.leases < bounds.leases {
        moves.extend([true, false].map(|right| Move::Recover { key: used(Scope::Recover), right }));
    }
}

fn replies(world: &World, bounds: &Bounds, lease: u8, fresh: u8, moves: &mut Vec<Move>) {
    for turn in 0..count(world.ledger.turns.len()) {
        for &shape in bounds.shapes {
            if world.ledger.actions.len() + shape.calls().len() > usize::from(bounds.actions) {
                continue;
            }
            moves.extend((0..=fresh).map(|id| Move::Reply { lease, id, turn, shape }));
        }
    }
}

fn shims(world: &World, bounds: &Bounds, moves: &mut Vec<Move>) {
    let room = count(world.ledger.turns.len()) < bounds.turns;
    for (run, row) in (0..).zip(&world.ledger.runs).filter(|(_, row)| row.token.is_some()) {
        moves.push(Move::Attach(run));
        let first = world.ledger.turns.iter().any(|turn| turn.run == run);
        let mut asks = vec![Ask::Nonsense];
        if first || room {
            asks.push(Ask::First);
        }
        for turn in 0..count(world.ledger.turns.len()) {
            let known = world.ledger.turns.iter().any(|row| row.results == world.calls_of(turn));
            if !world.calls_of(turn).is_empty() && (known || room) {
                asks.push(Ask::ResultsOf(turn));
            }
        }
        let stale = [false, true].into_iter().take(1 + usize::from(!world.executor.flights.is_empty()));
        moves.extend(
            asks.into_iter()
                .flat_map(|ask| stale.clone().map(move |stale| Move::OpenTurn { run, ask, stale })),
        );
        moves.extend((0..count(world.ledger.actions.len())).map(|action| Move::Invoke { run, action }));
        if matches!(row.process, Process::Alive | Process::Parting) {
            moves.extend([How::Finished, How::Erred, How::Failed].map(|how| Move::EndRun { run, how }));
        }
    }
}

/// What the executor's rooms, the reaper and the person at the machine do.
pub fn rooms(world: &World, moves: &mut Vec<Move>) {
    let executor = &world.executor;
    moves.extend(executor.launches.keys().map(|&run| Move::StepLaunch(run)));
    moves.extend(executor.ends.iter().map(|&run| Move::CarryOutEnd(run)));
    for &run in executor.held.keys() {
        if world.ledger.runs[usize::from(run)].process == Process::Gone {
            moves.push(Move::NoticeGone(run));
        }
    }
    for &action in executor.flights.keys() {
        moves.extend([true, false].map(|works| Move::StepFlight { action, works }));
    }
    if world.session.undoing.is_some() {
        moves.push(Move::FinishResolve);
    } else {
        moves.extend(world.session.uncertain.iter().map(|id| Move::Resolve(super::ids::number(id.as_str()))));
    }
}

/// A starting executor brings the prepared actions to an end, one commit each, and then takes over what lives.
fn starting(world: &World, moves: &mut Vec<Move>) {
    let prepared = super::world::ActionState::Prepared;
    let open = (0..).zip(&world.ledger.actions).filter(|(_, row)| row.state == prepared);
    let before = moves.len();
    moves.extend(open.map(|(action, _)| Move::Reconcile(action)));
    if world.session.undoing.is_some() {
        moves.push(Move::FinishResolve);
    }
    if moves.len() == before {
        moves.push(Move::Adopt);
    }
}
