//! What can be asked of a session, and what the machine answers with.

use std::time::Duration;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::{LeaseId, RequestKey, RunId, SessionId, SubagentId, ToolCallId, TurnId};
use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::operating::{Resolution, ResolveAsk, UndoAsk};
use super::state::{Call, CallState, Profile, RootBinding, Session, SubagentPolicy, TurnKey};
use super::subagent::{SubagentAnswer, SubagentFailure, SubagentStart};
use super::{Isolation, Refusal};
use crate::files::replace::Intent;
use crate::ledger::once::Claim;
use crate::skill::Skill;
use crate::worktree::Worktree;

/// Everything a new session is made of.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Minted by the caller, like every id here.
    pub id: SessionId,
    /// The caller's name for it.
    pub label: Option<String>,
    /// What it may do.
    pub profile: Profile,
    /// Whether it may have subagents.
    pub subagents: SubagentPolicy,
    /// Where it works.
    pub root: RootBinding,
    /// The worktree that is to be made for it.
    pub isolation: Option<Isolation>,
    /// The directory as the caller named it.
    pub source_directory: std::path::PathBuf,
    /// The Claude Code session's id.
    pub claude_session_id: String,
    /// The first lease.
    pub lease_id: LeaseId,
    /// How long a lease lasts.
    pub lease_ttl: Duration,
    /// SHA-256 of the recovery token.
    pub recovery_hash: String,
    /// The first run.
    pub run_id: RunId,
    /// What it is asked.
    pub prompt: String,
    /// The skills that it carries from now on.
    pub skills: Vec<Skill>,
}

/// What can be asked of a session that exists.
#[derive(Debug, Clone)]
pub enum Command {
    /// ChatGPT: start the next run.
    Continue {
        /// The caller's lease.
        lease: LeaseId,
        /// Whether its key is new.
        claim: Claim,
        /// The new run.
        run_id: RunId,
        /// What it is asked.
        prompt: String,
        /// Whether the root is still the same directory.
        root: RootStanding,
    },
    /// ChatGPT: take the session over with its recovery token.
    Recover {
        /// Whether the token was right.
        token: TokenStanding,
        /// Whether its key is new.
        claim: Claim,
        /// The new lease.
        lease_id: LeaseId,
        /// Whether the root is still the same directory.
        root: RootStanding,
    },
    /// ChatGPT: answer the pending turn.
    Reply {
        /// The caller's lease.
        lease: LeaseId,
        /// Whether its key is new.
        claim: Claim,
        /// The caller's id of the reply.
        reply_id: RequestKey,
        /// The turn it answers.
        turn_id: TurnId,
        /// What the ledger knows of that turn.
        turn: Option<TurnStanding>,
        /// The text; may be empty.
        text: String,
        /// The calls, checked; or why the reply is refused as a whole.
        calls: Result<Vec<CallRequest>, Refusal>,
    },
    /// ChatGPT: look.
    Look {
        /// The caller's lease.
        lease: LeaseId,
    },
    /// ChatGPT or the operator: end it for good.
    Stop {
        /// The caller's lease; the operator needs none.
        lease: Option<LeaseId>,
        /// Whether its key is new.
        claim: Claim,
        /// The caller's id of the request.
        request_id: RequestKey,
        /// Why.
        reason: String,
    },
    /// The shim: is there.
    Attach {
        /// The run its token names.
        run_id: RunId,
        /// Its launch.
        epoch: u32,
        /// The layers that confine Claude Code, once it is launched.
        enforced_by: Vec<String>,
    },
    /// The runner room: what this launch came to is not known, and it can have no token. It is launched anew.
    Relaunch {
        /// The run.
        run_id: RunId,
        /// The launch that came to nothing.
        epoch: u32,
    },
    /// The runner room: the session's worktree is there.
    WorktreeMade {
        /// The run that it was made for.
        run_id: RunId,
        /// Its launch.
        epoch: u32,
        /// The worktree.
        worktree: Box<Worktree>,
    },
    /// The operator: the session's worktree is removed.
    WorktreeRemoved,
    /// The shim: Claude Code asks.
    OpenTurn(TurnAsk),
    /// The action path: this action's intent is durable from now on.
    Prepare {
        /// The action.
        id: ToolCallId,
        /// What a write is about to do; a command has no intent beyond its input.
        intent: Option<Box<Intent>>,
    },
    /// The operator: undo an action's effect. Its intent is durable from now on.
    BeginUndo(Claim, Box<UndoAsk>),
    /// The operator: decide what an uncertain action comes to. What is to be written is durable from now on.
    BeginResolve(Claim, Box<ResolveAsk>),
    /// The action path: this action has its receipt.
    Settle {
        /// The action.
        id: ToolCallId,
        /// Its receipt.
        receipt: Receipt,
    },
    /// The shim: the run is over.
    EndRun {
        /// The run its token names.
        run_id: RunId,
        /// Its launch.
        epoch: u32,
        /// How it went.
        outcome: RunOutcome,
    },
    /// The operator: end the run, keep the session.
    Interrupt {
        /// The run.
        run_id: RunId,
        /// Its launch.
        epoch: u32,
        /// Why.
        why: String,
    },
    /// The runner room: the shim's process is seen to be gone.
    RunnerGone {
        /// The run it served.
        run_id: RunId,
        /// Its launch.
        epoch: u32,
        /// What is known of why, for the launch error.
        why: String,
    },
    /// Reconciliation: nobody can tell whether this action had its effect.
    MarkUncertain {
        /// The action.
        id: ToolCallId,
        /// What is known, in a sentence.
        why: String,
    },
    /// The action path: a subagent is to begin, and the action that asks for it has its receipt.
    StartSubagent(Box<SubagentStart>),
    /// The action path: this subagent is to end, unless it has.
    StopSubagent {
        /// The subagent.
        id: SubagentId,
        /// Why.
        why: String,
    },
    /// The broker: asks the provider for this turn's answer.
    BeginRequest {
        /// The turn.
        turn_id: TurnId,
    },
    /// The broker: has an answer that was verified.
    SubagentAnswer(Box<SubagentAnswer>),
    /// The broker: has none.
    SubagentFailed {
        /// The turn.
        turn_id: TurnId,
        /// Why.
        failure: SubagentFailure,
    },
    /// The reaper: look whether the subagent's time is over.
    CheckSubagent,
    /// The operator: this is what the uncertain action comes to.
    Resolve(Box<Resolution>),
    /// The reaper: look whether the lease has run out.
    CheckLease,
    /// The reaper: the clock was moved, and what is left of the lease stays what it was.
    ClockMoved {
        /// By so many milliseconds.
        millis: i64,
    },
    /// A starting executor: nothing of the old one is in flight any more.
    Restarted,
}

