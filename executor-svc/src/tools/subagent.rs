//! `deepseek_subagent_start`, `_get` and `_stop`: what their inputs are, and what their receipts say. What they do is the
//! action path's.

use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::ids::ToolCallId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cut::{cut_to_json_bytes, json_len};
use super::input::{Field, InputFault, Kind, Need, checked};
use super::receipt::{Frame, Receipt, ReceiptBudget};
use crate::ledger::subagents::{Deed, SubagentRow};
use crate::session::{Grade, SUBAGENT_GET, SUBAGENT_START, SUBAGENT_STOP};

pub(super) const START_DESCRIPTION: &str = "Hands a piece of work to a DeepSeek subagent: an isolated sub-session in \
    the same worktree, with Read, FindFiles, SearchText, Edit, Write, NotebookEdit and RunCommand. Only if the user \
    wants that: the prompt and every file it reads go to DeepSeek, and it costs the user money. It knows nothing but \
    the prompt. Must be the only call of its reply. One at a time; until it is over you can only look, and must not \
    end the run: wait with deepseek_subagent_get, or end it with deepseek_subagent_stop.";
pub(super) const GET_DESCRIPTION: &str = "Tells where a DeepSeek subagent stands: status (started, running, stopping, \
    finished, failed, stopped), its result, what it did, what it took, and what went wrong. wait_seconds waits for it \
    to be over.";
pub(super) const STOP_DESCRIPTION: &str = "Ends a DeepSeek subagent and waits until it is seen to be gone. What it \
    changed stays. Stopping one that is over changes nothing.";

const SUBSESSION_ID: Field = Field {
    name: "subsession_id",
    need: Need::Required,
    kind: Kind::Line { min: 1, max: 64 },
    description: "The id that deepseek_subagent_start gave.",
};

pub(super) const START_FIELDS: &[Field] = &[
    Field {
        name: "prompt",
        need: Need::Required,
        kind: Kind::Text { min: 1, max: 256 * 1024 },
        description: "The whole task, with everything it needs to know: it sees nothing of this conversation.",
    },
    Field {
        name: "grade",
        need: Need::Required,
        kind: Kind::Choice(&["sonnet", "opus", "fable"]),
        description: "How able it should be. sonnet and opus: DeepSeek Flash. fable: DeepSeek Pro. No other model \
                      stands in.",
    },
];
pub(super) const GET_FIELDS: &[Field] = &[
    SUBSESSION_ID,
    Field {
        name: "wait_seconds",
        need: Need::Optional,
        kind: Kind::Integer { min: 0, max: 50, default: Some(0) },
        description: "How long to wait for it to be over, in seconds.",
    },
];
pub(super) const STOP_FIELDS: &[Field] = &[SUBSESSION_ID];

/// How many of its actions a receipt lists at most.
pub const LISTED_DEEDS: u32 = 40;

/// The input of a subagent tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SubagentInput {
    /// For `deepseek_subagent_start`.
    Start(StartInput),
    /// For `deepseek_subagent_get`.
    Get(GetInput),
    /// For `deepseek_subagent_stop`.
    Stop(StopInput),
}

/// The input of `deepseek_subagent_start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartInput {
    /// What it is asked.
    pub prompt: String,
    /// How able it should be.
    pub grade: Grade,
}

/// The input of `deepseek_subagent_get`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetInput {
    /// Which one.
    pub subsession_id: String,
    /// How long to wait for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u64>,
}

/// The input of `deepseek_subagent_stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopInput {
    /// Which one.
    pub subsession_id: String,
}

pub(super) fn check_start(input: &Value) -> Result<SubagentInput, InputFault> {
    checked(START_FIELDS, input).map(SubagentInput::Start)
}

pub(super) fn check_get(input: &Value) -> Result<SubagentInput, InputFault> {
    checked(GET_FIELDS, input).map(SubagentInput::Get)
}

pub(super) fn check_stop(input: &Value) -> Result<SubagentInput, InputFault> {
    checked(STOP_FIELDS, input).map(SubagentInput::Stop)
}

impl SubagentInput {
    const fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => SUBAGENT_START,
            Self::Get(_) => SUBAGENT_GET,
            Self::Stop(_) => SUBAGENT_STOP,
        }
    }
}

/// What the receipt of a subagent tool is for.
#[derive(Debug, Clone, Copy)]
pub struct SubagentReceipts<'a> {
    /// The action.
    pub id: &'a ToolCallId,
    /// What it may take.
    pub budget: ReceiptBudget,
    /// The call.
    pub input: &'a SubagentInput,
}

