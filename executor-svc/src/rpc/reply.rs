//! A reply's calls: checked one by one, refused all together.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::digest::{canonical_json, digest};
use gatehouse_proto::ids::ToolCallId;
use gatehouse_proto::v1::ToolCall;
use serde_json::{Value, json};

use crate::session::{CallRequest, Profile, Refusal, ReplyFault, SubagentPolicy};
use crate::tools::{self, ToolName, Toolset};

/// Text plus calls of a reply, in bytes.
const REPLY_BYTES: usize = 768 * 1024;
const REPLY_CALLS: usize = 16;

/// The hash by which a repeat of the same reply is known.
pub(super) fn content_hash(turn: &str, text: &str, calls: &[ToolCall]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            // A text that is no JSON is its own content; it is refused later.
            let input = serde_json::from_str(&call.input_json)
                .unwrap_or_else(|_| Value::String(call.input_json.clone()));
            json!({ "name": call.name, "input": input, "id": call.client_id })
        })
        .collect();
    digest(&json!({ "turn_id": turn, "text": text, "tool_calls": calls }))
}

/// Mints an id for each call if all of them may be authorised; names every call at fault otherwise.
pub(super) fn check(
    set: impl Into<Toolset>,
    text: &str,
    calls: &[ToolCall],
) -> Result<Vec<CallRequest>, Refusal> {
    let set = set.into();
    bounds(text, calls)?;
    let mut checked = Vec::with_capacity(calls.len());
    let mut faults: Vec<(ErrorCode, (usize, String, String))> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        match check_one(set, call) {
            Ok(request) => checked.push(request),
            Err((code, why)) => faults.push((code, (index, bounded(&call.name), why))),
        }
    }
    match faults.first() {
        None => Ok(checked),
        Some((code, _)) => Err(refuse(*code, faults.into_iter().map(|(_, fault)| fault).collect())),
    }
}

fn bounds(text: &str, calls: &[ToolCall]) -> Result<(), Refusal> {
    let fault = |code, message: String, what_to_do: &str| {
        Err(Refusal::Reply(ReplyFault {
            code,
            message,
            what_to_do: what_to_do.to_owned(),
            calls: Vec::new(),
        }))
    };
    if text.trim().is_empty() && calls.is_empty() {
        return fault(
            ErrorCode::InvalidArgument,
            "A reply needs text or at least one tool call.".to_owned(),
            "Give `text` or `tool_calls`.",
        );
    }
    if calls.len() > REPLY_CALLS {
        let message = format!("The reply has {} tool calls; at most {REPLY_CALLS} are allowed.", calls.len());
        return fault(ErrorCode::InvalidArgument, message, "Send fewer calls; the next turn can take more.");
    }
    let bytes = text.len() + calls.iter().map(|call| call.name.len() + call.input_json.len()).sum::<usize>();
    if bytes > REPLY_BYTES {
        let message =
            format!("Text and calls together have {bytes} bytes; at most {REPLY_BYTES} are allowed.");
        return fault(ErrorCode::ReplyTooLarge, message, "Split the work over several turns.");
    }
    Ok(())
}

fn check_one(set: Toolset, call: &ToolCall) -> Result<CallRequest, (ErrorCode, String)> {
    let Some(name) = ToolName::parse(&call.name) else {
        return Err((ErrorCode::ToolNotAllowed, unknown_tool(&call.name)));
    };
    if !tools::has(set, name) {
        return Err((ErrorCode::ProfileForbids, forbidden(set, name)));
    }
    if call.client_id.as_ref().is_some_and(|id| id.len() > 200) {
        return Err((ErrorCode::ToolInputInvalid, "its id has more than 200 bytes".to_owned()));
    }
    let invalid = |why: String| (ErrorCode::ToolInputInvalid, why);
    let input: Value = serde_json::from_str(&call.input_json).map_err(|error| invalid(error.to_string()))?;
    let input = tools::check(name, &input).map_err(|fault| invalid(fault.to_string()))?.to_value();
    Ok(CallRequest {
        id: ToolCallId::mint(),
        name: name.as_str().to_owned(),
        client_id: call.client_id.clone(),
        input_sha256: digest(&input),
        input: canonical_json(&input),
    })
}

