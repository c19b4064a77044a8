//! From a tool call to a gRPC request, and from a gRPC reply to a result that fits the schema.

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::v1::{
    Attachment, CapabilityProfile, ContinueRequest, CurrentAction, CurrentRun, DeepseekRoute, LastResult,
    LaunchError, PendingTurn, RecoverRequest, ReplyRequest, SessionReply, SessionStatus, Skill, SkillContext,
    SkillSnapshot, StartRequest, StatusRequest, StopRequest, StopRequestView, SubagentPolicy, SubsessionView,
    Terminal, ToolCall, ToolDescription, ToolResult, TurnKind, WorkspaceKind,
};
use mcp_front::executor::Call;
use serde_json::{Value, json};

use crate::client::{Ask, modern, refusal, request, tool};
use crate::executor::{Answer, Executor, session};
use crate::process::HttpFront;
use crate::schema::faults;

const RECEIPT: &str =
    r#"{"tool":"Read","ok":true,"bytes":18446744073709551615,"content":"é\n\"\\ \u2028","a":{"z":1,"b":[]}}"#;

fn full_turn() -> PendingTurn {
    let result = ToolResult {
        tool_call_id: "toolu_1".into(),
        name: "Read".into(),
        ok: true,
        receipt_json: RECEIPT.replace("\\u2028", "\u{2028}"),
        client_id: Some("mine".into()),
    };
    let told = |name: &str, description: &str, schema: &str| ToolDescription {
        name: name.into(),
        description: description.into(),
        input_schema_json: schema.into(),
    };
    PendingTurn {
        turn_id: "turn_1".into(),
        ordinal: 2,
        opened_at_ms: 1_796_000_000_123,
        kind: TurnKind::ToolResults.into(),
        prompt: None,
        tool_results: vec![result.clone()],
        unreported: vec![ToolResult { client_id: None, ..result }],
        tools: vec![told("Read", "Reads.", r#"{"type":"object"}"#), told("Edit", "", "")],
        skills: vec![Skill { skill_id: "s".into(), content_sha256: "ab".into(), body: "Do.".into() }],
        reply_with: "Answer.".into(),
    }
}

/// A session of which everything is told.
fn full(status: SessionStatus) -> SessionReply {
    let mut reply = session(status);
    reply.replay = true;
    reply.recovery_token = Some("the-recovery-token".into());
    let view = reply.session.as_mut().unwrap();
    view.session_label = Some("label".into());
    view.capability_profile = CapabilityProfile::WorktreeWrite.into();
    view.subagent_policy = SubagentPolicy::DeepseekExplicit.into();
    view.deepseek_route =
        Some(DeepseekRoute { sonnet: "flash".into(), opus: "flash".into(), fable: "pro".into() });
    view.deepseek_subsessions = vec![SubsessionView {
        subsession_id: "sub_1".into(),
        status: "failed".into(),
        grade: "fable".into(),
        route: "pro".into(),
        started_by: "toolu_1".into(),
        started_at_ms: 1,
        ended_at_ms: Some(2),
        model: Some("flash".into()),
        model_verified: Some(false),
        requests: 1,
        input_tokens: 3,
        output_tokens: 4,
        error: Some("model_mismatch".into()),
    }];
    view.active_deepseek_subsession_id = Some("sub_2".into());
    let workspace = view.workspace.as_mut().unwrap();
    (workspace.kind, workspace.writable, workspace.source_head) =
        (WorkspaceKind::Worktree.into(), true, Some("c0ffee".into()));
    view.claude_session_id = "a-claude-id".into();
    view.runtime_attached = true;
    view.current_run = Some(CurrentRun {
        run_id: "run_1".into(),
        ordinal: 1,
        started_at_ms: 1,
        state: "waiting".into(),
        attachment: Attachment::Attached.into(),
        actions: vec![CurrentAction {
            tool_call_id: "toolu_1".into(),
            name: "RunCommand".into(),
            state: "performing".into(),
            started_at_ms: u64::MAX,
            elapsed_ms: 7,
            output_bytes: None,
        }],
    });
    view.pending_turn = Some(full_turn());
    view.skill_snapshot = vec![SkillSnapshot { skill_id: "s".into(), content_sha256: "ab".into(), bytes: 9 }];
    view.last_result = Some(LastResult {
        run_id: "run_0".into(),
        ok: true,
        text: "done".into(),
        finished_at_ms: 5,
        turns: 2,
        actions: 1,
    });
    view.launch_error =
        Some(LaunchError { code: "launch_failed".into(), message: "m".into(), what_to_do: "w".into() });
    view.stop_request = Some(StopRequestView {
        request_id: "q".into(),
        reason: "r".into(),
        requested_at_ms: 6,
        state: "done".into(),
    });
    view.terminal = Some(Terminal { status: SessionStatus::Stopped.into(), reason: "r".into(), at_ms: 7 });
    reply
}

const STATUSES: [(SessionStatus, &str, &str); 9] = [
    (SessionStatus::Starting, "starting", "native_session_status"),
    (SessionStatus::WaitingForGpt, "waiting_for_gpt", "native_session_reply_and_wait"),
    (SessionStatus::Running, "running", "native_session_status"),
    (SessionStatus::Idle, "idle", "native_session_continue"),
    (SessionStatus::Stopping, "stopping", "native_session_status"),
    (SessionStatus::Stopped, "stopped", "ended"),
    (SessionStatus::Failed, "failed", "launch_error"),
    (SessionStatus::LeaseExpired, "lease_expired", "native_session_recover"),
    (SessionStatus::RecoveryRequired, "recovery_required", "gatehouse resolve"),
];

fn arguments(name: &str) -> Value {
    let ids = json!({"native_session_id": "ns_1", "lease_id": "lease_1"});
    let more = match name {
        "start" => {
            return json!({"prompt": "p", "working_directory": "/w", "idempotency_key": "0123456789abcdef"});
        }
        "recover" => return json!({"native_session_id": "ns_1", "recovery_token": "t", "recovery_id": "r"}),
        "continue" => json!({"prompt": "p", "idempotency_key": "0123456789abcdef"}),
        "reply_and_wait" => json!({"turn_id": "turn_1", "reply_id": "r", "text": "x"}),
        "stop" => json!({"request_id": "q"}),
        _ => json!({}),
    };
    let mut all = ids;
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

const TOOLS: [&str; 6] = ["start", "continue", "recover", "reply_and_wait", "status", "stop"];

fn call(front: &HttpFront, name: &str, arguments: Value) -> Value {
    let reply = Ask::message(&tool(&format!("native_session_{name}"), arguments)).send(front);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["result"].clone()
}

#[test]
fn every_tool_in_every_state_gives_a_result_that_fits_the_schema() {
    let front = HttpFront::start(&[]);
    let listed = Ask::message(&request("tools/list", json!({}))).send(&front).json();
    let schema = listed["result"]["tools"][0]["outputSchema"].clone();
    let answer = std::sync::Arc::new(std::sync::Mutex::new(session(SessionStatus::Idle)));
    let told = answer.clone();
    let _executor =
        Executor::start(&front.runtime_dir, move |_| Answer::Reply(Box::new(told.lock().unwrap().clone())));
    for (status, word, next) in STATUSES {
        for reply in [session(status), full(status)] {
            *answer.lock().unwrap() = reply.clone();
            for name in TOOLS {
                let result = call(&front, name, arguments(name));
                let structured = &result["structuredContent"];
                assert_eq!(faults(&schema, structured), Vec::<String>::new(), "{name} {word}");
                assert_eq!(
                    (&structured["status"], &structured["route"]),
                    (&json!(word), &json!("chatgpt-main"))
                );
                assert_eq!(
                    (&structured["fallback"], &structured["replay"]),
                    (&json!("none"), &json!(reply.replay))
                );
                assert_eq!(result["isError"], false);
                let content = result["content"].as_array().unwrap();
                let text = content[0]["text"].as_str().unwrap();
                assert_eq!(content.len(), 1);
                assert!(
                    text.len() < 800
                        && text.contains(next)
                        && text.contains("ns_1")
                        && text.contains("lease_1"),
                    "{text}"
                );
                assert!(text.contains("turn_1") || structured["pending_turn"].is_null(), "{text}");
                let with_token = name == "start" && reply.recovery_token.is_some();
                assert_eq!(
                    result.to_string().matches("the-recovery-token").count(),
                    usize::from(with_token),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn a_result_carries_the_whole_session_and_receipts_in_their_own_bytes() {
    let front = HttpFront::start(&[]);
    let _executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(full(SessionStatus::WaitingForGpt))));
    let reply = Ask::message(&tool("native_session_start", arguments("start"))).send(&front);
    let receipt = full_turn().tool_results[0].receipt_json.clone();
    assert_eq!(reply.body.matches(&receipt).count(), 2, "{}", reply.body);
    let structured = reply.json()["result"]["structuredContent"].clone();
    let mut turn = structured["pending_turn"].clone();
    turn["tool_results"][0]["receipt"] = json!("r");
    turn["unreported"][0]["receipt"] = json!("r");
    assert_eq!(
        turn,
        json!({
            "turn_id": "turn_1", "ordinal": 2, "opened_at": "2026-11-30T00:53:20.123Z",
            "kind": "tool_results", "prompt": null,
            "tool_results": [{"tool_call_id": "toolu_1", "client_id": "mine", "name": "Read", "ok": true, "receipt": "r"}],
            "unreported": [{"tool_call_id": "toolu_1", "name": "Read", "ok": true, "receipt": "r"}],
            "tools": [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}, {"name": "Edit"}],
            "skills": [{"skill_id": "s", "content_sha256": "ab", "body": "Do."}],
            "reply_with": "Answer.",
        })
    );
    assert_eq!(structured["deepseek_route"], json!({"sonnet": "flash", "opus": "flash", "fable": "pro"}));
    assert_eq!(structured["active_deepseek_subsession_id"], "sub_2");
    assert_eq!(
        structured["deepseek_subsessions"],
        json!([{"subsession_id": "sub_1", "status": "failed", "grade": "fable", "route": "pro", "started_by": "toolu_1",
            "started_at": "1970-01-01T00:00:00.001Z", "ended_at": "1970-01-01T00:00:00.002Z", "model": "flash",
            "model_verified": false, "requests": 1, "input_tokens": 3, "output_tokens": 4, "error": "model_mismatch"}])
    );
    assert_eq!(structured["workspace"]["source_head"], "c0ffee");
    assert_eq!(structured["current_run"]["actions"][0]["started_at"], "9999-12-31T23:59:59.999Z");
    assert_eq!(structured["last_result"]["finished_at"], "1970-01-01T00:00:00.005Z");
    assert_eq!(
        structured["terminal"],
        json!({"status": "stopped", "reason": "r", "at": "1970-01-01T00:00:00.007Z"})
    );
}

#[test]
fn what_is_not_there_is_null_or_left_out() {
    let front = HttpFront::start(&[]);
    let _executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
    let structured = call(&front, "status", arguments("status"))["structuredContent"].clone();
    for null in [
        "session_label",
        "claude_session_id",
        "current_run",
        "pending_turn",
        "deepseek_route",
        "active_deepseek_subsession_id",
    ] {
        assert!(structured.as_object().unwrap().get(null).is_some_and(Value::is_null), "{null}");
    }
    for absent in ["recovery_token", "last_result", "launch_error", "stop_request", "terminal"] {
        assert!(structured.get(absent).is_none(), "{absent}");
    }
    assert!(structured["workspace"].get("source_head").is_none());
}

#[test]
fn each_call_arrives_as_its_request_with_defaults_filled_in() {
    let front = HttpFront::start(&[]);
    let executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
    for name in TOOLS {
        call(&front, name, arguments(name));
    }
    let rich = json!({
        "prompt": "\u{202e}⚙ /p", "working_directory": "/w", "idempotency_key": "0123456789abcdef", "session_label": "l",
        "capability_profile": "worktree_write", "subagent_policy": "deepseek_explicit", "wait_seconds": 7.0,
        "skill_contexts": [{"skill_id": "a"}, {"skill_id": "b", "content": "# b"}],
    });
    call(&front, "start", rich);
    let calls = json!({
        "native_session_id": "ns_1", "lease_id": "lease_1", "turn_id": "turn_1", "reply_id": "r",
        "tool_calls": [{"name": "Read", "input": {"z": 1, "a": [1.5, null, "\u{1f600}"]}, "id": "mine"}, {"name": "X", "input": {}}],
    });
    call(&front, "reply_and_wait", calls);
    let (session, lease) = (|| "ns_1".to_owned(), || "lease_1".to_owned());
    let key = || "0123456789abcdef".to_owned();
    let wanted = vec![
        Call::Start(StartRequest {
            prompt: "p".into(),
            working_directory: "/w".into(),
            idempotency_key: key(),
            capability_profile: CapabilityProfile::ReadOnly.into(),
            subagent_policy: SubagentPolicy::None.into(),
            skill_contexts: vec![],
            session_label: None,
            wait_seconds: Some(30),
        }),
        Call::Continue(ContinueRequest {
            native_session_id: session(),
            lease_id: lease(),
            prompt: "p".into(),
            idempotency_key: key(),
            wait_seconds: Some(30),
        }),
        Call::Recover(RecoverRequest {
            native_session_id: session(),
            recovery_token: "t".into(),
            recovery_id: "r".into(),
            wait_seconds: Some(0),
        }),
        Call::Reply(ReplyRequest {
            native_session_id: session(),
            lease_id: lease(),
            turn_id: "turn_1".into(),
            reply_id: "r".into(),
            text: Some("x".into()),
            tool_calls: vec![],
            wait_seconds: Some(50),
        }),
        Call::Status(StatusRequest {
            native_session_id: session(),
            lease_id: lease(),
            wait_seconds: Some(0),
        }),
        Call::Stop(StopRequest {
            native_session_id: session(),
            lease_id: lease(),
            request_id: "q".into(),
            reason: None,
        }),
        Call::Start(StartRequest {
            prompt: "\u{202e}⚙ /p".into(),
            working_directory: "/w".into(),
            idempotency_key: key(),
            capability_profile: CapabilityProfile::WorktreeWrite.into(),
            subagent_policy: SubagentPolicy::DeepseekExplicit.into(),
            skill_contexts: vec![
                SkillContext { skill_id: "a".into(), content: None },
                SkillContext { skill_id: "b".into(), content: Some("# b".into()) },
            ],
            session_label: Some("l".into()),
            wait_seconds: Some(7),
        }),
        Call::Reply(ReplyRequest {
            native_session_id: session(),
            lease_id: lease(),
            turn_id: "turn_1".into(),
            reply_id: "r".into(),
            text: None,
            tool_calls: vec![
                ToolCall {
                    name: "Read".into(),
                    input_json: "{\"z\":1,\"a\":[1.5,null,\"\u{1f600}\"]}".into(),
                    client_id: Some("mine".into()),
                },
                ToolCall { name: "X".into(), input_json: "{}".into(), client_id: None },
            ],
            wait_seconds: Some(50),
        }),
    ];
    assert_eq!(executor.asked(), wanted);
}

#[test]
fn every_refusal_of_the_executor_is_a_tool_error_with_its_code() {
    let front = HttpFront::start(&[]);
    let code = std::sync::Arc::new(std::sync::Mutex::new(ErrorCode::Internal));
    let told = code.clone();
    let _executor = Executor::start(&front.runtime_dir, move |_| {
        let refusal = Refusal::new(*told.lock().unwrap(), "what", "do").with("turn_id", "turn_9");
        Answer::Refuse(Box::new(refusal))
    });
    for each in ErrorCode::ALL {
        *code.lock().unwrap() = *each;
        let said = refusal(&call(&front, "stop", arguments("stop")));
        assert_eq!(said["code"], each.as_str());
        assert_eq!(said["details"], json!({"turn_id": "turn_9"}));
    }
}

#[test]
fn an_answer_that_makes_no_sense_is_an_internal_error_and_not_passed_on() {
    let front = HttpFront::start(&[]);
    let broken: Vec<SessionReply> = vec![SessionReply::default(), session(SessionStatus::Unspecified), {
        let mut reply = full(SessionStatus::Idle);
        reply.session.as_mut().unwrap().pending_turn.as_mut().unwrap().tool_results[0].receipt_json =
            "{secret".into();
        reply
    }];
    let replies = std::sync::Mutex::new(broken.clone().into_iter());
    let _executor = Executor::start(&front.runtime_dir, move |_| {
        Answer::Reply(Box::new(replies.lock().unwrap().next().unwrap()))
    });
    for _ in broken {
        let said = refusal(&call(&front, "status", arguments("status")));
        assert_eq!(said["code"], "internal");
        assert!(!said.to_string().contains("secret"));
    }
}

#[test]
fn the_latest_revision_gets_the_same_result_with_its_result_type() {
    let front = HttpFront::start(&[]);
    let _executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
    let message =
        modern("tools/call", json!({"name": "native_session_status", "arguments": arguments("status")}));
    let result = Ask::message(&message).send(&front).json()["result"].clone();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["structuredContent"], call(&front, "status", arguments("status"))["structuredContent"]);
}

#[test]
fn the_text_repeats_everything_when_it_is_told_to() {
    let front = HttpFront::start(&["--text-mirror", "full"]);
    let _executor =
        Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(full(SessionStatus::WaitingForGpt))));
    let result = call(&front, "status", arguments("status"));
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
}
