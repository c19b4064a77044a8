use gatehouse_proto::ids::LinkToken;

use super::*;
use crate::plan::tests::plan;

fn handler() -> Handler {
    let link = Link::new(std::path::Path::new("/nowhere.sock"), &LinkToken::mint().unwrap()).unwrap();
    Handler { link, binding: Binding::default(), tools: plan().tools.iter().map(advertised).collect() }
}

#[tokio::test]
async fn a_call_is_bound_to_its_id_name_and_input() {
    let id = ToolCallId::mint();
    let mut params = CallToolRequestParams::new("Read");
    params.arguments = Some(json!({"b": 1.0, "a": "x"}).as_object().unwrap().clone());
    let bound = handler().bound_call(params, Some(&json!(id.as_str()))).unwrap();
    assert_eq!(bound.tool_call_id, id.as_str());
    assert_eq!(bound.name, "Read");
    assert_eq!(bound.input_sha256, digest::digest(&json!({"a": "x", "b": 1})));

    let empty = handler().bound_call(CallToolRequestParams::new("Edit"), Some(&json!(id.as_str()))).unwrap();
    assert_eq!(empty.input_sha256, digest::digest(&json!({})));
}

#[tokio::test]
async fn a_call_without_an_id_of_ours_or_of_an_unknown_tool_is_refused() {
    let id = json!(ToolCallId::mint().as_str());
    let refused = [
        ("Read", None),
        ("Read", Some(json!("toolu_01A"))),
        ("Read", Some(json!("call_0123456789abcdef01234567"))),
        ("Read", Some(json!(7))),
        ("read", Some(id.clone())),
        ("mcp__gatehouse__Read", Some(id)),
    ];
    for (name, call_id) in refused {
        let error = handler().bound_call(CallToolRequestParams::new(name), call_id.as_ref()).unwrap_err();
        assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS, "{name} {call_id:?}");
    }
}

#[test]
fn tools_are_advertised_with_their_hint_and_the_size_of_results() {
    let tools: Vec<Value> =
        plan().tools.iter().map(|tool| serde_json::to_value(advertised(tool)).unwrap()).collect();
    assert_eq!(tools[0]["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(tools[1]["annotations"], json!({"readOnlyHint": false}));
    assert_eq!(tools[0]["_meta"], json!({"anthropic/maxResultSizeChars": 200_000}));
}

#[test]
fn a_refused_call_is_a_result_that_claude_code_can_read() {
    let refused = result(Err(Refused("no such action".into())));
    assert_eq!(refused.is_error, Some(true));
    let failed = result(Ok(InvokeToolReply { ok: false, short_result: "x".into() }));
    assert_eq!(failed.is_error, Some(true));
    assert_eq!(result(Ok(InvokeToolReply { ok: true, short_result: "x".into() })).is_error, Some(false));
}
