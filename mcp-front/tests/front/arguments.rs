//! Arguments that are refused: as tool errors that name every field at fault, so that the model can correct itself.

use serde_json::{Value, json};

use crate::client::{Ask, refusal, tool};
use crate::process::HttpFront;

/// Calls whose arguments are refused: the tool, the arguments, the field at fault, and a word of the reason.
#[test]
fn arguments_that_are_refused_by_name() {
    let front = HttpFront::start(&[]);
    let start = json!({"prompt": "p", "working_directory": "/", "idempotency_key": "0123456789abcdef"});
    let reply =
        json!({"native_session_id": "n", "lease_id": "l", "turn_id": "t", "reply_id": "r", "text": "x"});
    let status = json!({"native_session_id": "n", "lease_id": "l"});
    let stop = json!({"native_session_id": "n", "lease_id": "l", "request_id": "r"});
    let run = json!({"native_session_id": "n", "lease_id": "l", "prompt": "p", "idempotency_key": "0123456789abcdef"});
    let recover = json!({"native_session_id": "n", "recovery_token": "t", "recovery_id": "r"});
    let call = |call: Value| json!({"tool_calls": [call]});
    let skill = |skill: Value| json!({"skill_contexts": [skill]});
    let skills = |number, content: &str| json!({"skill_contexts": vec![json!({"skill_id": "s", "content": content}); number]});
    let cases = [
        ("start", &start, json!({"prompt": null}), "prompt", "null"),
        ("start", &start, json!({"prompt": ""}), "prompt", "1 to 262144 bytes"),
        ("start", &start, json!({"prompt": "ä".repeat(131_073)}), "prompt", "262146"),
        ("start", &start, json!({"prompt": 7}), "prompt", "string"),
        ("start", &start, json!({"working_directory": ""}), "working_directory", "bytes"),
        ("start", &start, json!({"idempotency_key": "short"}), "idempotency_key", "16 to 200"),
        ("start", &start, json!({"idempotency_key": "x".repeat(201)}), "idempotency_key", "201"),
        (
            "start",
            &start,
            json!({"capability_profile": "admin"}),
            "capability_profile",
            "read_only, direct_write, worktree_write",
        ),
        ("start", &start, json!({"capability_profile": null}), "capability_profile", "one of"),
        ("start", &start, json!({"subagent_policy": "all"}), "subagent_policy", "none, deepseek_explicit"),
        ("start", &start, json!({"skill_contexts": {}}), "skill_contexts", "array"),
        ("start", &start, skills(9, "x"), "skill_contexts", "at most 8"),
        ("start", &start, skills(1, &"x".repeat(262_145)), "skill_contexts[0].content", "262144"),
        ("start", &start, skill(json!("s")), "skill_contexts[0]", "object"),
        ("start", &start, skill(json!({"content": "x"})), "skill_contexts[0].skill_id", "missing"),
        (
            "start",
            &start,
            skill(json!({"skill_id": "s", "model": "m"})),
            "skill_contexts[0].model",
            "route is fixed",
        ),
        ("start", &start, json!({"session_label": "x".repeat(81)}), "session_label", "80 characters"),
        ("start", &start, json!({"wait_seconds": 51}), "wait_seconds", "0 to 50"),
        ("start", &start, json!({"wait_seconds": -1}), "wait_seconds", "0 to 50"),
        ("start", &start, json!({"wait_seconds": 1.5}), "wait_seconds", "whole number"),
        ("start", &start, json!({"wait_seconds": "30"}), "wait_seconds", "whole number"),
        ("start", &start, json!({"model": "gpt"}), "model", "route is fixed"),
        ("start", &start, json!({"provider": "x"}), "provider", "route is fixed"),
        ("start", &start, json!({"endpoint": "x"}), "endpoint", "route is fixed"),
        ("start", &start, json!({"api_key": "x"}), "api_key", "route is fixed"),
        ("start", &start, json!({"fallback": "x"}), "fallback", "route is fixed"),
        ("start", &start, json!({"Model": "x"}), "Model", "route is fixed"),
        ("start", &start, json!({"lease_id": "x"}), "lease_id", "not a field of this tool"),
        ("continue", &run, json!({"working_directory": "/"}), "working_directory", "not a field"),
        ("continue", &run, json!({"prompt": "x".repeat(262_145)}), "prompt", "262145"),
        (
            "continue",
            &run,
            json!({"capability_profile": "direct_write"}),
            "capability_profile",
            "not a field",
        ),
        ("recover", &recover, json!({"recovery_token": ""}), "recovery_token", "1 to 200"),
        ("recover", &recover, json!({"lease_id": "x"}), "lease_id", "not a field"),
        ("reply_and_wait", &reply, json!({"wait_seconds": 5}), "wait_seconds", "not a field"),
        ("reply_and_wait", &reply, json!({"text": 5}), "text", "string"),
        (
            "reply_and_wait",
            &reply,
            json!({"tool_calls": vec![json!({"name": "Read", "input": {}}); 17]}),
            "tool_calls",
            "at most 16",
        ),
        ("reply_and_wait", &reply, call(json!({"input": {}})), "tool_calls[0].name", "missing"),
        ("reply_and_wait", &reply, call(json!({"name": "Read"})), "tool_calls[0].input", "missing"),
        (
            "reply_and_wait",
            &reply,
            call(json!({"name": "Read", "input": "{}"})),
            "tool_calls[0].input",
            "object",
        ),
        (
            "reply_and_wait",
            &reply,
            call(json!({"name": "Read", "input": {}, "endpoint": "x"})),
            "tool_calls[0].endpoint",
            "route is fixed",
        ),
        (
            "reply_and_wait",
            &reply,
            call(json!({"name": "Read", "input": {}, "arguments": {}})),
            "tool_calls[0].arguments",
            "not a field",
        ),
        ("status", &status, json!({"lease_id": 7}), "lease_id", "string"),
        ("status", &status, json!({"wait_seconds": 3600}), "wait_seconds", "0 to 50"),
        ("stop", &stop, json!({"reason": "x".repeat(501)}), "reason", "500"),
        ("stop", &stop, json!({"force": true}), "force", "not a field"),
    ];
    for (name, valid, change, field, reason) in cases {
        let mut arguments = valid.clone();
        arguments.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let reply = Ask::message(&tool(&format!("native_session_{name}"), arguments)).send(&front);
        assert_eq!(reply.status, 200);
        let refusal = refusal(&reply.json()["result"]);
        assert_eq!(refusal["code"], "invalid_argument", "{name} {change}: {refusal}");
        assert_eq!(refusal["retryable"], false);
        let problems = refusal["details"]["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{name} {change}: {problems:?}");
        assert_eq!(problems[0]["field"], field);
        assert!(problems[0]["problem"].as_str().unwrap().contains(reason), "{problems:?}");
        assert!(refusal["message"].as_str().unwrap().contains(field));
    }
}

