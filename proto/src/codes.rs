//! The stable codes that a user or ChatGPT can see. `docs/errors.md` has a section for each; a test compares.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code as it stands in answers, logs and the documentation.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The code of that text, if there is one.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

codes! {
    /// Why a session tool refused. Nothing was changed by the refused call.
    ErrorCode {
        /// A field is missing, malformed or out of bounds.
        InvalidArgument = "invalid_argument",
        /// No session has this id.
        UnknownSession = "unknown_session",
        /// The lease is not the session's current one.
        LeaseMismatch = "lease_mismatch",
        /// The lease ran out; the runner was stopped.
        LeaseExpired = "lease_expired",
        /// The same id was used before with other content.
        IdempotencyConflict = "idempotency_conflict",
        /// The turn is not the pending one.
        TurnMismatch = "turn_mismatch",
        /// The turn has its reply already.
        TurnAlreadyAnswered = "turn_already_answered",
        /// Text and calls together are over the limit.
        ReplyTooLarge = "reply_too_large",
        /// No logical tool has this name.
        ToolNotAllowed = "tool_not_allowed",
        /// A call's input does not fit the tool's schema.
        ToolInputInvalid = "tool_input_invalid",
        /// The session's profile does not have this tool.
        ProfileForbids = "profile_forbids",
        /// A subagent is active.
        SubagentActive = "subagent_active",
        /// The session is doing something else at present.
        SessionBusy = "session_busy",
        /// The session is stopped for good.
        SessionStopped = "session_stopped",
        /// The run's process is gone; its turn cannot be answered any more.
        RunnerGone = "runner_gone",
        /// The recovery token is wrong, or too many wrong ones were tried.
        RecoveryDenied = "recovery_denied",
        /// An action is uncertain; a person has to decide.
        RecoveryBlocked = "recovery_blocked",
        /// The working directory cannot be used.
        WorkingDirectoryInvalid = "working_directory_invalid",
        /// The repository has changes or is in the middle of an operation.
        RepositoryNotClean = "repository_not_clean",
        /// A skill is not on the allowlist, or its hash differs.
        SkillNotAllowed = "skill_not_allowed",
        /// Claude Code could not be started.
        LaunchFailed = "launch_failed",
        /// The configured number of live sessions is reached.
        Capacity = "capacity",
        /// The executor cannot be reached.
        ExecutorUnavailable = "executor_unavailable",
        /// A fault of Gatehouse itself.
        Internal = "internal",
    }
}

codes! {
    /// Why an action's receipt says `ok: false`.
    ActionCode {
        /// Nothing has this path.
        NotFound = "not_found",
        /// A directory, device, FIFO or socket where a regular file is needed, or the other way round.
        NotAFile = "not_a_file",
        /// The bytes are not UTF-8.
        NotUtf8 = "not_utf8",
        /// Over a limit that the hint names.
        TooLarge = "too_large",
        /// A protected path.
        ProtectedPath = "protected_path",
        /// Outside the session's root, or outside `read_roots`.
        OutsideRoot = "outside_root",
        /// A component of the path is a symbolic link.
        SymlinkRefused = "symlink_refused",
        /// Below `.git`.
        GitRefused = "git_refused",
        /// On proc, sysfs, devtmpfs or another file system that holds no ordinary files.
        SpecialFileSystem = "special_file_system",
        /// The file has further names outside the root.
        HardLinkRefused = "hard_link_refused",
        /// The operating system denied it.
        PermissionDenied = "permission_denied",
        /// The file changed while, or before, it was worked on.
        ChangedMeanwhile = "changed_meanwhile",
        /// The text to replace is not in the file.
        OldStringMissing = "old_string_missing",
        /// The text to replace is there more than once.
        OldStringAmbiguous = "old_string_ambiguous",
        /// Overwriting needs the hash of the current bytes.
        ExpectedHashRequired = "expected_hash_required",
        /// The file exists already.
        Exists = "exists",
        /// No cell has this id.
        CellNotFound = "cell_not_found",
        /// Not a notebook of a supported form.
        NotebookInvalid = "notebook_invalid",
        /// No space left.
        DiskFull = "disk_full",
        /// The command is on the list of refused ones.
        CommandRefused = "command_refused",
        /// The command could not be started.
        SpawnFailed = "spawn_failed",
        /// The command ran, and ended with an exit code other than 0 or by a signal.
        CommandFailed = "command_failed",
        /// The time limit ended it.
        TimedOut = "timed_out",
        /// The output limit ended it.
        OutputCut = "output_cut",
        /// A required sandbox layer is not to be had.
        SandboxUnavailable = "sandbox_unavailable",
        /// What is on disk is neither before nor after.
        Uncertain = "uncertain",
        /// It was not performed, or was ended early.
        Cancelled = "cancelled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_snake_case_unique_and_come_back() {
        let texts: Vec<_> = ErrorCode::ALL
            .iter()
            .map(|c| c.as_str())
            .chain(ActionCode::ALL.iter().map(|c| c.as_str()))
            .collect();
        for text in &texts {
            assert!(text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'8'), "{text}");
        }
        assert_eq!(ErrorCode::ALL.len(), 24);
        assert_eq!(ActionCode::ALL.len(), 27);
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
        for code in ActionCode::ALL {
            assert_eq!(ActionCode::parse(code.as_str()), Some(*code));
        }
    }
}
