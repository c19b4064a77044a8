//! No session is stuck: from every state, when nothing fails any more and everybody does their part, the session ends up
//! where its caller can go on, or is told why not. The way is walked, with the same moves that lead everywhere else.

use executor_svc::session::{CallState, Refusal, Run, State, SubagentState};

use super::Gateway;
use super::ids;
use super::moves::{Ask, How, Shape, count};
use super::world::{ActionState, Asking, Phase, Process, Scope, World};

/// More steps than any way has.
const MANY: usize = 64;

/// What ChatGPT does while a subagent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// It waits, and the provider answers.
    Waits,
    /// It ends the subagent, whose provider never answers.
    EndsIt,
}

pub fn goes_on(gateway: &Gateway, world: &World) -> bool {
    let ends_it = || arrives(gateway, world.clone(), Patience::EndsIt);
    arrives(gateway, world.clone(), Patience::Waits) && (world.session.subagent.is_none() || ends_it())
}

fn arrives(gateway: &Gateway, mut world: World, patience: Patience) -> bool {
    for _ in 0..MANY {
        if !settles(gateway, &mut world, patience) {
            return false;
        }
        match step(gateway, &mut world, patience) {
            Walk::Arrived => return true,
            Walk::Stuck => return false,
            Walk::OnTheWay => {}
        }
    }
    false
}

enum Walk {
    Arrived,
    OnTheWay,
    Stuck,
}

fn walk(went: bool) -> Walk {
    if went { Walk::OnTheWay } else { Walk::Stuck }
}

/// Everything that goes by itself has gone.
fn settles(gateway: &Gateway, world: &mut World, patience: Patience) -> bool {
    (0..MANY).any(|_| !goes_by_itself(gateway, world, patience))
}

fn goes_by_itself(gateway: &Gateway, world: &mut World, patience: Patience) -> bool {
    match world.executor.phase {
        Phase::Down => Gateway::start(world),
        Phase::Starting => {
            match world.ledger.actions.iter().position(|row| row.state == ActionState::Prepared) {
                Some(action) => gateway.reconcile(world, count(action)),
                None if world.session.undoing.is_some() => drop(gateway.finish_resolve(world)),
                None => gateway.adopt(world),
            }
        }
        Phase::Up => return rooms_work(gateway, world) || broker_works(gateway, world, patience),
    }
    true
}

fn rooms_work(gateway: &Gateway, world: &mut World) -> bool {
    let executor = &world.executor;
    let launch = executor.launches.keys().next().copied();
    let end = executor.ends.first().copied();
    let flight = executor.flights.keys().next().copied();
    let leaving = world.ledger.runs.iter().position(|row| {
        // One without a launch gets no token any more.
        row.process == Process::Parting || (row.process == Process::Spawned && launch.is_none())
    });
    let gone = |run: &&u8| world.ledger.runs[usize::from(**run)].process == Process::Gone;
    let noticed = world.executor.held.keys().find(gone).copied();
    if let Some(run) = launch {
        gateway.step_launch(world, run);
    } else if let Some(run) = end {
        gateway.carry_out_end(world, run);
    } else if let Some(action) = flight {
        gateway.step_flight(world, action, true);
    } else if let Some(run) = leaving {
        world.ledger.runs[run].process = Process::Gone;
    } else if let Some(run) = noticed {
        gateway.notice_gone(world, run);
    } else if world.session.undoing.is_some() {
        let _ = gateway.finish_resolve(world);
    } else {
        return false;
    }
    true
}

fn broker_works(gateway: &Gateway, world: &mut World, patience: Patience) -> bool {
    let answers = |asking: &Asking| *asking == Asking::Ordered || patience == Patience::Waits;
    let next = world.executor.asks.iter().find(|(_, asking)| answers(asking)).map(|(turn, _)| *turn);
    if let Some(turn) = next {
        gateway.step_ask(world, turn, Some(Shape::Text));
    }
    next.is_some()
}

/// A caller that knows the recovery token takes the session over; then everybody does their part.
fn step(gateway: &Gateway, world: &mut World, patience: Patience) -> Walk {
    let recovered = gateway.recover(world, fresh(world, Scope::Recover), true);
    let lease = world.lease();
    match world.session.state.clone() {
        State::RecoveryRequired(action) => {
            let told = recovered == Err(Refusal::RecoveryBlocked(action.clone()));
            walk(told && gateway.resolve(world, ids::number(action.as_str())).is_ok())
        }
        State::Stopping | State::LeaseExpired => Walk::Stuck,
        _ if recovered.is_err() => Walk::Stuck,
        State::Stopped(_) => match gateway.look(world, lease) {
            Ok(_) => Walk::Arrived,
            Err(_) => Walk::Stuck,
        },
        State::Idle | State::Failed(_) => {
            match gateway.go_on(world, lease, fresh(world, Scope::Continue), 0) {
                Ok(_) if !world.executor.launches.is_empty() => Walk::Arrived,
                _ => Walk::Stuck,
            }
        }
        State::Waiting(..) if world.session.subagent.is_some() && patience == Patience::Waits => {
            subagent_works(gateway, world)
        }
        State::Waiting(_, turn) => {
            let (id, turn) = (fresh(world, Scope::Reply), ids::number(turn.id.as_str()));
            let shape = if world.session.subagent.is_some() { Shape::Stop } else { Shape::Text };
            walk(gateway.reply(world, lease, id, turn, shape).is_ok())
        }
        State::Starting(_) | State::Running(_) => runner_works(gateway, world),
    }
}

/// The shim and Claude Code do their part, if they are there.
fn runner_works(gateway: &Gateway, world: &mut World) -> Walk {
    let (State::Starting(current) | State::Running(current)) = world.session.state.clone() else {
        return Walk::Stuck;
    };
    let starting = matches!(world.session.state, State::Starting(_));
    claude_works(gateway, world, &current, starting)
}

/// The subagent's do theirs.
fn subagent_works(gateway: &Gateway, world: &mut World) -> Walk {
    match world.session.subagent.clone().map(|subagent| (subagent.state, subagent.run)) {
        Some((SubagentState::Starting, run)) => claude_works(gateway, world, &run, true),
        Some((SubagentState::Working, run)) => claude_works(gateway, world, &run, false),
        _ => Walk::Stuck,
    }
}

fn claude_works(gateway: &Gateway, world: &mut World, current: &Run, starting: bool) -> Walk {
    let run = ids::number(current.id.as_str());
    if world.ledger.runs[usize::from(run)].process != Process::Alive {
        return Walk::Stuck;
    }
    let open = current.calls.iter().find(|call| call.state != CallState::Settled);
    let told = match (starting, open, &current.answered) {
        (true, ..) => gateway.open_turn(world, run, Ask::First, false).is_some_and(|told| told.is_ok()),
        (_, Some(call), _) => gateway.invoke(world, run, ids::number(call.id.as_str())).is_some(),
        (_, None, Some(_)) if current.calls.is_empty() => {
            gateway.end_run(world, run, How::Finished).is_some_and(|told| told.is_ok())
        }
        (_, None, Some(turn)) => {
            let turn = ids::number(turn.as_str());
            gateway.open_turn(world, run, Ask::ResultsOf(turn), false).is_some_and(|told| told.is_ok())
        }
        (_, None, None) => false,
    };
    walk(told)
}

fn fresh(world: &World, scope: Scope) -> u8 {
    count(world.ledger.once.keys().filter(|(known, _)| *known == scope).count())
}
