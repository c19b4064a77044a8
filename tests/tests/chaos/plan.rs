//! What a round does: decided before it begins, from its number and the seed alone.

use gatehouse_tests::dice::Dice;

/// Who is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    Front,
    Executor,
    Shim,
    Claude,
}

/// What the session is doing meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    Starting,
    Waiting,
    /// A reply is committed, and no command runs.
    Running,
    Command,
    Idle,
    Stopping,
}

/// How.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    Kill,
    Terminate,
}

/// One blow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    pub victim: Victim,
    pub moment: Moment,
    pub manner: Manner,
    /// How long after the moment was seen.
    pub delay_ms: u64,
    /// How long a front or executor stays away.
    pub away_ms: u64,
    /// Somebody else who is killed while that one is away.
    pub with: Option<Victim>,
}

/// Every victim in every moment in which it is there.
pub const CELLS: [(Victim, Moment); 18] = {
    use Moment::{Command, Idle, Running, Starting, Stopping, Waiting};
    use Victim::{Claude, Executor, Front, Shim};
    [
        (Front, Starting),
        (Front, Waiting),
        (Front, Running),
        (Front, Command),
        (Front, Idle),
        (Executor, Starting),
        (Executor, Waiting),
        (Executor, Running),
        (Executor, Command),
        (Executor, Idle),
        (Executor, Stopping),
        (Shim, Starting),
        (Shim, Waiting),
        (Shim, Running),
        (Shim, Command),
        (Shim, Stopping),
        (Claude, Waiting),
        (Claude, Command),
    ]
};

/// What one reply of the scripted ChatGPT asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Read,
    Edit,
    Write,
    Command,
}

/// A round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    pub number: usize,
    pub strikes: Vec<Strike>,
    /// The runs of the session: the replies of each, and the calls of each reply.
    pub runs: Vec<Vec<Vec<Deed>>>,
    /// How long the scripted ChatGPT thinks about each turn, in turn.
    pub thinks_ms: Vec<u64>,
}

impl Round {
    /// The round of this number. Over any 18 rounds in a row, each cell is aimed at at least twice.
    pub fn of(seed: u64, number: usize) -> Self {
        let mut dice = Dice::of(seed.wrapping_add(number as u64).wrapping_mul(0x0100_0000_01B3));
        let aimed = [number, number * 7 + 5].map(|cell| CELLS[cell % CELLS.len()]);
        let mut strikes: Vec<Strike> = aimed.into_iter().map(|cell| strike(&mut dice, cell)).collect();
        if dice.percent(60) {
            let cell = dice.one_of(&CELLS);
            strikes.push(strike(&mut dice, cell));
        }
        // In the order in which a session comes through these moments; a session stops once, at its end.
        strikes.sort_by_key(|strike| (strike.moment == Moment::Stopping, strike.moment == Moment::Idle));
        let runs = (0..dice.within(1..3))
            .map(|_| (0..dice.within(1..3)).map(|_| reply(&mut dice)).collect())
            .collect();
        let thinks_ms = (0..8).map(|_| dice.within(20..120)).collect();
        Self { number, strikes, runs, thinks_ms }
    }

    /// Whether the session is stopped in the middle of a run, so that somebody can be struck meanwhile.
    pub fn stops_at_work(&self) -> bool {
        self.strikes.iter().any(|strike| strike.moment == Moment::Stopping)
    }
}

fn strike(dice: &mut Dice, (victim, moment): (Victim, Moment)) -> Strike {
    let manner = if dice.percent(70) { Manner::Kill } else { Manner::Terminate };
    let delay_ms = match moment {
        Moment::Starting => dice.within(0..500),
        Moment::Command => dice.within(0..150),
        Moment::Waiting => dice.within(0..40),
        Moment::Stopping => dice.within(0..500),
        Moment::Running | Moment::Idle => dice.within(0..6),
    };
    let with = (victim == Victim::Executor && dice.percent(30))
        .then(|| dice.one_of(&[Victim::Shim, Victim::Claude, Victim::Front]));
    Strike { victim, moment, manner, delay_ms, away_ms: dice.within(0..250), with }
}

fn reply(dice: &mut Dice) -> Vec<Deed> {
    let count = dice.within(1..3);
    let mut deeds: Vec<Deed> = (0..count)
        .map(|_| dice.one_of(&[Deed::Edit, Deed::Write, Deed::Command, Deed::Read, Deed::Edit]))
        .collect();
    // Every reply takes long enough to be hit.
    if !deeds.contains(&Deed::Command) {
        deeds.push(Deed::Command);
    }
    deeds
}
