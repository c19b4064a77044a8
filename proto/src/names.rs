//! The names that the contract's enums have in JSON and on a screen. `None` is the value that nobody should send.

use crate::v1::{Attachment, CapabilityProfile, SessionStatus, SubagentPolicy, TurnKind, WorkspaceKind};

macro_rules! names {
    ($($kind:ident { $($variant:ident = $text:literal,)+ })+) => {$(
        impl $kind {
            /// The name, as callers know it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    Self::Unspecified => None,
                    $(Self::$variant => Some($text),)+
                }
            }
        }
    )+};
}

names! {
    SessionStatus {
        Starting = "starting",
        WaitingForGpt = "waiting_for_gpt",
        Running = "running",
        Idle = "idle",
        Stopping = "stopping",
        Stopped = "stopped",
        Failed = "failed",
        LeaseExpired = "lease_expired",
        RecoveryRequired = "recovery_required",
    }
    CapabilityProfile {
        ReadOnly = "read_only",
        DirectWrite = "direct_write",
        WorktreeWrite = "worktree_write",
    }
    SubagentPolicy {
        None = "none",
        DeepseekExplicit = "deepseek_explicit",
    }
    WorkspaceKind {
        ReadOnly = "read_only",
        Direct = "direct",
        Worktree = "worktree",
    }
    Attachment {
        Attached = "attached",
        Reattaching = "reattaching",
        Gone = "gone",
    }
    TurnKind {
        Prompt = "prompt",
        ToolResults = "tool_results",
        Resumed = "resumed",
    }
}
