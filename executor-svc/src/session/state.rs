//! What a session is at any moment. Serialised as it stands into the ledger, so fields are only ever added.

use std::path::PathBuf;

use gatehouse_proto::ids::{LeaseId, RequestKey, RunId, SessionId, ToolCallId, TurnId};
use serde::{Deserialize, Serialize};

use super::command::LaunchFailure;
use super::{Isolation, Lease, Subagent};
use crate::clock::Timestamp;
pub use crate::files::Profile;
use crate::skill::SkillFacts;

/// Whether ChatGPT may start a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentPolicy {
    /// No subagents.
    None,
    /// The three explicit DeepSeek tools.
    DeepseekExplicit,
}

/// The directory a session is bound to, and the proof that it is still the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootBinding {
    /// Canonical path.
    pub path: PathBuf,
    /// Device of the directory when the session was made.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Session {
    /// Its id, for ever.
    pub id: SessionId,
    /// The caller's name for it.
    pub label: Option<String>,
    /// What it may do.
    pub profile: Profile,
    /// Whether it may have subagents.
    pub subagents: SubagentPolicy,
    /// Where it works.
    pub root: RootBinding,
    /// The worktree that it works in, if it works in one.
    #[serde(default)]
    pub isolation: Option<Isolation>,
    /// The directory as the caller named it, resolved.
    pub source_directory: PathBuf,
    /// The id of the Claude Code session that all its runs share.
    pub claude_session_id: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Grows with each change that a caller can see.
    pub revision: u64,
    /// When a caller last asked about it, to within a sixtieth of the lease.
    pub last_call_at: Timestamp,
    /// Who may act on it.
    pub lease: Lease,
    /// SHA-256 of the recovery token.
    pub recovery_hash: String,
    /// Where it stands.
    pub state: State,
    /// A run that is over for the protocol while its process is still being ended.
    pub ending: Option<Ending>,
    /// Actions of a closed run whose intent is durable and whose receipt is still to come.
    pub finishing: Vec<Call>,
    /// An undo or a resolving of the operator's whose receipt is still to come.
    #[serde(default)]
    pub undoing: Option<ToolCallId>,
    /// Actions that are neither made nor not made; a person has to decide.
    #[serde(default)]
    pub uncertain: Vec<ToolCallId>,
    /// How many runs there have been.
    pub runs: u32,
    /// How many turns there have been.
    pub turns: u32,
    /// How the latest finished run went.
    pub last_result: Option<LastResult>,
    /// The latest stop request.
    pub stop: Option<StopAsk>,
    /// Settled actions whose receipts stood in no answered turn.
    pub unreported: Vec<ToolCallId>,
    /// Those of them that came while a turn was pending, which the caller may have read before: the next turn tells them
    /// as well.
    #[serde(default)]
    pub told_late: Vec<ToolCallId>,
    /// The sandbox layers that confined the latest launch, as the launcher reported them.
    pub enforced_by: Vec<String>,
    /// The skills that it carries, for good; their instructions have a table of their own.
    #[serde(default)]
    pub skills: Vec<SkillFacts>,
    /// The subagent that is active.
    #[serde(default)]
    pub subagent: Option<Subagent>,
    /// How many subagents there have been.
    #[serde(default)]
    pub subsessions: u32,
}

/// Where a session stands. Each state carries exactly what exists in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Claude Code is being launched.
    Starting(Run),
    /// Claude Code has asked; this turn waits for its reply.
    Waiting(Run, Turn),
    /// Claude Code works on a reply.
    Running(Run),
    /// No run.
    Idle,
    /// The launch did not work, or the protocol was broken.
    Failed(LaunchFailure),
    /// Being ended by request.
    Stopping,
    /// Ended for good.
    Stopped(Terminal),
    /// Ended because nobody called for too long.
    LeaseExpired,
    /// An action's effect is uncertain; a person has to decide.
    RecoveryRequired(ToolCallId),
}

/// The public name of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// [`State::Starting`]
    Starting,
    /// [`State::Waiting`]
    WaitingForGpt,
    /// [`State::Running`]
    Running,
    /// [`State::Idle`]
    Idle,
    /// [`State::Failed`]
    Failed,
    /// [`State::Stopping`]
    Stopping,
    /// [`State::Stopped`]
    Stopped,
    /// [`State::LeaseExpired`]
    LeaseExpired,
    /// [`State::RecoveryRequired`]
    RecoveryRequired,
}

impl Status {
    /// The name as it stands in answers and in the ledger.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::WaitingForGpt => "waiting_for_gpt",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Failed => "failed",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::LeaseExpired => "lease_expired",
            Self::RecoveryRequired => "recovery_required",
        }
    }

    /// Whether the gateway is at work, so that waiting for a change makes sense.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Stopping)
    }

    /// Whether the session counts as live: it has neither ended nor lost its lease.
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Stopped | Self::LeaseExpired)
    }
}

impl State {
    /// The public name.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Starting(_) => Status::Starting,
            Self::Waiting(..) => Status::WaitingForGpt,
            Self::Running(_) => Status::Running,
            Self::Idle => Status::Idle,
            Self::Failed(_) => Status::Failed,
            Self::Stopping => Status::Stopping,
            Self::Stopped(_) => Status::Stopped,
            Self::LeaseExpired => Status::LeaseExpired,
            Self::RecoveryRequired(_) => Status::RecoveryRequired,
        }
    }

    /// The run, while there is one.
    #[must_use]
    pub const fn run(&self) -> Option<&Run> {
        match self {
            Self::Starting(run) | Self::Waiting(run, _) | Self::Running(run) => Some(run),
            _ => None,
        }
    }

    /// The run, while there is one.
    pub const fn run_mut(&mut self) -> Option<&mut Run> {
        match self {
            Self::Starting(run) | Self::Waiting(run, _) | Self::Running(run) => Some(run),
            _ => None,
        }
    }
}

