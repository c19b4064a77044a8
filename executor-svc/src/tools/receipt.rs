//! What an action leaves behind: one compact JSON object, born within its budget and never cut again.

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::ToolCallId;
use serde::Serialize;

pub use crate::session::Receipt;

use super::ToolName;
use super::cut::cut_to_json_bytes;
use crate::files::FileFault;

/// How large a receipt may be, in bytes of compact JSON, the envelope included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptBudget(usize);

impl ReceiptBudget {
    /// The largest: one call in its reply.
    pub const MAX: Self = Self(64 * 1024);
    /// The smallest: sixteen calls in one reply. Every tool can say something useful within it.
    pub const MIN: Self = Self(24 * 1024);

    /// No bound at all. No reply has it: it is for whoever wants everything on this machine, such as a measurement.
    pub const WITHOUT_BOUND: Self = Self(usize::MAX);

    /// The budget of each call in a reply of so many calls: min(64, 384 / n) KiB.
    #[must_use]
    pub const fn for_calls(calls: usize) -> Self {
        let share = 384 * 1024 / if calls == 0 { 1 } else { calls };
        Self::of_bytes(share)
    }

    /// A budget of so many bytes, brought between [`Self::MIN`] and [`Self::MAX`].
    #[must_use]
    pub const fn of_bytes(bytes: usize) -> Self {
        if bytes < Self::MIN.0 {
            Self::MIN
        } else if bytes > Self::MAX.0 {
            Self::MAX
        } else {
            Self(bytes)
        }
    }

    /// The budget in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0
    }
}

/// Leaves out of a receipt what counts nothing.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
pub(super) const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Leaves out of a receipt what begins at the beginning.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
pub(super) const fn is_one(number: &u64) -> bool {
    *number == 1
}

/// Which call a receipt belongs to, and how large it may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub id: &'a ToolCallId,
    /// The logical tool, or what the operator did.
    pub name: &'a str,
    pub budget: ReceiptBudget,
}

#[derive(Serialize)]
struct Success<'a, T> {
    tool_call_id: &'a ToolCallId,
    name: &'a str,
    ok: bool,
    #[serde(flatten)]
    body: &'a T,
}

#[derive(Serialize)]
struct Failure<'a> {
    tool_call_id: &'a ToolCallId,
    name: &'a str,
    ok: bool,
    code: ActionCode,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    hint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
}

#[derive(Serialize)]
struct FailureBeside<'a, T> {
    tool_call_id: &'a ToolCallId,
    name: &'a str,
    ok: bool,
    code: ActionCode,
    message: &'a str,
    hint: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// Room for the message and the hint of a failure, each, in bytes of JSON.
const SENTENCE: usize = 8 * 1024;

impl Frame<'_> {
    /// The receipt of a success. The tool has kept within the budget; should it have failed to, the receipt says so
    /// instead of being cut.
    pub(super) fn success(&self, body: &impl Serialize) -> Receipt {
        match self.json(body) {
            Some(json) if json.len() <= self.budget.bytes() => Receipt { ok: true, code: None, json },
            _ => self.failure(
                ActionCode::TooLarge,
                "the answer does not fit into one receipt",
                "Ask for less.",
            ),
        }
    }

    fn json(&self, body: &impl Serialize) -> Option<String> {
        let whole = Success { tool_call_id: self.id, name: self.name, ok: true, body };
        serde_json::to_string(&whole).ok()
    }

    /// What of the budget is left beside these fields, in bytes.
    pub(super) fn room_beside(&self, body: &impl Serialize) -> usize {
        let used = self.json(body).map_or(usize::MAX, |json| json.len());
        self.budget.bytes().saturating_sub(used)
    }

    /// A failure's receipt.
    pub(super) fn failure(&self, code: ActionCode, message: &str, hint: &str) -> Receipt {
        self.failure_with(code, message, hint, None)
    }

    /// The receipt of a failure that has something to show. The tool has kept within the budget, as for a success; the
    /// words take at most a kilobyte.
    pub(super) fn failure_beside(
        &self,
        code: ActionCode,
        message: &str,
        hint: &str,
        body: &impl Serialize,
    ) -> Receipt {
        let whole =
            FailureBeside { tool_call_id: self.id, name: self.name, ok: false, code, message, hint, body };
        match serde_json::to_string(&whole) {
            Ok(json) if json.len() <= self.budget.bytes() => Receipt { ok: false, code: Some(code), json },
            _ => self.failure(code, message, hint),
        }
    }

    /// The receipt of a file that could not be used.
    pub(super) fn fault(&self, fault: &FileFault) -> Receipt {
        self.failure(fault.code(), &fault.to_string(), &fault.hint())
    }

    fn failure_with(
        &self,
        code: ActionCode,
        message: &str,
        hint: &str,
        detail: Option<&'static str>,
    ) -> Receipt {
        let whole = Failure {
            tool_call_id: self.id,
            name: self.name,
            ok: false,
            code,
            message: cut_to_json_bytes(message, SENTENCE),
            hint: cut_to_json_bytes(hint, SENTENCE),
            detail,
        };
        // A struct of strings always serialises; were it not so, an empty object would still be honest JSON.
        let json = serde_json::to_string(&whole).unwrap_or_else(|_| "{}".to_owned());
        Receipt { ok: false, code: Some(code), json }
    }
}

/// The receipt of an action that was never performed: cancelled, or answered by Claude Code itself.
#[must_use]
pub fn cancelled_receipt(id: &ToolCallId, name: ToolName, text: &str, budget: ReceiptBudget) -> Receipt {
    let frame = Frame { id, name: name.as_str(), budget };
    frame.failure_with(ActionCode::Cancelled, text, "Nothing was done.", Some("not_invoked"))
}

/// The receipt of a call of a model that cannot be performed as it is; the name is the model's own.
#[must_use]
pub fn not_performed_receipt(id: &ToolCallId, name: &str, text: &str, budget: ReceiptBudget) -> Receipt {
    let frame = Frame { id, name, budget };
    let hint = "Nothing was done. Correct the call and make it again.";
    frame.failure_with(ActionCode::Cancelled, text, hint, Some("not_invoked"))
}