fn forbidden(set: Toolset, name: ToolName) -> String {
    if tools::has(Toolset { subagents: SubagentPolicy::DeepseekExplicit, ..set }, name) {
        "the session was started without subagent_policy deepseek_explicit".to_owned()
    } else {
        "the session's profile does not have this tool".to_owned()
    }
}

fn unknown_tool(name: &str) -> String {
    match name.strip_prefix("mcp__gatehouse__").and_then(ToolName::parse) {
        Some(logical) => format!("use the logical name `{logical}`"),
        None => {
            let listed = |name: &&ToolName| tools::has(Toolset::from(Profile::DirectWrite), **name);
            let names: Vec<_> = ToolName::ALL.iter().filter(listed).map(|name| name.as_str()).collect();
            format!("there is no such tool; there are {}", names.join(", "))
        }
    }
}

fn refuse(code: ErrorCode, calls: Vec<(usize, String, String)>) -> Refusal {
    let list: Vec<_> =
        calls.iter().map(|(index, name, why)| format!("call {index} ({name}): {why}")).collect();
    let message = format!("Nothing of this reply was taken. {}.", list.join("; "));
    let what_to_do = "Correct every call that is named and send the whole reply again; the turn and the reply_id are still free.";
    Refusal::Reply(ReplyFault { code, message, what_to_do: what_to_do.to_owned(), calls })
}

/// A caller's text, short enough to be told back.
fn bounded(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: &Value) -> ToolCall {
        ToolCall { name: name.into(), input_json: input.to_string(), client_id: None }
    }

    fn code(result: Result<Vec<CallRequest>, Refusal>) -> ErrorCode {
        match result {
            Err(Refusal::Reply(fault)) => fault.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_good_reply_gets_an_id_per_call_and_a_digest_of_what_was_given() {
        let input = json!({ "file_path": "/etc/hostname" });
        let calls = check(Profile::ReadOnly, "", &[call("Read", &input)]).unwrap();
        assert_eq!(calls[0].input_sha256, digest(&input));
    }

    #[test]
    fn every_call_at_fault_is_named() {
        let calls = [
            call("Read", &json!({ "file_path": "/x" })),
            call("Bash", &json!({})),
            call("mcp__gatehouse__Read", &json!({})),
        ];
        let Err(Refusal::Reply(fault)) = check(Profile::ReadOnly, "", &calls) else { panic!("accepted") };
        assert_eq!(fault.code, ErrorCode::ToolNotAllowed);
        assert_eq!(fault.calls.iter().map(|c| c.0).collect::<Vec<_>>(), [1, 2]);
        assert!(fault.calls[1].2.contains("logical name `Read`"));
    }

    #[test]
    fn blank_oversized_and_overlong_replies_are_refused() {
        assert_eq!(code(check(Profile::ReadOnly, " \n", &[])), ErrorCode::InvalidArgument);
        assert_eq!(
            code(check(Profile::ReadOnly, &"x".repeat(REPLY_BYTES + 1), &[])),
            ErrorCode::ReplyTooLarge
        );
        let many = vec![call("Read", &json!({ "file_path": "/x" })); 17];
        assert_eq!(code(check(Profile::ReadOnly, "", &many)), ErrorCode::InvalidArgument);
        assert_eq!(
            code(check(Profile::ReadOnly, "", &[call("Read", &json!({ "path": 1 }))])),
            ErrorCode::ToolInputInvalid
        );
    }

    #[test]
    fn the_content_hash_sees_every_part_and_not_the_order_of_keys() {
        let one = content_hash("t", "x", &[call("Read", &json!({ "a": 1, "b": 2 }))]);
        assert_eq!(
            one,
            content_hash(
                "t",
                "x",
                &[ToolCall { input_json: "{\"b\":2,\"a\":1}".into(), ..call("Read", &json!({})) }]
            )
        );
        assert_ne!(one, content_hash("t", "y", &[call("Read", &json!({ "a": 1, "b": 2 }))]));
        assert_ne!(one, content_hash("u", "x", &[call("Read", &json!({ "a": 1, "b": 2 }))]));
    }
}
