//! What belongs to a step of the machine: what is recorded with it, and what is to be done after it.

use gatehouse_proto::ids::{RequestKey, RunId, SubagentId, ToolCallId, TurnId};

use super::command::{CallRequest, Receipt};
use super::operating::{ResolveAsk, UndoAsk};
use super::state::{TurnKey, TurnKind};
use super::subagent::{SubagentEnd, SubagentStart, Usage};
use crate::files::replace::Intent;
use crate::skill::Skill;

/// What is committed together with a step, and what is to be done after it.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// There is a new session.
    SessionCreated,
    /// The session carries these skills as they are now.
    SkillsFrozen(Vec<Skill>),
    /// A run begins.
    RunOpened {
        /// The run.
        run_id: RunId,
        /// What it is asked.
        prompt: String,
        /// Its place in the session.
        ordinal: u32,
        /// Its launch.
        epoch: u32,
    },
    /// After the commit: launch it.
    Launch {
        /// The run.
        run_id: RunId,
        /// Its launch.
        epoch: u32,
    },
    /// A run is launched anew; whatever its former launch says is refused from now on.
    RunRelaunched {
        /// The run.
        run_id: RunId,
        /// The new launch.
        epoch: u32,
    },
    /// A run is over.
    RunClosed {
        /// The run.
        run_id: RunId,
        /// Whether it ended with a final answer.
        ok: bool,
        /// What went wrong.
        why: Option<String>,
    },
    /// After the commit: end its process.
    EndRunner {
        /// The run.
        run_id: RunId,
        /// Its launch.
        epoch: u32,
    },
    /// A turn waits for its reply.
    TurnOpened {
        /// The turn.
        turn_id: TurnId,
        /// Its run.
        run_id: RunId,
        /// Its place in the session.
        ordinal: u32,
        /// Its key.
        key: TurnKey,
        /// What it is about.
        kind: TurnKind,
        /// Hash of the request.
        request_hash: String,
    },
    /// A turn is closed without a reply.
    TurnAbandoned {
        /// The turn.
        turn_id: TurnId,
        /// Why.
        why: String,
    },
    /// A reply is authorised, with its calls.
    ReplyCommitted {
        /// The turn it answers.
        turn_id: TurnId,
        /// The run.
        run_id: RunId,
        /// The caller's id.
        reply_id: RequestKey,
        /// Its text.
        text: String,
        /// Its calls.
        calls: Vec<CallRequest>,
        /// The receipt budget of each call, in bytes.
        budget: u32,
    },
    /// An action's intent is durable.
    ActionPrepared {
        /// The action.
        id: ToolCallId,
        /// What a write is about to do.
        intent: Option<Box<Intent>>,
    },
    /// An undo's intent is durable.
    UndoPrepared(Box<UndoAsk>),
    /// What the operator decided of an uncertain action is durable.
    ResolvePrepared(Box<ResolveAsk>),
    /// An action has its receipt.
    ActionSettled {
        /// The action.
        id: ToolCallId,
        /// Its receipt.
        receipt: Receipt,
    },
    /// An action will not be performed; its receipt says so.
    ActionCancelled {
        /// The action.
        id: ToolCallId,
        /// Its tool.
        name: String,
        /// Why.
        why: String,
    },
    /// An action's effect is uncertain.
    ActionUncertain {
        /// The action.
        id: ToolCallId,
        /// What is known, in a sentence.
        why: String,
    },
    /// The session's worktree is there.
    WorktreeMade {
        /// The commit that it was made at.
        head: String,
        /// Its name in the repository's list.
        registration: String,
    },
    /// The session's worktree is removed.
    WorktreeRemoved {
        /// Its name in the repository's list.
        registration: String,
    },
    /// There is a subagent.
    SubagentStarted(Box<SubagentStart>),
    /// Its shim is in touch.
    SubagentAttached {
        /// The subagent.
        id: SubagentId,
        /// The layers that confine its Claude Code.
        enforced_by: Vec<String>,
    },
    /// The provider is about to be asked.
    SubagentRequested {
        /// The subagent.
        id: SubagentId,
        /// The turn.
        turn_id: TurnId,
        /// How many requests there have been.
        requests: u32,
    },
    /// The provider has answered. The reply itself is an effect of its own.
    SubagentAnswered {
        /// The subagent.
        id: SubagentId,
        /// The turn.
        turn_id: TurnId,
        /// Its place in the sub-session.
        ordinal: u32,
        /// The answer's blocks, JSON.
        content: String,
        /// The model that answered.
        model: String,
        /// What the subagent has taken so far.
        usage: Usage,
    },
    /// It is being ended.
    SubagentStopping {
        /// The subagent.
        id: SubagentId,
        /// What it comes to.
        end: SubagentEnd,
    },
    /// It is over.
    SubagentOver {
        /// The subagent.
        id: SubagentId,
        /// Its run.
        run_id: RunId,
        /// The turn that was answered last.
        result_turn: Option<TurnId>,
        /// What it came to.
        end: SubagentEnd,
    },
    /// After the commit: ask the subagent's provider for this turn's answer.
    AskModel {
        /// The turn.
        turn_id: TurnId,
    },
    /// The lease has a new id.
    LeaseRotated,
    /// The lease ran out.
    LeaseRanOut,
    /// Somebody asked to stop.
    StopRequested,
    /// The session is over.
    Stopped,
    /// The shim is in touch.
    Attached,
}

impl Effect {
    /// The journal's word for it; `None` for orders, which follow from an entry of their own.
    #[must_use]
    pub const fn kind(&self) -> Option<&'static str> {
        Some(match self {
            Self::SessionCreated => "session.created",
            Self::SkillsFrozen(_) => "skills.frozen",
            Self::RunOpened { .. } => "run.opened",
            Self::RunRelaunched { .. } => "run.relaunched",
            Self::RunClosed { .. } => "run.closed",
            Self::TurnOpened { .. } => "turn.opened",
            Self::TurnAbandoned { .. } => "turn.abandoned",
            Self::ReplyCommitted { .. } => "reply.committed",
            Self::ActionPrepared { .. } => "action.prepared",
            Self::UndoPrepared(_) => "undo.prepared",
            Self::ResolvePrepared(_) => "resolve.prepared",
            Self::ActionSettled { .. } => "action.settled",
            Self::ActionCancelled { .. } => "action.cancelled",
            Self::ActionUncertain { .. } => "action.uncertain",
            Self::WorktreeMade { .. } => "worktree.made",
            Self::WorktreeRemoved { .. } => "worktree.removed",
            Self::SubagentStarted(_) => "subagent.started",
            Self::SubagentAttached { .. } => "subagent.attached",
            Self::SubagentRequested { .. } => "subagent.requested",
            Self::SubagentAnswered { .. } => "subagent.answered",
            Self::SubagentStopping { .. } => "subagent.stopping",
            Self::SubagentOver { end: SubagentEnd::Finished, .. } => "subagent.finished",
            Self::SubagentOver { end: SubagentEnd::Failed(_), .. } => "subagent.failed",
            Self::SubagentOver { end: SubagentEnd::Stopped(_), .. } => "subagent.stopped",
            Self::LeaseRotated => "lease.rotated",
            Self::LeaseRanOut => "lease.expired",
            Self::StopRequested => "stop.requested",
            Self::Stopped => "session.stopped",
            Self::Attached => "runner.attached",
            Self::Launch { .. } | Self::EndRunner { .. } | Self::AskModel { .. } => return None,
        })
    }
}
