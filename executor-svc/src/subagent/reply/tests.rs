use gatehouse_proto::ids::{RunId, SubagentId};
use proptest::prelude::*;

use super::*;
use crate::clock::Timestamp;
use crate::session::{Attachment, Grade, Run, SubagentLimits, SubagentState, Usage};

fn subagent() -> Subagent {
    Subagent {
        id: SubagentId::mint(),
        grade: Grade::Sonnet,
        claude_session_id: "c".into(),
        run: Run {
            id: RunId::mint(),
            ordinal: 1,
            epoch: 1,
            started_at: Timestamp::default(),
            attachment: Attachment::Attached,
            turns: 1,
            actions: 0,
            answered: None,
            calls: Vec::new(),
        },
        state: SubagentState::Working,
        deadline: Timestamp::default(),
        limits: SubagentLimits { turns: 1, output_tokens: 1 },
        requests: 1,
        usage: Usage::default(),
        enforced_by: Vec::new(),
    }
}

fn message(content: Vec<Value>, stop_reason: &str) -> Message {
    Message {
        id: "msg_1".into(),
        model: "deepseek-flash".into(),
        content,
        stop_reason: stop_reason.into(),
        usage: Usage { input_tokens: 1, output_tokens: 2 },
    }
}

fn take(content: Vec<Value>) -> Result<SubagentAnswer, SubagentFailure> {
    answer(message(content, "tool_use"), &subagent(), &TurnId::mint())
}

fn call(name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": "theirs", "name": name, "input": input})
}

#[test]
fn calls_get_ids_of_ours_in_what_is_committed_and_in_what_is_sent_back() {
    let thought = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let taken = take(vec![
        thought.clone(),
        json!({"type": "text", "text": "a"}),
        call("Read", &json!({"file_path": "/x"})),
        json!({"type": "text", "text": "b"}),
    ])
    .unwrap();
    assert_eq!((taken.text.as_str(), taken.reply_id.as_str()), ("ab", "msg_1"));
    assert_eq!(taken.calls[0].client_id.as_deref(), Some("theirs"));
    assert!(taken.refused.is_empty());
    let content: Value = serde_json::from_str(&taken.content).unwrap();
    assert_eq!(content[0], thought);
    assert_eq!(content[2]["id"], taken.calls[0].id.as_str());
    assert!(!taken.content.contains("theirs"));
}

#[test]
fn a_call_that_cannot_be_performed_is_answered_at_once_and_the_others_stand() {
    let mut content = vec![
        call("Read", &json!({"file_path": "relative"})),
        call("Bash", &json!({"command": "rm -rf /"})),
        call("deepseek_subagent_start", &json!({"prompt": "p", "grade": "opus"})),
        call("a b", &json!("not an object")),
        call("Read", &json!({"file_path": "/x"})),
    ];
    let taken = take(content.clone()).unwrap();
    let refused: Vec<_> = taken.refused.iter().map(|(id, _)| id).collect();
    assert_eq!(refused, taken.calls[..4].iter().map(|call| &call.id).collect::<Vec<_>>());
    assert_eq!(taken.calls[3].name, "unknown_tool");
    for (_, receipt) in &taken.refused {
        let told: Value = serde_json::from_str(&receipt.json).unwrap();
        assert_eq!(
            (receipt.ok, &told["code"], &told["detail"]),
            (false, &json!("cancelled"), &json!("not_invoked"))
        );
    }
    content = vec![call("Read", &json!({"file_path": "/x"})); 18];
    let taken = take(content).unwrap();
    assert_eq!((taken.calls.len(), taken.refused.len()), (18, 2), "16 are performed");
    assert_eq!(take(vec![call("Read", &json!({})); 65]).unwrap_err().kind, "answer_invalid");
}

#[test]
fn what_is_no_whole_answer_is_a_failure_of_its_kind() {
    let of =
        |content, stop: &str| answer(message(content, stop), &subagent(), &TurnId::mint()).unwrap_err().kind;
    let text = |text: &str| vec![json!({"type": "text", "text": text})];
    assert_eq!(of(text("x"), "max_tokens"), "output_limit");
    assert_eq!(of(text("x"), "refusal"), "answer_invalid");
    assert_eq!(of(text(" \n"), "end_turn"), "answer_invalid");
    assert_eq!(of(Vec::new(), "end_turn"), "answer_invalid");
    assert_eq!(of(vec![json!({"type": "image"})], "end_turn"), "answer_invalid");
    assert_eq!(of(text(&"x".repeat(REPLY_BYTES + 1)), "end_turn"), "answer_too_large");
}

proptest! {
    /// Whatever a model calls, exactly the calls with a good input of a tool that a subagent has are left to be performed.
    #[test]
    fn every_call_is_performed_or_refused_and_none_is_lost(names in proptest::collection::vec(
        prop_oneof![Just("Read"), Just("Edit"), Just("Bash"), Just("deepseek_subagent_stop"), Just("")], 1..20)
    ) {
        let content = names.iter().map(|name| call(name, &json!({"file_path": "/x"}))).collect();
        let taken = take(content).unwrap();
        prop_assert_eq!(taken.calls.len(), names.len());
        let content: Value = serde_json::from_str(&taken.content).unwrap();
        prop_assert_eq!(content.as_array().unwrap().len(), names.len());
        for (at, name) in names.iter().enumerate() {
            let refused = taken.refused.iter().any(|(id, _)| *id == taken.calls[at].id);
            prop_assert_eq!(refused, *name != "Read" || at >= CALLS);
        }
    }
}
