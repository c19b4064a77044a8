//! The logical tools, one file each: what the input is, and what performing it leaves behind.
//!
//! [`check`] looks at the input alone and is used when a reply is authorised. [`perform`] runs an input that passed,
//! and always gives a [`Receipt`]: what the machine's state or the policy refuses is a receipt with `ok: false`.
//! A tool is added with a file here, a [`ToolName`], a [`CheckedInput`] and an entry in the registry.

pub mod change;
mod cursor;
mod cut;
pub mod diff;
pub mod edit;
mod find_files;
mod globs;
mod input;
mod listing;
pub mod notebook_edit;
pub mod operation;
mod patience;
mod read;
mod receipt;
mod redact;
mod run_command;
mod search_text;
pub mod subagent;
pub mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use gatehouse_proto::ids::ToolCallId;
use serde::Serialize;
use serde_json::Value;

use crate::cancel::Cancel;
use crate::commands::CommandCall;
use crate::files::{FileFault, Profile, SessionFiles};
use crate::session::{SUBAGENT_GET, SUBAGENT_START, SUBAGENT_STOP, Session, SubagentPolicy};
use change::NewBytes;
pub use change::{PlanFault, Planned};
pub use edit::EditInput;
pub use find_files::FindFilesInput;
pub use input::InputFault;
pub use notebook_edit::NotebookEditInput;
pub use read::ReadInput;
pub use receipt::{Receipt, ReceiptBudget, cancelled_receipt, not_performed_receipt};
pub use run_command::{command_receipt, interrupted_command_receipt, refused_command_receipt};
pub use search_text::SearchTextInput;
pub use subagent::SubagentInput;
pub use write::WriteInput;

/// The tools there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ToolName {
    /// Reads a text file.
    Read,
    /// Lists files.
    FindFiles,
    /// Finds text in files.
    SearchText,
    /// Replaces text in a file.
    Edit,
    /// Makes or overwrites a file.
    Write,
    /// Changes a cell of a notebook.
    NotebookEdit,
    /// Runs a program.
    RunCommand,
    /// Starts a subagent.
    SubagentStart,
    /// Looks at one.
    SubagentGet,
    /// Ends one.
    SubagentStop,
}

impl ToolName {
    /// Every tool, in the order of the contract.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::FindFiles,
        Self::SearchText,
        Self::Edit,
        Self::Write,
        Self::NotebookEdit,
        Self::RunCommand,
        Self::SubagentStart,
        Self::SubagentGet,
        Self::SubagentStop,
    ];

    /// Whether it looks at files or changes them, here in the executor.
    #[must_use]
    pub const fn is_on_files(self) -> bool {
        matches!(
            self,
            Self::Read | Self::FindFiles | Self::SearchText | Self::Edit | Self::Write | Self::NotebookEdit
        )
    }

    /// The logical name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::FindFiles => "FindFiles",
            Self::SearchText => "SearchText",
            Self::Edit => "Edit",
            Self::Write => "Write",
            Self::NotebookEdit => "NotebookEdit",
            Self::RunCommand => "RunCommand",
            Self::SubagentStart => SUBAGENT_START,
            Self::SubagentGet => SUBAGENT_GET,
            Self::SubagentStop => SUBAGENT_STOP,
        }
    }

    /// The tool of that logical name, if there is one. Claude Code's own spelling (`mcp__…`) is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }
}

impl std::fmt::Display for ToolName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An input that fits its tool, by the path that the action takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CheckedInput {
    /// It only looks: performed as often as need be.
    Reading(ReadingInput),
    /// It changes a file: prepared, and made once.
    Change(ChangeInput),
    /// It runs a program: once.
    Command(CommandCall),
    /// It is about a subagent.
    Subagent(SubagentInput),
}

/// The input of a tool that only looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ReadingInput {
    /// For [`ToolName::Read`].
    Read(ReadInput),
    /// For [`ToolName::FindFiles`].
    FindFiles(FindFilesInput),
    /// For [`ToolName::SearchText`].
    SearchText(SearchTextInput),
}

/// The input of a tool that changes a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ChangeInput {
    /// For [`ToolName::Edit`].
    Edit(EditInput),
    /// For [`ToolName::Write`].
    Write(WriteInput),
    /// For [`ToolName::NotebookEdit`].
    NotebookEdit(NotebookEditInput),
}