/// Whether the root is still the directory the session was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootStanding {
    /// It is.
    Same,
    /// It is not; what was found instead.
    Changed(String),
}

/// Whether a recovery token was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenStanding {
    /// It was.
    Right,
    /// It was not.
    Wrong,
    /// Too many wrong ones came lately; this one was not looked at.
    Locked,
}

/// What the ledger knows of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStanding {
    /// It waits for its reply.
    Pending,
    /// It has one.
    Answered,
    /// Its run ended before it got one.
    Abandoned,
}

/// What became of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Whether it worked.
    pub ok: bool,
    /// Which kind of failure, if it did not.
    pub code: Option<ActionCode>,
    /// The whole receipt: one JSON object, within its budget.
    pub json: String,
}

/// A call of a reply, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    /// Minted for it.
    pub id: ToolCallId,
    /// The logical tool.
    pub name: String,
    /// The caller's own id of it.
    pub client_id: Option<String>,
    /// The input, compact JSON.
    pub input: String,
    /// Digest of the input.
    pub input_sha256: String,
}

impl CallRequest {
    /// The call as the run keeps it.
    pub(super) fn standing(&self, state: CallState) -> Call {
        Call { id: self.id.clone(), name: self.name.clone(), input_sha256: self.input_sha256.clone(), state }
    }
}

/// Claude Code asks for an answer.
#[derive(Debug, Clone)]
pub struct TurnAsk {
    /// The run the shim's token names.
    pub run_id: RunId,
    /// Its launch.
    pub epoch: u32,
    /// The id for the turn, should it be a new one.
    pub turn_id: TurnId,
    /// Which turn it is; an error if the request fits none.
    pub key: Result<TurnKey, String>,
    /// The run ordinal in the marker, for [`TurnKey::First`].
    pub marker: Option<u32>,
    /// The turn of that key, if the ledger has it.
    pub known: Option<KnownTurn>,
    /// What Claude Code says the results were.
    pub seen: Vec<SeenResult>,
    /// Hash of the request, for diagnosis.
    pub request_hash: String,
    /// Actions that are being performed at this moment.
    pub performing: Vec<ToolCallId>,
}

/// A turn that was opened before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTurn {
    /// Its id.
    pub id: TurnId,
}

/// A tool result as Claude Code carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenResult {
    /// Whose.
    pub id: ToolCallId,
    /// Claude Code's words, bounded.
    pub text: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunOutcome {
    /// With a result line that is no error.
    Finished,
    /// With a result line that is an error, in Claude Code's words.
    Erred(LaunchFailure),
    /// Without a result line, in the shim's words.
    Failed(LaunchFailure),
}

/// Why Claude Code did not start, or ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchFailure {
    /// A launch code of `docs/errors.md`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to do.
    pub what_to_do: String,
}

/// The machine's yes.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The session as it is from now on.
    pub session: Session,
    /// What belongs to that, to be committed with it.
    pub effects: Vec<Effect>,
    /// What the asker is told.
    pub answer: Answer,
}

/// What the asker is told beside the session's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// This very call was made before.
    Replayed,
    /// The turn, old or new.
    Turn(TurnId),
    /// Ask again when these actions have their receipts.
    ReceiptsAwaited,
    /// The request fitted no turn; the run has failed.
    ProtocolBroken(String),
}
