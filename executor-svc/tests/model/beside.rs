//! What can happen where there may be subagents. Whoever deals with the session itself says less here than elsewhere: not
//! what is refused in the same words whatever a subagent does.

use executor_svc::session::{Attachment, State, Status};

use super::moves::{Ask, Bounds, How, Move, Shape, Subagents, count, rooms};
use super::world::{Asking, Process, RunRow, Scope, Tool, World};

pub fn possible(world: &World, bounds: &Bounds, may: &Subagents, moves: &mut Vec<Move>) {
    callers(world, bounds, moves);
    replies(world, bounds, may, moves);
    for (run, row) in (0..).zip(&world.ledger.runs).filter(|(_, row)| row.token.is_some()) {
        shim(world, bounds, may, (run, row), moves);
    }
    rooms(world, moves);
    for (&turn, &asking) in &world.executor.asks {
        moves.push(Move::StepAsk { turn, answer: None });
        if asking == Asking::Begun {
            let used = world.ledger.actions.iter().filter(|row| !is_own(world, row.run)).count();
            let fits = |shape: &&Shape| used + shape.calls().len() <= usize::from(may.actions);
            let answers = may.answers.iter().filter(fits);
            moves.extend(answers.map(|&shape| Move::StepAsk { turn, answer: Some(shape) }));
        }
    }
    if world.session.subagent.as_ref().is_some_and(|subagent| !subagent.is_ending()) {
        moves.push(Move::TimeOut);
    }
}

fn is_own(world: &World, run: u8) -> bool {
    world.ledger.runs[usize::from(run)].of.is_none()
}

fn used(world: &World, scope: Scope) -> u8 {
    count(world.ledger.once.keys().filter(|(known, _)| *known == scope).count())
}

fn callers(world: &World, bounds: &Bounds, moves: &mut Vec<Move>) {
    let lease = world.lease();
    for lease in [Some(lease), None] {
        moves.push(Move::Stop { lease, key: used(world, Scope::Stop), content: 0 });
    }
    for key in 0..used(world, Scope::Stop) {
        moves.extend([0, 1].map(|content| Move::Stop { lease: Some(lease), key, content }));
    }
    for key in 0..used(world, Scope::Continue) {
        moves.extend([0, 1].map(|content| Move::Continue { lease, key, content }));
    }
    if world.ledger.runs.iter().filter(|row| row.of.is_none()).count() < usize::from(bounds.runs) {
        moves.push(Move::Continue { lease, key: used(world, Scope::Continue), content: 0 });
    }
    if world.session.state.status() == Status::LeaseExpired && world.ledger.leases < bounds.leases {
        moves.push(Move::Recover { key: used(world, Scope::Recover), right: true });
    }
}

/// Anything to the latest turn, while it is pending; to the ones before a text; and what was said before again, and with
/// another content.
fn replies(world: &World, bounds: &Bounds, may: &Subagents, moves: &mut Vec<Move>) {
    let (lease, fresh) = (world.lease(), used(world, Scope::Reply));
    let own = (0..).zip(&world.ledger.turns).filter(|(_, row)| is_own(world, row.run));
    let turns: Vec<u8> = own.map(|(turn, _)| turn).collect();
    moves.extend(turns.iter().map(|&turn| Move::Reply { lease, id: fresh, turn, shape: Shape::Text }));
    for ((scope, id), meaning) in &world.ledger.once {
        if *scope == Scope::Reply {
            let (turn, shape) = (meaning.content / 16, Shape::ALL[usize::from(meaning.content % 16)]);
            let other = if shape == Shape::Text { Shape::Get } else { Shape::Text };
            moves.extend([shape, other].map(|shape| Move::Reply { lease, id: *id, turn, shape }));
        }
    }
    let Some(&turn) = turns.last() else { return };
    if matches!(world.session.state, State::Waiting(..)) {
        let fits = |shape: &&Shape| is_within(world, bounds, may, **shape);
        let shapes = bounds.shapes.iter().filter(fits);
        moves.extend(shapes.map(|&shape| Move::Reply { lease, id: fresh, turn, shape }));
    }
}

/// What the lock is for is tried beside every subagent, however little room there is; a write of the session's own is
/// looked at elsewhere.
fn is_within(world: &World, bounds: &Bounds, may: &Subagents, shape: Shape) -> bool {
    let starts = shape.calls().contains(&Tool::Start);
    if world.session.subagent.is_some() && !matches!(shape, Shape::Read | Shape::Get | Shape::Stop) {
        return true;
    }
    if shape == Shape::Write {
        return false;
    }
    let own = world.ledger.actions.iter().filter(|row| is_own(world, row.run));
    let started = own.clone().filter(|row| row.tool == Tool::Start).count();
    let room = own.count() + shape.calls().len() <= usize::from(bounds.actions);
    room && !(starts && started >= usize::from(may.starts))
}

fn shim(world: &World, bounds: &Bounds, may: &Subagents, (run, row): (u8, &RunRow), moves: &mut Vec<Move>) {
    let own = row.of.is_none();
    let opened = |turn_run: u8| if own { is_own(world, turn_run) } else { turn_run == run };
    let so_far = world.ledger.turns.iter().filter(|turn| opened(turn.run)).count();
    let room = so_far < usize::from(if own { bounds.turns } else { may.turns });
    let of_run = (0..).zip(&world.ledger.turns).filter(|(_, turn)| turn.run == run);
    let mut asks = Vec::new();
    // A shim says that it is there before it asks for the first time.
    let attached =
        own || world.session.subagent.iter().all(|subagent| subagent.run.attachment == Attachment::Attached);
    if (room && attached) || of_run.clone().count() > 0 {
        asks.push(Ask::First);
    }
    for (turn, _) in of_run {
        let known = world.ledger.turns.iter().any(|row| row.results == world.calls_of(turn));
        if !world.calls_of(turn).is_empty() && (known || room) {
            asks.push(Ask::ResultsOf(turn));
        }
    }
    let ends: &[How] = if own {
        &[How::Finished]
    } else {
        moves.push(Move::Attach(run));
        asks.push(Ask::Nonsense);
        &[How::Finished, How::Erred, How::Failed]
    };
    let stale = [false, true].into_iter().take(1 + usize::from(!world.executor.flights.is_empty()));
    moves.extend(
        asks.into_iter().flat_map(|ask| stale.clone().map(move |stale| Move::OpenTurn { run, ask, stale })),
    );
    moves.extend((0..count(world.ledger.actions.len())).map(|action| Move::Invoke { run, action }));
    if matches!(row.process, Process::Alive | Process::Parting) {
        moves.extend(ends.iter().map(|&how| Move::EndRun { run, how }));
    }
}