#[test]
fn all_faults_of_a_call_are_told_at_once() {
    let front = HttpFront::start(&[]);
    let mut arguments = json!({"model": "x", "lease_id": ""});
    for number in 0..30 {
        arguments[format!("extra_{number}")] = json!(1);
    }
    let reply = Ask::message(&tool("native_session_status", arguments)).send(&front);
    let refusal = refusal(&reply.json()["result"]);
    let problems = refusal["details"]["problems"].as_array().unwrap();
    let fields: Vec<_> = problems.iter().take(3).map(|problem| problem["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["native_session_id", "lease_id", "model"]);
    assert_eq!(problems.len(), 20);
    assert!(refusal["message"].as_str().unwrap().contains("13 more faults"), "{refusal}");
}

#[test]
fn refusals_with_a_code_of_their_own() {
    let front = HttpFront::start(&[]);
    let reply = |more: Value| {
        let mut arguments =
            json!({"native_session_id": "n", "lease_id": "l", "turn_id": "t", "reply_id": "r"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool("native_session_reply_and_wait", arguments)
    };
    let subagent = tool(
        "native_session_start",
        json!({"prompt": "p", "working_directory": "/", "idempotency_key": "0123456789abcdef",
               "subagent_policy": "deepseek_explicit", "capability_profile": "direct_write"}),
    );
    let half = "x".repeat(400 * 1024);
    let large = json!({"text": half, "tool_calls": [{"name": "Write", "input": {"content": half}}]});
    let cases = [
        (reply(json!({})), "invalid_argument", "text"),
        (reply(json!({"text": " \n", "tool_calls": []})), "invalid_argument", "blank"),
        (reply(large), "reply_too_large", "786432"),
        (subagent, "profile_forbids", "worktree_write"),
    ];
    for (message, code, word) in cases {
        let refusal = refusal(&Ask::message(&message).send(&front).json()["result"]);
        assert_eq!(refusal["code"], code, "{refusal}");
        assert!(refusal["message"].as_str().unwrap().contains(word), "{refusal}");
    }
}
