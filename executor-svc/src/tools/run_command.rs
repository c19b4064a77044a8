//! `RunCommand`: a program with exactly these arguments, in the sandbox. What it does is in [`crate::commands`]; here is
//! what the input looks like, and what the receipt says.

mod excerpt;
#[cfg(test)]
mod tests;

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::ToolCallId;
use gatehouse_sandbox::launch::Exit;
use nix::sys::signal::Signal;
use serde::Serialize;
use serde_json::Value;

use self::excerpt::{Excerpt, excerpts};
use super::input::{Field, InputFault, Kind, Need, checked};
use super::receipt::{Frame, Receipt};
use super::{ReceiptBudget, ToolName};
use crate::commands::{
    CommandCall, CommandFault, Finished, HiddenCount, MOST_SECONDS, SAFE_VARIABLES, StoppedBy, USUAL_SECONDS,
    is_safe_variable,
};

pub(super) const DESCRIPTION: &str = "Runs one program with exactly these arguments (no shell reads them) and waits for \
    its end: for building, testing and looking. It sees the whole file system read-only, without credentials; only \
    /tmp, HOME and TMPDIR can be written, and stay for the session's later commands (cargo, npm, pytest and go are \
    pointed there). There is no network. Programs that delete, move, gain privileges or control the system are refused. \
    Beginning and end of long output are kept. A command that fails is a receipt with ok = false, its exit_code and \
    its output. For a pipeline give a shell: [\"sh\", \"-c\", \"a | b\"].";

/// The most arguments, and the most bytes in all of them.
const MOST_ARGUMENTS: usize = 4096;
const MOST_ARGUMENT_BYTES: usize = 128 * 1024;
/// The most bytes of standard input.
const MOST_INPUT: usize = 512 * 1024;
/// The most variables, and the most bytes of each.
const MOST_VARIABLES: usize = 32;
const MOST_VARIABLE_BYTES: usize = 8 * 1024;

pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "argv",
        need: Need::Required,
        kind: Kind::Strings { min: 1, max: MOST_ARGUMENTS, bytes: MOST_ARGUMENT_BYTES },
        description: "The program (a name that is looked for, or a path) and its arguments, each a string of its own.",
    },
    Field {
        name: "cwd",
        need: Need::Optional,
        kind: Kind::Path,
        description: "Absolute path of the directory to run in: working_directory or one below it. Default: working_directory.",
    },
    Field {
        name: "stdin",
        need: Need::Optional,
        kind: Kind::Text { min: 0, max: MOST_INPUT },
        description: "What the program reads from its standard input. Default: nothing.",
    },
    Field {
        name: "timeout_seconds",
        need: Need::Optional,
        kind: Kind::Integer { min: 1, max: MOST_SECONDS, default: Some(USUAL_SECONDS) },
        description: "After how many seconds it is ended, with everything it has started.",
    },
    Field {
        name: "env",
        need: Need::Optional,
        kind: Kind::Variables { max: MOST_VARIABLES, bytes: MOST_VARIABLE_BYTES },
        description: "Further environment variables, such as RUST_LOG, NODE_ENV, PYTHONPATH, CI, LC_ALL or TEST_*. Names that lead programs astray are refused.",
    },
];

pub(super) fn check(input: &Value) -> Result<CommandCall, InputFault> {
    let call: CommandCall = checked(FIELDS, input)?;
    if call.argv.first().is_some_and(String::is_empty) {
        return Err(InputFault::at("argv", "the program's name is empty"));
    }
    let refused = call.env.iter().flatten().find(|(name, _)| !is_safe_variable(name));
    match refused {
        Some((name, _)) => {
            let safe: Vec<_> = SAFE_VARIABLES.iter().map(|variable| variable.name).collect();
            let name: String = name.chars().take(60).collect();
            Err(InputFault::at("env", format!("`{name}` cannot be set; these can: {}", safe.join(", "))))
        }
        None => Ok(call),
    }
}

/// What the receipt of a command says that ran.
#[derive(Debug, Clone, Serialize)]
struct Body<'a> {
    exit_code: Option<i32>,
    signal: Option<&'static str>,
    timed_out: bool,
    duration_ms: u64,
    peak_memory_bytes: u64,
    stdout: &'a str,
    stderr: &'a str,
    dropped: Dropped,
    enforced_by: &'a [String],
    hidden: Hidden,
    #[serde(skip_serializing_if = "super::receipt::is_zero")]
    redacted_passwords: usize,
}

/// How many bytes of the output the receipt does not show.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Dropped {
    stdout: u64,
    stderr: u64,
}

/// How many protected paths below the root the command could not see, and whether the look for them was cut short.
#[derive(Debug, Clone, Copy, Serialize)]
struct Hidden {
    paths: usize,
    scan_cut: bool,
}

