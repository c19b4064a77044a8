use gatehouse_tests::deepseek::{Answer, Message, call, text};
use serde_json::{Value, json};

use crate::world::{World, delegate, seen_out};

/// A way in which the provider fails, and what is told of it.
struct Case {
    answer: Answer,
    kind: &'static str,
    /// Further fields of the error.
    more: Value,
}

fn cases(world: &World, path: &str) -> Vec<Case> {
    let write = || {
        Message::flash(vec![call(
            "c",
            "Write",
            &json!({"file_path": path, "content": "x", "create_only": true}),
        )])
    };
    let case = |answer, kind, more| Case { answer, kind, more };
    let unauthorised = format!("Your api key: {} is invalid", world.credential);
    let limited = Answer::Status {
        status: 429,
        headers: vec![("retry-after", "17")],
        body: json!({"error": {"type": "rate_limit_error", "message": "Too many requests."}}).to_string(),
    };
    vec![
        case(
            Answer::Good(Message { model: "deepseek-v4-pro".into(), ..write() }),
            "model_mismatch",
            json!({"asked_model": "deepseek-flash", "answered_model": "deepseek-v4-pro"}),
        ),
        case(
            Answer::status(401, "authentication_error", &unauthorised),
            "provider_error",
            json!({"status": 401, "error_type": "authentication_error",
                "message": "the provider answered with HTTP status 401: Your api key: <redacted> is invalid"}),
        ),
        case(
            limited,
            "provider_error",
            json!({"status": 429, "error_type": "rate_limit_error", "retry_after_seconds": 17}),
        ),
        case(
            Answer::status(500, "api_error", "boom"),
            "provider_error",
            json!({"status": 500, "error_type": "api_error"}),
        ),
        case(
            Answer::Status {
                status: 302,
                headers: vec![("location", "http://127.0.0.1:1/")],
                body: String::new(),
            },
            "provider_error",
            json!({"status": 302}),
        ),
        case(Answer::Cut(write(), 4), "answer_cut", json!({})),
        case(Answer::Garbage, "answer_invalid", json!({})),
        case(Answer::Huge(128 * 1024), "answer_too_large", json!({})),
        case(Answer::Held(write()), "request_timed_out", json!({})),
        case(Answer::Good(Message { stop_reason: Some("max_tokens"), ..write() }), "output_limit", json!({})),
        case(Answer::Good(Message::flash(vec![text(" ")])), "answer_invalid", json!({})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_of_the_provider_is_told_as_it_is_and_nothing_else_is_tried() {
    let Some(mut world) = World::new("request_timeout_seconds = 3\nanswer_bytes = 65536").await else {
        return;
    };
    let (mut brain, root) = world.session().await;
    let path = root.join("x");
    for (asked, case) in cases(&world, path.to_str().unwrap()).into_iter().enumerate() {
        world.provider.script([case.answer]);
        let id = delegate(&mut brain, "opus").await;
        let told = seen_out(&mut brain, &id).await;
        assert_eq!(
            (&told["status"], &told["error"]["kind"]),
            (&json!("failed"), &json!(case.kind)),
            "{told}"
        );
        for (name, value) in case.more.as_object().unwrap() {
            assert_eq!(&told["error"][name], value, "{told}");
        }
        assert_eq!((&told["actions_total"], &told["result"]), (&json!(0), &Value::Null), "{told}");
        assert_eq!(world.provider.seen().len(), asked + 1, "one request, whatever comes of it");
        assert!(!path.exists());
    }
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_there_and_a_credential_that_others_can_read_are_failures_of_their_own() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, root) = world.session().await;
    let file = world.drawer.path().join("deepseek.key");
    let mode =
        |mode| std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    world.provider.script([Answer::Good(Message::flash(vec![call(
        "c",
        "Read",
        &json!({"file_path": root.join("README.md")}),
    )]))]);
    mode(0o644);
    let receipt =
        crate::world::act(&mut brain, "deepseek_subagent_start", json!({"prompt": "p", "grade": "opus"}))
            .await;
    assert_eq!((&receipt["ok"], &receipt["code"]), (&json!(false), &json!("permission_denied")), "{receipt}");
    mode(0o600);
    drop(std::mem::replace(&mut world.provider, gatehouse_tests::deepseek::FakeDeepseek::start().await));
    let id = delegate(&mut brain, "opus").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!(told["error"]["kind"], "unreachable", "{told}");
    // Nor can the session look at the file itself.
    let looked = crate::world::act(&mut brain, "Read", json!({"file_path": file})).await;
    assert_eq!(looked["code"], "protected_path", "{looked}");
    brain.finish("Done.").await.unwrap();
    world.gateway.names_internals();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_turns_and_its_tokens_are_bounded() {
    for (lines, kind, requests) in [("turns = 2", "turn_limit", 2), ("output_tokens = 10", "output_limit", 2)]
    {
        let Some(mut world) = World::new(lines).await else { return };
        let (mut brain, root) = world.session().await;
        let read = || {
            Answer::Good(Message::flash(vec![call(
                "c",
                "Read",
                &json!({"file_path": root.join("README.md")}),
            )]))
        };
        world.provider.script([read(), read(), read()]);
        let id = delegate(&mut brain, "opus").await;
        let told = seen_out(&mut brain, &id).await;
        assert_eq!((&told["status"], &told["error"]["kind"]), (&json!("failed"), &json!(kind)), "{told}");
        assert_eq!(world.provider.seen().len(), requests, "{kind}");
        brain.finish("Done.").await.unwrap();
        world.gateway.finish().await;
    }
}
