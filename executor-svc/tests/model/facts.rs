//! What must hold in every state that can be reached.

use executor_svc::session::{State, Status};
use stateright::Property;

use super::Gateway;
use super::ids;
use super::progress;
use super::world::{ActionState, Fact, Phase, Process, Standing, Tool, World};

pub const ONE_EFFECT: &str = "an action has at most one effect";
pub const DURABLE_FIRST: &str = "nothing takes effect before reply and intent are durable";
pub const ONE_MEANING: &str = "the same id with the same content replays, with other content is refused";
pub const ONE_REPLY: &str = "a turn gets exactly one reply, while it is the pending one";
pub const ACCOUNTED: &str = "a write is not applied, applied with its receipt, or uncertain and blocking";
pub const OLD_LEASES: &str = "an old lease changes nothing";
pub const OLD_LAUNCHES: &str = "a process of another run or launch changes nothing";
pub const RECEIPTS_STAY: &str = "the first receipt of an action is the one that stays";
pub const PENDING: &str = "a turn is pending exactly while the session waits for its reply";
pub const NO_STRAYS: &str = "a process that lives serves the session's run, or is being ended";
pub const SEEN_TO_END: &str =
    "a session is stopped only when its processes are gone and its actions have receipts";
pub const GOES_ON: &str = "from everywhere the session can go on, or says why not";

type Holds = fn(&Gateway, &World) -> bool;

pub fn all() -> Vec<Property<Gateway>> {
    let facts: [(&'static str, Holds); 12] = [
        (ONE_EFFECT, |_, world| world.ledger.actions.iter().all(|row| row.effects <= 1)),
        (DURABLE_FIRST, |_, world| !world.broken.contains(&Fact::NothingBeforeItIsDurable)),
        (ONE_MEANING, |_, world| !world.broken.contains(&Fact::OneMeaningPerId)),
        (ONE_REPLY, |_, world| {
            !world.broken.contains(&Fact::OneReplyPerTurn)
                && world.ledger.turns.iter().all(|row| row.replies <= 1)
        }),
        (ACCOUNTED, |_, world| accounted(world)),
        (OLD_LEASES, |_, world| !world.broken.contains(&Fact::OldLeasesChangeNothing)),
        (OLD_LAUNCHES, |_, world| !world.broken.contains(&Fact::OldLaunchesChangeNothing)),
        (RECEIPTS_STAY, |_, world| !world.broken.contains(&Fact::ReceiptsStay)),
        (PENDING, |_, world| pending(world)),
        (NO_STRAYS, |_, world| no_strays(world)),
        (SEEN_TO_END, |_, world| seen_to_end(world)),
        (GOES_ON, progress::goes_on),
    ];
    facts.into_iter().map(|(name, holds)| Property::always(name, holds)).collect()
}

fn accounted(world: &World) -> bool {
    (0..).zip(&world.ledger.actions).all(|(number, row)| {
        let write = row.tool == Tool::Write;
        match row.state {
            ActionState::Authorised => row.effects == 0,
            // Somebody is at it, or a starting executor will look.
            ActionState::Prepared => {
                world.executor.phase != Phase::Up || world.executor.flights.contains_key(&number)
            }
            ActionState::Done(ok) => !write || ok == (row.effects == 1),
            ActionState::Uncertain => {
                let listed = world.session.uncertain.iter().any(|id| ids::number(id.as_str()) == number);
                let status = world.session.state.status();
                listed && matches!(status, Status::RecoveryRequired | Status::Stopping | Status::Stopped)
            }
            ActionState::Resolved => true,
        }
    })
}

fn pending(world: &World) -> bool {
    let pending = |turn: usize| world.ledger.turns[turn].standing == Standing::Pending;
    let known = match &world.session.state {
        State::Waiting(_, turn) => Some(usize::from(ids::number(turn.id.as_str()))),
        _ => None,
    };
    (0..world.ledger.turns.len()).all(|turn| pending(turn) == (known == Some(turn)))
}

fn no_strays(world: &World) -> bool {
    let serves = |run: u8| [world.run(), world.ending()].into_iter().flatten().any(|(known, _)| known == run);
    (0..).zip(&world.ledger.runs).all(|(run, row)| row.process != Process::Alive || serves(run))
}

fn seen_to_end(world: &World) -> bool {
    if world.session.state.status() != Status::Stopped {
        return true;
    }
    let settled =
        |state| matches!(state, ActionState::Done(_) | ActionState::Uncertain | ActionState::Resolved);
    world.ledger.runs.iter().all(|row| row.process != Process::Alive && !row.open)
        && world.ledger.actions.iter().all(|row| settled(row.state))
        && world.session.finishing.is_empty()
}
