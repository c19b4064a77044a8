//! `native_session_reply_and_wait`.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::{ReplyRequest, ToolCall};
use serde_json::{Map, Value, json};

use super::fields::{LEASE, REPLY_ID, SESSION, TURN};
use super::input::{Arguments, Limits, ListField, TextField, object};
use crate::executor::Call;
use crate::surface::{Effect, ToolSpec};
use crate::waits::LONGEST;

const NAME: &str = "native_session_reply_and_wait";
const DESCRIPTION: &str = "\
Answer the pending turn of a session as its model, with text, tool calls, or both, and wait for what comes next. The \
tool calls are carried out by the session on the user's computer, in order; their complete receipts come back as \
tool_results in the next pending_turn, which you answer in the same way. A reply without tool_calls is the final answer \
of the run: the session becomes idle, with last_result, and native_session_continue starts the next run. Call only \
tools that pending_turn.tools names, by those names. Each turn takes exactly one reply, with a new reply_id. If the \
result says running, wait with native_session_status. If the answer is lost, make the same call with the same reply_id \
and the same content: the calls are not carried out twice. A reply that is refused used nothing up: correct it and send \
it again.";

/// Text and calls together, in bytes.
const MAX_REPLY: usize = 768 * 1024;

const TEXT: TextField = TextField {
    name: "text",
    description: "What you say in this turn; without tool_calls, the run's final answer. Text and tool_calls together at \
                  most 768 KiB.",
    limits: Limits::Elsewhere,
};

const CALLS: ListField = ListField {
    name: "tool_calls",
    description: "The tool calls of this turn, at most 16. Leave it out to end the run.",
    at_most: 16,
};

const CALL_NAME: TextField = TextField {
    name: "name",
    description: "The tool, as pending_turn.tools names it, for example Read or SearchText.",
    limits: Limits::Characters(1, 200),
};

const CALL_INPUT: &str = "input";

const CALL_ID: TextField = TextField {
    name: "id",
    description: "Your own id of this call, given back as client_id beside its receipt.",
    limits: Limits::Characters(1, 200),
};

pub(super) fn spec() -> ToolSpec {
    let input = json!({
        "type": "object",
        "description": "The tool's input, as its input_schema in the first pending_turn of the run says.",
        "additionalProperties": true,
    });
    let call = object(
        [CALL_NAME.property(), (CALL_INPUT, input), CALL_ID.property()],
        &[CALL_NAME.name, CALL_INPUT],
    );
    let properties = [
        SESSION.property(),
        LEASE.property(),
        TURN.property(),
        REPLY_ID.property(),
        TEXT.property(),
        CALLS.property(&call),
    ];
    ToolSpec {
        name: NAME,
        title: "Answer the pending turn",
        description: DESCRIPTION,
        effect: Effect::Destructive,
        input_schema: object(properties, &[SESSION.name, LEASE.name, TURN.name, REPLY_ID.name]),
        output_schema: super::schema::output(),
    }
}

pub(super) fn read(given: Map<String, Value>) -> Result<Call, Refusal> {
    let mut arguments = Arguments::new(given);
    let request = ReplyRequest {
        native_session_id: arguments.text(&SESSION),
        lease_id: arguments.text(&LEASE),
        turn_id: arguments.text(&TURN),
        reply_id: arguments.text(&REPLY_ID),
        text: arguments.optional_text(&TEXT),
        tool_calls: arguments.list(&CALLS, |call| ToolCall {
            name: call.text(&CALL_NAME),
            input_json: Value::Object(call.any_object(CALL_INPUT)).to_string(),
            client_id: call.optional_text(&CALL_ID),
        }),
        wait_seconds: Some(u32::try_from(LONGEST.as_secs()).unwrap_or(0)),
    };
    arguments.finish(NAME)?;
    says_something(&request)?;
    fits(&request)?;
    Ok(Call::Reply(request))
}

fn says_something(request: &ReplyRequest) -> Result<(), Refusal> {
    let blank = request.text.as_deref().is_none_or(|text| text.trim().is_empty());
    if !blank || !request.tool_calls.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::InvalidArgument,
        "A reply needs text that is not blank, or at least one tool call.",
        "Give text (the final answer, if there are no tool calls) or tool_calls. The turn is still open.",
    ))
}

/// The executor measures exactly; this keeps what cannot pass from being carried any further.
fn fits(request: &ReplyRequest) -> Result<(), Refusal> {
    let text = request.text.as_ref().map_or(0, String::len);
    let calls: usize = request.tool_calls.iter().map(|call| call.input_json.len()).sum();
    if text + calls <= MAX_REPLY {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::ReplyTooLarge,
        format!("Text and tool calls together have {} bytes; a reply may have {MAX_REPLY}.", text + calls),
        "Send less in one reply: fewer calls, or smaller ones. The turn is still open and reply_id is not used up.",
    )
    .with("limit_bytes", MAX_REPLY))
}
