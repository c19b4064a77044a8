//! The state of the model: the machine's own value, and around it what the ledger, the executor's memory, the process
//! table and the disk hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use executor_svc::clock::Timestamp;
use executor_svc::session::{Session, Subagent};

/// Time stands still; what passes is taken off the lease.
pub const NOW: Timestamp = Timestamp::from_millis(1_000_000_000_000);
/// What passes at once, in milliseconds. It is also what a restart leaves at least.
pub const STEP: i64 = 60_000;
/// How long a lease is, in steps.
pub const LEASE_STEPS: u64 = 2;

/// Everything that there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The machine's value, as it was committed last; most moves leave it as it is.
    pub session: Arc<Session>,
    /// The other tables.
    pub ledger: Ledger,
    /// The executor's process.
    pub executor: Executor,
    /// How often the executor may still crash.
    pub crashes_left: u8,
    /// Whether a foreign process may still write into a file of ours.
    pub foreign_left: bool,
    /// What happened that must never happen, by the fact that it breaks.
    pub broken: BTreeSet<Fact>,
}

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    OneEffect,
    NothingBeforeItIsDurable,
    OneMeaningPerId,
    OneReplyPerTurn,
    OldLeasesChangeNothing,
    ReceiptsStay,
    OldLaunchesChangeNothing,
    StartsAlone,
    NoEndBesideASubagent,
    CommittedBeforeReleased,
    CountedBeforeAsked,
    OverForGood,
    Apart,
}

/// The tables beside the session's value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    pub once: BTreeMap<(Scope, u8), Meaning>,
    pub runs: Vec<RunRow>,
    pub turns: Vec<TurnRow>,
    pub actions: Vec<ActionRow>,
    pub subagents: Vec<SubagentRow>,
    pub leases: u8,
}

/// Where a caller's id holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    Reply,
    Continue,
    Recover,
    Stop,
    Resolve,
}

/// What an id was used for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meaning {
    pub content: u8,
    pub mints: Option<u8>,
}

/// A run, and the process that serves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunRow {
    /// Its place among the runs of its own.
    pub ordinal: u8,
    /// The subagent whose run it is; none: the session's own.
    pub of: Option<u8>,
    pub open: bool,
    /// The launch whose link token the ledger knows.
    pub link: Option<u8>,
    /// Whether the ledger knows the process.
    pub noted: bool,
    pub process: Process,
    /// The launch that the process has the token of.
    pub token: Option<u8>,
}

impl RunRow {
    pub const fn opened(ordinal: u8, of: Option<u8>) -> Self {
        Self { ordinal, of, open: true, link: None, noted: false, process: Process::Never, token: None }
    }
}

/// A subagent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SubagentRow {
    pub run: u8,
    pub over: bool,
}

/// How a shim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Process {
    Never,
    /// Without a link token; it ends when whoever started it is gone.
    Spawned,
    /// With one, and Claude Code.
    Alive,
    /// Claude Code has ended; the shim says so and goes.
    Parting,
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TurnRow {
    pub run: u8,
    /// The calls whose results it brings; none for the first of a run.
    pub results: BTreeSet<u8>,
    pub standing: Standing,
    pub replies: u8,
    /// Requests to the provider that were counted.
    pub counted: u8,
    /// Requests that were made.
    pub made: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    Pending,
    Answered,
    Abandoned,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ActionRow {
    pub run: u8,
    pub turn: u8,
    pub tool: Tool,
    pub state: ActionState,
    /// How often it took effect on the disk.
    pub effects: u8,
    /// What the file is.
    pub file: File,
    /// The subagent that it looks at or ends.
    pub about: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tool {
    Read,
    Write,
    Command,
    /// A subagent: starts one, looks at one, ends one.
    Start,
    Get,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActionState {
    Authorised,
    Prepared,
    Uncertain,
    /// Its receipt is durable, and says whether it worked.
    Done(bool),
    /// A person decided.
    Resolved,
}

/// A file, seen from the action that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum File {
    Before,
    After,
    /// Somebody else wrote it meanwhile.
    Foreign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Down,
    /// It brings to an end what the last one had begun, and serves nobody yet.
    Starting,
    Up,
}

/// The executor: what is lost when it crashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Executor {
    pub phase: Phase,
    pub launches: BTreeMap<u8, Launch>,
    pub ends: BTreeSet<u8>,
    /// Processes whose end is watched for, with their launch.
    pub held: BTreeMap<u8, u8>,
    pub flights: BTreeMap<u8, Flight>,
    /// Turns of subagents that the provider is to answer.
    pub asks: BTreeMap<u8, Asking>,
}

/// How far the provider's answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asking {
    Ordered,
    Begun,
}

/// How far a launch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Launch {
    Ordered(u8),
    Spawned(u8),
    Noted(u8),
}

/// How far an action in flight is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flight {
    Begun,
    Prepared,
    Performed(bool),
    /// A subagent was told to end; its end is waited for.
    Told,
}

impl Executor {
    pub const fn in_phase(phase: Phase) -> Self {
        Self {
            phase,
            launches: BTreeMap::new(),
            ends: BTreeSet::new(),
            held: BTreeMap::new(),
            flights: BTreeMap::new(),
            asks: BTreeMap::new(),
        }
    }
}

impl World {
    pub fn is_up(&self) -> bool {
        self.executor.phase == Phase::Up
    }

    /// The number of the current lease.
    pub fn lease(&self) -> u8 {
        super::ids::number(self.session.lease.id.as_str())
    }

    /// The number and the launch of the current run.
    pub fn run(&self) -> Option<(u8, u8)> {
        let run = self.session.state.run()?;
        Some((super::ids::number(run.id.as_str()), u8::try_from(run.epoch).expect("few launches")))
    }

    /// The number and the launch of the active subagent's run.
    pub fn subagent_run(&self) -> Option<(u8, u8)> {
        let run = &self.session.subagent.as_ref()?.run;
        Some((super::ids::number(run.id.as_str()), u8::try_from(run.epoch).expect("few launches")))
    }

    /// Whether that launch serves the session's run, or a subagent that is not on its way out.
    pub fn serves(&self, run: u8, epoch: u8) -> bool {
        let ends = self.session.subagent.as_ref().is_some_and(Subagent::is_ending);
        let of_subagent = self.subagent_run().filter(|_| !ends);
        [self.run(), of_subagent].contains(&Some((run, epoch)))
    }

    /// Whether it is the run of a subagent that is over.
    pub fn is_over(&self, run: u8) -> bool {
        self.ledger.subagents.iter().any(|row| row.run == run && row.over)
    }

    /// The same of the run whose process is being ended.
    pub fn ending(&self) -> Option<(u8, u8)> {
        let ending = self.session.ending.as_ref()?;
        Some((super::ids::number(ending.run_id.as_str()), u8::try_from(ending.epoch).expect("few launches")))
    }

    /// The launch whose token this run's process holds, if the ledger still knows it.
    pub fn link(&self, run: u8) -> Option<u8> {
        let row = &self.ledger.runs[usize::from(run)];
        row.token.filter(|token| row.link == Some(*token))
    }

    pub fn calls_of(&self, turn: u8) -> BTreeSet<u8> {
        let rows = self.ledger.actions.iter().enumerate();
        rows.filter(|(_, row)| row.turn == turn)
            .map(|(at, _)| u8::try_from(at).expect("few actions"))
            .collect()
    }
}