impl ChangeInput {
    /// The tool that it is for.
    #[must_use]
    pub const fn tool(&self) -> ToolName {
        match self {
            Self::Edit(_) => ToolName::Edit,
            Self::Write(_) => ToolName::Write,
            Self::NotebookEdit(_) => ToolName::NotebookEdit,
        }
    }

    /// The file that it is about.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Edit(input) => &input.file_path,
            Self::Write(input) => &input.file_path,
            Self::NotebookEdit(input) => &input.notebook_path,
        }
    }

    /// What the file is to be, from its bytes (`None` if there is no file). The same again from the same. What would have more
    /// than `most` bytes may be refused here; it is refused where it is written in any case.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn plan(&self, before: Option<&[u8]>, most: u64) -> Result<Planned, PlanFault> {
        let planned = match self {
            Self::Edit(input) => edit::plan(input, before, most),
            Self::Write(input) => write::plan(input, before),
            Self::NotebookEdit(input) => notebook_edit::plan(input, before),
        }?;
        match (before, &planned.bytes) {
            (Some(before), NewBytes::Replaced(after)) if redact::loses_passwords(before, after) => {
                Err(PlanFault::redacted(self.path()))
            }
            _ => Ok(planned),
        }
    }
}

impl CheckedInput {
    /// The input as JSON: only what was given, whole numbers as such. [`check`] takes it back unchanged.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl ReadingInput {
    /// The tool that it is for.
    #[must_use]
    pub const fn tool(&self) -> ToolName {
        match self {
            Self::Read(_) => ToolName::Read,
            Self::FindFiles(_) => ToolName::FindFiles,
            Self::SearchText(_) => ToolName::SearchText,
        }
    }

    /// The path that it is about; `None` is the working directory.
    fn place(&self) -> Option<&str> {
        match self {
            Self::Read(input) => Some(&input.file_path),
            Self::FindFiles(input) => input.directory.as_deref(),
            Self::SearchText(input) => input.directory.as_deref(),
        }
    }
}

/// What a brain is told of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescription {
    /// The logical name.
    pub name: ToolName,
    /// What it does and when to use it.
    pub description: &'static str,
    /// The JSON schema of the input.
    pub input_schema: Value,
    /// Whether it changes nothing, so that calls may run side by side.
    pub read_only: bool,
}

/// What a tool may lean on while it runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The session's working directory and the rules; one for the whole session.
    pub files: Arc<SessionFiles>,
    /// Ends it early.
    pub cancel: Cancel,
    /// Ends it at that moment.
    pub deadline: Instant,
}

impl ToolContext {
    /// Whether there is time left and nobody cancelled; `path` is what the tool is at.
    fn may_go_on(&self, path: &Path) -> Result<(), FileFault> {
        if self.cancel.is_cancelled() {
            Err(FileFault::Cancelled { path: path.to_owned() })
        } else if Instant::now() >= self.deadline {
            Err(FileFault::TimedOut { path: path.to_owned() })
        } else {
            Ok(())
        }
    }
}

/// Whether the input fits the tool, on its own: nothing on disk is looked at.
///
/// # Errors
/// An [`InputFault`] that names the field.
pub fn check(name: ToolName, input: &Value) -> Result<CheckedInput, InputFault> {
    match name {
        ToolName::Read => read::check(input).map(ReadingInput::Read).map(CheckedInput::Reading),
        ToolName::FindFiles => {
            find_files::check(input).map(ReadingInput::FindFiles).map(CheckedInput::Reading)
        }
        ToolName::SearchText => {
            search_text::check(input).map(ReadingInput::SearchText).map(CheckedInput::Reading)
        }
        ToolName::Edit => edit::check(input).map(ChangeInput::Edit).map(CheckedInput::Change),
        ToolName::Write => write::check(input).map(ChangeInput::Write).map(CheckedInput::Change),
        ToolName::NotebookEdit => {
            notebook_edit::check(input).map(ChangeInput::NotebookEdit).map(CheckedInput::Change)
        }
        ToolName::RunCommand => run_command::check(input).map(CheckedInput::Command),
        ToolName::SubagentStart => subagent::check_start(input).map(CheckedInput::Subagent),
        ToolName::SubagentGet => subagent::check_get(input).map(CheckedInput::Subagent),
        ToolName::SubagentStop => subagent::check_stop(input).map(CheckedInput::Subagent),
    }
}