/// Room for the numbers that are only known when the output is cut.
const NUMBERS: usize = 100;
/// Room for the words of a failure.
const WORDS: usize = 1024;

/// The receipt of a command that ran.
#[must_use]
pub fn command_receipt(id: &ToolCallId, budget: ReceiptBudget, finished: &Finished) -> Receipt {
    let frame = Frame { id, name: ToolName::RunCommand.as_str(), budget };
    let HiddenCount { below_root, cut } = finished.hidden;
    let mut body = Body {
        exit_code: match finished.exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) | Exit::TornDown => None,
        },
        signal: signal(finished),
        timed_out: finished.stopped_by == StoppedBy::TimeLimit,
        duration_ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
        peak_memory_bytes: finished.usage.peak_memory_bytes,
        stdout: "",
        stderr: "",
        dropped: Dropped::default(),
        enforced_by: &finished.enforced_by,
        hidden: Hidden { paths: below_root, scan_cut: cut },
        redacted_passwords: 0,
    };
    let room = frame.room_beside(&body).saturating_sub(NUMBERS + WORDS);
    let (stdout, stderr) = excerpts(&finished.stdout, &finished.stderr, room);
    let Excerpt { text, dropped, redacted } = &stdout;
    (body.stdout, body.dropped.stdout, body.redacted_passwords) = (text, *dropped, *redacted);
    let Excerpt { text, dropped, redacted } = &stderr;
    (body.stderr, body.dropped.stderr) = (text, *dropped);
    body.redacted_passwords += redacted;
    match failure(finished) {
        None => frame.success(&body),
        Some(Failed { code, message, hint }) => frame.failure_beside(code, &message, hint, &body),
    }
}

/// The receipt of a command that was not started.
#[must_use]
pub fn refused_command_receipt(id: &ToolCallId, budget: ReceiptBudget, fault: &CommandFault) -> Receipt {
    let frame = Frame { id, name: ToolName::RunCommand.as_str(), budget };
    frame.failure(fault.code(), &fault.to_string(), &fault.hint())
}

/// The receipt of a command that was running when the executor ended. It is never run again.
#[must_use]
pub fn interrupted_command_receipt(id: &ToolCallId, budget: ReceiptBudget) -> Receipt {
    let frame = Frame { id, name: ToolName::RunCommand.as_str(), budget };
    frame.failure(
        ActionCode::Cancelled,
        "the gateway was restarted while the command ran, which ended it; how far it came is not known",
        "It is not run again by itself. Nothing outside of its scratch can have changed. Run it again if it is still needed.",
    )
}

fn signal(finished: &Finished) -> Option<&'static str> {
    match finished.exit {
        Exit::Code(_) => None,
        Exit::Signal(number) => Some(Signal::try_from(number).map_or("unknown", Signal::as_str)),
        Exit::TornDown => Some(Signal::SIGKILL.as_str()),
    }
}

struct Failed {
    code: ActionCode,
    message: String,
    hint: &'static str,
}

fn failure(finished: &Finished) -> Option<Failed> {
    let failed = |code, message: &str, hint| Some(Failed { code, message: message.to_owned(), hint });
    match (finished.stopped_by, finished.exit) {
        (StoppedBy::TimeLimit, _) => failed(
            ActionCode::TimedOut,
            "the time limit ended the command and everything it had started",
            "Give it more time with timeout_seconds (at most 1800), or less to do.",
        ),
        (StoppedBy::OutputLimit, _) => failed(
            ActionCode::OutputCut,
            "the command wrote more than 64 MiB and was ended",
            "Make it write less, or into a file below /tmp and look at parts of that.",
        ),
        (StoppedBy::ScratchFull, _) => failed(
            ActionCode::DiskFull,
            "the session's scratch (/tmp) holds more than it may, so the command was ended",
            "The user can give more: config key commands.scratch_bytes.",
        ),
        (StoppedBy::Cancel, _) => failed(
            ActionCode::Cancelled,
            "the command was ended because the session stops",
            "How far it came is not known. Nothing outside of its scratch can have changed.",
        ),
        (StoppedBy::Itself, Exit::Code(0)) => None,
        (StoppedBy::Itself, Exit::Code(code)) => failed(
            ActionCode::CommandFailed,
            &format!("the command ended with exit code {code}"),
            "Its output says why.",
        ),
        (StoppedBy::Itself, Exit::Signal(_)) => failed(
            ActionCode::CommandFailed,
            &format!("the command was ended by {}", signal(finished).unwrap_or("a signal")),
            "SIGSYS or SIGKILL can mean that it tried what the sandbox does not allow, or had no memory left.",
        ),
        (StoppedBy::Itself, Exit::TornDown) => failed(
            ActionCode::Cancelled,
            "the command was ended from outside",
            "Somebody killed its sandbox. Run it again if it is still needed.",
        ),
    }
}