impl SubagentReceipts<'_> {
    const fn frame(&self) -> Frame<'_> {
        Frame { id: self.id, name: self.input.name(), budget: self.budget }
    }

    /// It has begun.
    #[must_use]
    pub fn started(&self, subsession: &str, route: &str) -> Receipt {
        self.frame().success(&json!({ "subsession_id": subsession, "route": route, "status": "started" }))
    }

    /// There is none of that id.
    #[must_use]
    pub fn unknown(&self) -> Receipt {
        let hint = "The ids are in deepseek_subsessions of the session's state.";
        self.frame().failure(ActionCode::NotFound, "this session has no such subagent", hint)
    }

    /// It cannot be begun.
    #[must_use]
    pub fn switched_off(&self, why: &str) -> Receipt {
        let hint = "The user has to look at the [deepseek] section of the gateway's configuration.";
        self.frame().failure(ActionCode::PermissionDenied, why, hint)
    }

    /// What a stop came to.
    #[must_use]
    pub fn stopped(&self, row: &SubagentRow) -> Receipt {
        self.frame().success(&json!({ "subsession_id": row.id, "status": row.status }))
    }

    /// Where it stands: the result is cut to what there is room for, and nothing else.
    #[must_use]
    pub fn looked(&self, row: &SubagentRow, route: &str, deeds: &(u32, Vec<Deed>)) -> Receipt {
        let (total, latest) = deeds;
        let error: Option<Value> = row.failure.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let mut body = json!({
            "subsession_id": row.id,
            "status": row.status,
            "grade": row.grade,
            "route": route,
            "model": row.model,
            "model_verified": row.model_verified,
            "result": null,
            "result_truncated": false,
            "error": error,
            "usage": {
                "requests": row.requests,
                "input_tokens": row.input_tokens,
                "output_tokens": row.output_tokens,
            },
            "actions_total": total,
            "actions": latest.iter().map(deed).collect::<Vec<_>>(),
        });
        if let Some(result) = &row.result {
            // What stands there already, null and false, is longer than the two quotes and the true.
            let room = self.frame().room_beside(&body);
            let cut = cut_to_json_bytes(result, room);
            body["result_truncated"] = json!(json_len(cut) < json_len(result));
            body["result"] = json!(cut);
        }
        self.frame().success(&body)
    }
}

/// A path is shown as far as it says where; thousands of bytes of it say no more.
fn deed(deed: &Deed) -> Value {
    let mut shown = json!({ "tool_call_id": deed.id, "name": deed.name, "state": deed.state });
    if let Some(ok) = deed.ok {
        shown["ok"] = json!(ok);
    }
    if let Some(code) = &deed.code {
        shown["code"] = json!(code);
    }
    if let Some(path) = &deed.path {
        shown["file_path"] = json!(cut_to_json_bytes(path, 300));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    fn row(result: &str) -> SubagentRow {
        SubagentRow {
            id: "sub_x".into(),
            session_id: "ns_x".into(),
            started_by: "toolu_x".into(),
            grade: "fable".into(),
            status: "finished".into(),
            started_at: Timestamp::default(),
            ended_at: None,
            requests: 2,
            input_tokens: 3,
            output_tokens: 4,
            model: Some("deepseek-v4-pro".into()),
            model_verified: Some(true),
            result: Some(result.into()),
            failure: None,
        }
    }

    fn looked(result: &str) -> Value {
        let input = SubagentInput::Get(GetInput { subsession_id: "sub_x".into(), wait_seconds: None });
        let id = ToolCallId::mint();
        let receipts = SubagentReceipts { id: &id, budget: ReceiptBudget::MIN, input: &input };
        let deed = Deed {
            id: "toolu_y".into(),
            name: "Edit".into(),
            state: "done".into(),
            ok: Some(true),
            code: None,
            path: Some(format!("/{}", "x".repeat(4000))),
        };
        let receipt = receipts.looked(&row(result), "deepseek-v4-pro", &(50, vec![deed; 40]));
        assert!(receipt.ok && receipt.json.len() <= ReceiptBudget::MIN.bytes(), "{}", receipt.json.len());
        serde_json::from_str(&receipt.json).unwrap()
    }

    #[test]
    fn a_result_is_told_whole_or_cut_between_characters_within_the_budget() {
        let whole = looked("done");
        assert_eq!((&whole["result"], &whole["result_truncated"]), (&json!("done"), &json!(false)));
        assert_eq!(whole["usage"], json!({"requests": 2, "input_tokens": 3, "output_tokens": 4}));
        for long in ["é".repeat(40_000), "\n".repeat(40_000), "\u{1}\"日".repeat(20_000)] {
            let cut = looked(&long);
            assert_eq!(cut["result_truncated"], true);
            let text = cut["result"].as_str().unwrap();
            assert!(text.len() > 100 && long.starts_with(text));
        }
    }

    #[test]
    fn an_input_comes_back_from_the_ledger_as_it_was() {
        for input in [
            check_start(&json!({"prompt": "p", "grade": "opus"})).unwrap(),
            check_get(&json!({"subsession_id": "sub_1", "wait_seconds": 50})).unwrap(),
            check_get(&json!({"subsession_id": "sub_1"})).unwrap(),
            check_stop(&json!({"subsession_id": "sub_1"})).unwrap(),
        ] {
            let value = serde_json::to_value(&input).unwrap();
            let again = match &input {
                SubagentInput::Start(_) => check_start(&value),
                SubagentInput::Get(_) => check_get(&value),
                SubagentInput::Stop(_) => check_stop(&value),
            };
            assert_eq!(again.unwrap(), input);
        }
        assert!(check_start(&json!({"prompt": "p", "grade": "haiku"})).is_err());
        assert!(check_start(&json!({"prompt": "", "grade": "opus"})).is_err());
        assert!(check_start(&json!({"prompt": "p", "grade": "opus", "model": "x"})).is_err());
        assert!(check_get(&json!({"subsession_id": "s", "wait_seconds": 51})).is_err());
    }
}
