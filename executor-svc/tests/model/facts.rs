//! What must hold in every state that can be reached.

use executor_svc::session::{State, Status, SubagentState};
use stateright::Property;

use super::Gateway;
use super::ids;
use super::progress;
use super::world::{ActionState, Fact, Phase, Process, RunRow, Standing, Tool, World};

pub const ONE_EFFECT: &str = "an action has at most one effect";
pub const DURABLE_FIRST: &str = "nothing takes effect before reply and intent are durable";
pub const ONE_MEANING: &str = "the same id with the same content replays, with other content is refused";
pub const ONE_REPLY: &str = "a turn gets exactly one reply, while it is the pending one";
pub const ACCOUNTED: &str = "a write is not applied, applied with its receipt, or uncertain and blocking";
pub const OLD_LEASES: &str = "an old lease changes nothing";
pub const OLD_LAUNCHES: &str = "a process of another run or launch changes nothing";
pub const RECEIPTS_STAY: &str = "the first receipt of an action is the one that stays";
pub const PENDING: &str = "a turn is pending exactly while the session, or its subagent, waits for its reply";
pub const NO_STRAYS: &str = "a process that lives serves the session's run, or is being ended";
pub const SEEN_TO_END: &str =
    "a session is stopped only when its processes are gone and its actions have receipts";
pub const GOES_ON: &str = "from everywhere the session can go on, or says why not";
pub const ONE_SUBAGENT: &str = "at most one subagent is active";
pub const LOCKED: &str =
    "beside a subagent the session has no call that could change something or start another";
pub const STARTS_ALONE: &str = "a start is the only call of its reply";
pub const NO_END_BESIDE: &str = "no reply without calls ends the run beside a subagent";
pub const COMMITTED_FIRST: &str = "nothing of an answer is released before it is committed";
pub const COUNTED_FIRST: &str = "the provider is asked twice for a turn at most, each time counted before";
pub const SUBAGENT_FIRST: &str =
    "no session is stopped, and none that expired at rest, while a subagent's process may live";
pub const OVER_FOR_GOOD: &str = "a subagent that is over never runs again";
pub const APART: &str = "what the process of a subagent says changes the subagent alone";

type Holds = fn(&Gateway, &World) -> bool;

pub fn all() -> Vec<Property<Gateway>> {
    let facts: [(&'static str, Holds); 21] = [
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
        (ONE_SUBAGENT, |_, world| one_subagent(world)),
        (LOCKED, |_, world| locked(world)),
        (STARTS_ALONE, |_, world| !world.broken.contains(&Fact::StartsAlone)),
        (NO_END_BESIDE, |_, world| !world.broken.contains(&Fact::NoEndBesideASubagent)),
        (COMMITTED_FIRST, |_, world| !world.broken.contains(&Fact::CommittedBeforeReleased)),
        (COUNTED_FIRST, |_, world| !world.broken.contains(&Fact::CountedBeforeAsked)),
        (SUBAGENT_FIRST, |_, world| subagent_first(world)),
        (OVER_FOR_GOOD, |_, world| over_for_good(world)),
        (APART, |_, world| !world.broken.contains(&Fact::Apart)),
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
    let own = match &world.session.state {
        State::Waiting(_, turn) => Some(&turn.id),
        _ => None,
    };
    let of_subagent = match world.session.subagent.as_ref().map(|subagent| &subagent.state) {
        Some(SubagentState::Asking { turn, .. }) => Some(turn),
        _ => None,
    };
    let known = [own, of_subagent].map(|turn| turn.map(|id| usize::from(ids::number(id.as_str()))));
    (0..world.ledger.turns.len()).all(|turn| pending(turn) == known.contains(&Some(turn)))
}

fn no_strays(world: &World) -> bool {
    let known = [world.run(), world.ending(), world.subagent_run()];
    let serves = |run: u8| known.iter().flatten().any(|(known, _)| *known == run);
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

fn one_subagent(world: &World) -> bool {
    let active =
        world.session.subagent.as_ref().map(|subagent| usize::from(ids::number(subagent.id.as_str())));
    world.ledger.subagents.iter().enumerate().all(|(number, row)| row.over || active == Some(number))
}

fn locked(world: &World) -> bool {
    let is_open = |state| matches!(state, ActionState::Authorised | ActionState::Prepared);
    let own = |run: u8| world.ledger.runs[usize::from(run)].of.is_none();
    world.session.subagent.is_none()
        || world
            .ledger
            .actions
            .iter()
            .filter(|row| own(row.run) && is_open(row.state))
            .all(|row| !matches!(row.tool, Tool::Write | Tool::Command | Tool::Start))
}

fn of_subagents(world: &World) -> impl Iterator<Item = &RunRow> {
    world.ledger.runs.iter().filter(|row| row.of.is_some())
}

fn subagent_first(world: &World) -> bool {
    let over = match world.session.state.status() {
        Status::Stopped => true,
        Status::LeaseExpired => !world.session.is_ending(),
        _ => false,
    };
    !over || of_subagents(world).all(|row| row.process != Process::Alive)
}

fn over_for_good(world: &World) -> bool {
    let is_over = |row: &RunRow| row.of.is_some_and(|of| world.ledger.subagents[usize::from(of)].over);
    !world.broken.contains(&Fact::OverForGood)
        && of_subagents(world).all(|row| !is_over(row) || row.process != Process::Alive)
}