/// One Claude Code process from a prompt to its final answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its place in the session, from 1.
    pub ordinal: u32,
    /// Grows with every launch of the run's process; calls of an old one are refused.
    pub epoch: u32,
    /// When it was asked for.
    pub started_at: Timestamp,
    /// Whether its shim is in touch.
    pub attachment: Attachment,
    /// How many turns it has opened.
    pub turns: u32,
    /// How many actions it was authorised to take.
    pub actions: u32,
    /// The turn whose reply it works on.
    pub answered: Option<TurnId>,
    /// The calls that the latest reply authorised.
    pub calls: Vec<Call>,
}

impl Run {
    /// A run that is about to be launched for the first time.
    pub(super) const fn new(id: RunId, ordinal: u32, started_at: Timestamp) -> Self {
        Self {
            id,
            ordinal,
            epoch: 1,
            started_at,
            attachment: Attachment::Reattaching,
            turns: 0,
            actions: 0,
            answered: None,
            calls: Vec::new(),
        }
    }

    /// Its turn is answered, and it works on these calls.
    pub(super) fn answered_with(&mut self, turn: TurnId, calls: Vec<Call>) {
        self.actions += u32::try_from(calls.len()).unwrap_or(u32::MAX);
        self.answered = Some(turn);
        self.calls = calls;
    }
}

/// Whether a run's shim is in touch with this executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// Not heard of yet, or not since this executor started.
    Reattaching,
    /// In touch.
    Attached,
}

/// A tool call that a reply authorised.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// Our id, which Claude Code sees too.
    pub id: ToolCallId,
    /// The logical tool.
    pub name: String,
    /// Digest of the input that was authorised.
    pub input_sha256: String,
    /// How far it is.
    pub state: CallState,
}

/// How far an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Its reply is durable; nothing was done.
    Authorised,
    /// Its intent is durable; it may have an effect.
    Prepared,
    /// Its receipt is durable.
    Settled,
}

/// A model request that waits for its reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// Its place in the session, from 1.
    pub ordinal: u32,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// What it is about.
    pub kind: TurnKind,
}

/// What a turn is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// The first turn of a run.
    Prompt,
    /// The results of the calls of the reply before.
    ToolResults,
    /// The first turn of a run that follows one which did not end well.
    Resumed,
}

/// What makes a turn the same turn when Claude Code asks again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TurnKey {
    /// The first request of the run.
    First,
    /// The request that carries exactly these results.
    Results(std::collections::BTreeSet<ToolCallId>),
}

impl TurnKey {
    /// The key as the ledger stores it, unique within the run.
    #[must_use]
    pub fn as_text(&self) -> String {
        match self {
            Self::First => "first".to_owned(),
            Self::Results(ids) => ids.iter().map(ToolCallId::as_str).collect::<Vec<_>>().join(" "),
        }
    }
}

/// A process on its way out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ending {
    /// The run it served.
    pub run_id: RunId,
    /// Its launch.
    pub epoch: u32,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LastResult {
    /// The run.
    pub run_id: RunId,
    /// Whether it ended with a final answer.
    pub ok: bool,
    /// The answer, or what went wrong.
    pub text: ResultText,
    /// When.
    pub finished_at: Timestamp,
    /// How many turns it took.
    pub turns: u32,
    /// How many actions.
    pub actions: u32,
}

/// Where the text of a result stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultText {
    /// The reply to this turn.
    ReplyTo(TurnId),
    /// Here.
    Message(String),
}

/// A request to stop.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StopAsk {
    /// The caller's id of the request.
    pub request_id: RequestKey,
    /// Why.
    pub reason: String,
    /// When.
    pub requested_at: Timestamp,
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Terminal {
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

impl Session {
    /// The subagent whose run this is.
    #[must_use]
    pub fn subagent_of(&self, run: &RunId) -> Option<&Subagent> {
        self.subagent.as_ref().filter(|subagent| subagent.run.id == *run)
    }

    /// Whether this launch is one that the session has at present, its own or its subagent's.
    #[must_use]
    pub fn serves(&self, run: &RunId, epoch: u32) -> bool {
        super::running::serves(self, run, epoch) || super::subagent::serves(self, run, epoch)
    }

    /// Whether a run is still to ask for the first time.
    #[must_use]
    pub fn is_starting(&self, run: &RunId) -> bool {
        match (&self.state, &self.subagent) {
            (State::Starting(own), _) if own.id == *run => true,
            (_, Some(subagent)) if subagent.run.id == *run => {
                subagent.state == super::SubagentState::Starting
            }
            _ => false,
        }
    }

    /// Whether some process of it is still on its way out.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.is_some() || self.subagent.as_ref().is_some_and(Subagent::is_ending)
    }

    /// Whether `lease` is the current one, whatever its age.
    #[must_use]
    pub fn holds(&self, lease: &LeaseId) -> bool {
        self.lease.id == *lease
    }
}
