//! What a subagent is at any moment.

use gatehouse_proto::ids::{SubagentId, TurnId};
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::config::Route;
use crate::session::state::Run;

/// How able a subagent is asked for. It fixes the route, and nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Everyday work.
    Sonnet,
    /// The same route under its other name.
    Opus,
    /// Hard work.
    Fable,
}

impl Grade {
    /// The grades there are.
    pub const ALL: [Self; 3] = [Self::Sonnet, Self::Opus, Self::Fable];

    /// The name as it stands in calls and receipts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sonnet => "sonnet",
            Self::Opus => "opus",
            Self::Fable => "fable",
        }
    }

    /// Where it goes.
    #[must_use]
    pub const fn route(self) -> Route {
        match self {
            Self::Sonnet | Self::Opus => Route::Flash,
            Self::Fable => Route::Pro,
        }
    }
}

/// What a subagent may take in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubagentLimits {
    /// Model requests that it may make.
    pub turns: u32,
    /// Tokens that it may be answered with.
    pub output_tokens: u64,
}

/// What it has taken, as the provider counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens that were sent.
    pub input_tokens: u64,
    /// Tokens that were answered.
    pub output_tokens: u64,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub const fn and(self, more: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
        }
    }
}

/// An active subagent. One that is over stands in the ledger alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subagent {
    /// Its id.
    pub id: SubagentId,
    /// What was asked for.
    pub grade: Grade,
    /// The id of its Claude Code session.
    pub claude_session_id: String,
    /// Its one run.
    pub run: Run,
    /// Where it stands.
    pub state: SubagentState,
    /// When it is ended at the latest.
    pub deadline: Timestamp,
    /// What it may take.
    pub limits: SubagentLimits,
    /// Model requests that were begun, repeats after a crash included.
    pub requests: u32,
    /// What it has taken.
    pub usage: Usage,
    /// The sandbox layers that confine its Claude Code, as the launcher reported them.
    pub enforced_by: Vec<String>,
}

/// Where an active subagent stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentState {
    /// Its Claude Code is being launched.
    Starting,
    /// Its Claude Code has asked; the provider is to answer.
    Asking {
        /// The turn that waits.
        turn: TurnId,
        /// Requests that were begun for it.
        requests: u32,
    },
    /// Its Claude Code works on an answer.
    Working,
    /// It is being ended.
    Stopping {
        /// What it comes to.
        end: SubagentEnd,
        /// What is known of its process.
        process: Process,
    },
}

/// Whether a process that is to end has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// Not known yet.
    Ending,
    /// It has.
    Gone,
}

/// What a subagent comes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentEnd {
    /// Its model answered with text and no calls.
    Finished,
    /// It could not go on.
    Failed(SubagentFailure),
    /// It was stopped, for this reason.
    Stopped(String),
}

impl SubagentEnd {
    /// The public word.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed(_) => "failed",
            Self::Stopped(_) => "stopped",
        }
    }
}

/// Why a subagent could not go on. Told as it is: nothing else is tried instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct SubagentFailure {
    /// One stable word of `docs/errors.md`.
    pub kind: String,
    /// What happened, bounded and cleaned.
    pub message: String,
    /// The HTTP status that the provider answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// After how many seconds the provider would like to be asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// The model that was asked for, if another one answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_model: Option<String>,
    /// The model that answered instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_model: Option<String>,
}

impl SubagentFailure {
    /// A failure that has nothing more to tell.
    #[must_use]
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into(), ..Self::default() }
    }
}

impl Subagent {
    /// The public word for where it stands.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self.state {
            SubagentState::Starting => "started",
            SubagentState::Asking { .. } | SubagentState::Working => "running",
            SubagentState::Stopping { .. } => "stopping",
        }
    }

    /// Whether its model has given its final answer: a text and no calls.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.state == SubagentState::Working && self.run.calls.is_empty() && self.run.answered.is_some()
    }

    /// Whether it is on its way out.
    #[must_use]
    pub const fn is_ending(&self) -> bool {
        matches!(self.state, SubagentState::Stopping { .. })
    }

    /// Whether its model is being asked for the answer to this turn.
    #[must_use]
    pub fn asks(&self, wanted: &TurnId) -> bool {
        matches!(&self.state, SubagentState::Asking { turn, .. } if turn == wanted)
    }
}