/// Who has tools: a session by what it was made for, or its subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toolset {
    /// What it may do.
    pub profile: Profile,
    /// Whether it may have subagents.
    pub subagents: SubagentPolicy,
}

impl From<Profile> for Toolset {
    /// Without subagents.
    fn from(profile: Profile) -> Self {
        Self { profile, subagents: SubagentPolicy::None }
    }
}

impl Toolset {
    /// The tools of a session's own run.
    #[must_use]
    pub const fn of(session: &Session) -> Self {
        Self { profile: session.profile, subagents: session.subagents }
    }
}

/// The tools that are had.
#[must_use]
pub fn descriptions(set: impl Into<Toolset>) -> Vec<&'static ToolDescription> {
    static ALL: LazyLock<Vec<ToolDescription>> =
        LazyLock::new(|| ToolName::ALL.into_iter().map(describe).collect());
    let set = set.into();
    ALL.iter().filter(|tool| has(set, tool.name)).collect()
}

/// Whether the tool is had.
#[must_use]
pub fn has(set: impl Into<Toolset>, name: ToolName) -> bool {
    let Toolset { profile, subagents } = set.into();
    match name {
        ToolName::SubagentStart | ToolName::SubagentGet | ToolName::SubagentStop => {
            subagents == SubagentPolicy::DeepseekExplicit && profile == Profile::WorktreeWrite
        }
        ToolName::Read | ToolName::FindFiles | ToolName::SearchText | ToolName::RunCommand => true,
        ToolName::Edit | ToolName::Write | ToolName::NotebookEdit => match profile {
            Profile::ReadOnly => false,
            Profile::DirectWrite | Profile::WorktreeWrite => true,
        },
    }
}

fn describe(name: ToolName) -> ToolDescription {
    let (description, fields) = match name {
        ToolName::Read => (read::DESCRIPTION, read::FIELDS),
        ToolName::FindFiles => (find_files::DESCRIPTION, find_files::FIELDS),
        ToolName::SearchText => (search_text::DESCRIPTION, search_text::FIELDS),
        ToolName::Edit => (edit::DESCRIPTION, edit::FIELDS),
        ToolName::Write => (write::DESCRIPTION, write::FIELDS),
        ToolName::NotebookEdit => (notebook_edit::DESCRIPTION, notebook_edit::FIELDS),
        ToolName::RunCommand => (run_command::DESCRIPTION, run_command::FIELDS),
        ToolName::SubagentStart => (subagent::START_DESCRIPTION, subagent::START_FIELDS),
        ToolName::SubagentGet => (subagent::GET_DESCRIPTION, subagent::GET_FIELDS),
        ToolName::SubagentStop => (subagent::STOP_DESCRIPTION, subagent::STOP_FIELDS),
    };
    let read_only =
        matches!(name, ToolName::Read | ToolName::FindFiles | ToolName::SearchText | ToolName::SubagentGet);
    ToolDescription { name, description, input_schema: input::schema(fields), read_only }
}

/// Performs an action that only looks, and writes its receipt. It blocks: run it where blocking is allowed.
#[must_use]
pub fn perform(
    input: &ReadingInput,
    ctx: &ToolContext,
    budget: ReceiptBudget,
    tool_call_id: &ToolCallId,
) -> Receipt {
    let place = input.place().map_or_else(|| ctx.files.root().path.clone(), PathBuf::from);
    if ctx.files.may_hang(&place) {
        patience::perform(input, ctx, budget, tool_call_id, place)
    } else {
        perform_here(input, ctx, budget, tool_call_id)
    }
}

fn perform_here(input: &ReadingInput, ctx: &ToolContext, budget: ReceiptBudget, id: &ToolCallId) -> Receipt {
    let frame = receipt::Frame { id, name: input.tool().as_str(), budget };
    match input {
        ReadingInput::Read(input) => read::perform(input, ctx, &frame),
        ReadingInput::FindFiles(input) => find_files::perform(input, ctx, &frame),
        ReadingInput::SearchText(input) => search_text::perform(input, ctx, &frame),
    }
}
