use std::time::Duration;

use gatehouse::chatgpt::{Brain, Call, Start};
use gatehouse_tests::deepseek::{Answer, Message, call, text, thought};
use gatehouse_tests::{Gateway, Setup};
use serde_json::{Value, json};

use crate::world::{World, act, delegate, refused, seen_out, small_repository};

#[tokio::test(flavor = "multi_thread")]
async fn work_is_handed_over_done_in_the_worktree_and_seen_in_every_listing() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, root) = world.session().await;
    let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
    assert_eq!(brain.state().0["deepseek_route"]["fable"], "deepseek-v4-pro", "{}", brain.state().0);
    let edit = json!({"file_path": at("src/main.txt"), "old_string": "quicksilver", "new_string": "mercury"});
    world.provider.script([
        Answer::Slow(
            Message::flash(vec![
                thought("Read first."),
                text("Reading."),
                call("call_0", "Read", &json!({"file_path": at("src/main.txt")})),
            ]),
            Duration::from_secs(2),
        ),
        Answer::Good(Message::flash(vec![
            call("call_1", "Edit", &edit),
            call("call_2", "Bash", &json!({"command": "id"})),
            call(
                "call_3",
                "Write",
                &json!({"file_path": at("n.txt"), "content": "new\n", "create_only": true}),
            ),
        ])),
        Answer::Good(Message::flash(vec![call(
            "call_4",
            "RunCommand",
            &json!({"argv": ["git", "status", "--porcelain"]}),
        )])),
        Answer::Good(Message::flash(vec![text("Renamed it.")])),
    ]);
    let id = delegate(&mut brain, "sonnet").await;
    let state = brain.status(0).await.unwrap().0.clone();
    assert_eq!(state["active_deepseek_subsession_id"], json!(id), "{state}");
    locked(&brain, &world.gateway, &at("x")).await;
    let looked = act(&mut brain, "Read", json!({"file_path": at("README.md")})).await;
    assert_eq!(looked["ok"], true, "the main session may look: {looked}");

    let told = seen_out(&mut brain, &id).await;
    assert_eq!((&told["status"], &told["result"]), (&json!("finished"), &json!("Renamed it.")), "{told}");
    assert_eq!((&told["model_verified"], &told["model"]), (&json!(true), &json!("deepseek-flash")));
    assert_eq!(told["usage"], json!({"requests": 4, "input_tokens": 44, "output_tokens": 28}));
    let names: Vec<_> =
        told["actions"].as_array().unwrap().iter().map(|deed| deed["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Read", "Edit", "Bash", "Write", "RunCommand"]);
    assert_eq!(std::fs::read_to_string(at("n.txt")).unwrap(), "new\n");
    assert!(std::fs::read_to_string(at("src/main.txt")).unwrap().contains("mercury"));
    what_was_sent(&world, &root.display().to_string());

    let change = json!({"file_path": at("n.txt"), "content": "newer\n", "expected_sha256":
        gatehouse_proto::digest::sha256_hex(b"new\n")});
    assert_eq!(act(&mut brain, "Write", change).await["ok"], true, "the lock is off");
    marked_as_its_own(&world.gateway, &brain, &id, &at("src/main.txt"));
    brain.finish("Done.").await.unwrap();
    let state = brain.state().0.clone();
    assert_eq!(state["deepseek_subsessions"][0]["status"], "finished", "{state}");
    assert_eq!(state["active_deepseek_subsession_id"], Value::Null);
    world.gateway.finish().await;
}

async fn locked(brain: &Brain, gateway: &Gateway, path: &str) {
    let calls = [
        ("Edit", json!({"file_path": path, "old_string": "a", "new_string": "b"})),
        ("Write", json!({"file_path": path, "content": "a", "create_only": true})),
        ("NotebookEdit", json!({"notebook_path": path, "edit_mode": "delete", "cell_id": "c"})),
        ("RunCommand", json!({"argv": ["true"]})),
        ("deepseek_subagent_start", json!({"prompt": "p", "grade": "opus"})),
    ];
    for (tool, input) in calls {
        assert_eq!(
            refused(brain, gateway, None, &[Call::new(tool, input)]).await,
            "subagent_active",
            "{tool}"
        );
    }
    assert_eq!(refused(brain, gateway, Some("Done."), &[]).await, "subagent_active");
}

/// What went to the provider: the prompt, the answers and the receipts, under the model's own name, and nothing else.
fn what_was_sent(world: &World, root: &str) {
    let seen = world.provider.seen();
    assert_eq!(seen.len(), 4);
    let (first, last) = (&seen[0], &seen[3]);
    assert_eq!(first.line, "POST /anthropic/v1/messages HTTP/1.1");
    assert_eq!(first.headers["x-api-key"], world.credential);
    assert_eq!(first.body["messages"], json!([{"role": "user", "content": "Rename it."}]));
    let fields: Vec<_> = first.body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["model", "max_tokens", "stream", "system", "tools", "messages"]);
    assert_eq!(first.body["model"], "deepseek-flash");
    assert!(first.body["system"].as_str().unwrap().contains(root));
    let tools: Vec<_> =
        first.body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["Read", "FindFiles", "SearchText", "Edit", "Write", "NotebookEdit", "RunCommand"]);
    let messages = last.body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 7);
    assert_eq!(messages[1]["content"][0], thought("Read first."), "thoughts go back");
    for message in messages {
        for block in message["content"].as_array().into_iter().flatten() {
            let id =
                block.get("tool_use_id").or_else(|| block.get("id").filter(|_| block["type"] == "tool_use"));
            assert!(id.is_none_or(|id| id.as_str().unwrap().starts_with("toolu_")), "{block}");
        }
    }
    let receipt: Value =
        serde_json::from_str(messages[2]["content"][0]["content"].as_str().unwrap()).unwrap();
    assert!(receipt["content"].as_str().unwrap().contains("quicksilver"), "a whole receipt: {receipt}");
    let refused = &messages[4]["content"][1];
    assert_eq!(refused["is_error"], true);
    assert!(refused["content"].as_str().unwrap().contains("there is no tool `Bash`"), "{refused}");
    let all: String = seen.iter().map(|seen| seen.body.to_string()).collect();
    let state_dir = world.gateway.state_dir();
    for hidden in
        [state_dir.to_str().unwrap(), "claude", "system-reminder", "[gatehouse run", &world.credential]
    {
        assert!(!all.contains(hidden), "{hidden} was sent");
    }
}

/// The command line shows whose an action was, and its diff and undo work.
fn marked_as_its_own(gateway: &Gateway, brain: &Brain, id: &str, path: &str) {
    let shown = gateway.cli(&["show", brain.session_id(), "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let actions = shown["actions"].as_array().unwrap();
    let of_subagent: Vec<_> = actions.iter().filter(|action| action["subsession_id"] == json!(id)).collect();
    assert_eq!(of_subagent.len(), 5, "{shown}");
    assert!(
        actions
            .iter()
            .any(|action| action["name"] == "deepseek_subagent_start" && action["subsession_id"].is_null())
    );
    assert_eq!(shown["deepseek_subsessions"][0]["subsession_id"], json!(id));
    let text = gateway.cli(&["show", brain.session_id()]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("Edit (subagent)"));
    let edit =
        of_subagent.iter().find(|action| action["name"] == "Edit").unwrap()["tool_call_id"].as_str().unwrap();
    let diff = gateway.cli(&["diff", brain.session_id(), edit]);
    assert!(String::from_utf8_lossy(&diff.stdout).contains("mercury"));
    let undone = gateway.cli(&["undo", brain.session_id(), edit]);
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    assert!(std::fs::read_to_string(path).unwrap().contains("quicksilver"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pro_is_asked_for_by_its_own_name_and_an_answer_of_flash_is_not_taken() {
    let Some(mut world) = World::new("stream = false").await else { return };
    let (mut brain, root) = world.session().await;
    let write = json!({"file_path": root.join("x"), "content": "x", "create_only": true});
    world.provider.script([Answer::Good(Message::flash(vec![call("c", "Write", &write)]))]);
    let id = delegate(&mut brain, "fable").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!(
        (&told["status"], &told["error"]["kind"]),
        (&json!("failed"), &json!("model_mismatch")),
        "{told}"
    );
    assert_eq!(told["error"]["asked_model"], "deepseek-v4-pro");
    assert_eq!(told["error"]["answered_model"], "deepseek-flash");
    assert_eq!((&told["model_verified"], &told["actions_total"]), (&json!(false), &json!(0)));
    assert!(!root.join("x").exists(), "nothing of it was done");
    assert_eq!(world.provider.seen().len(), 1, "nothing else was tried");
    assert_eq!(world.provider.seen()[0].body["model"], "deepseek-v4-pro");

    let pro = |content| Message { model: "deepseek-v4-pro".into(), ..Message::flash(content) };
    world.provider.script([
        Answer::Good(pro(vec![call("c", "Write", &write)])),
        Answer::Good(pro(vec![text("Done.")])),
    ]);
    let id = delegate(&mut brain, "fable").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!((&told["status"], &told["model_verified"]), (&json!("finished"), &json!(true)), "{told}");
    assert!(root.join("x").exists());
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_credential_or_a_worktree_no_session_may_have_subagents() {
    let gateway = Gateway::start(Setup::without_claude()).await;
    let repository = small_repository();
    for profile in ["worktree_write", "direct_write", "read_only"] {
        let start = Start {
            profile,
            subagent_policy: Some("deepseek_explicit"),
            ..Start::new("x", repository.text())
        };
        let error = gateway.client().call("native_session_start", start.arguments()).await.unwrap_err();
        assert_eq!(error.code(), Some("profile_forbids"), "{error}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_the_policy_has_none_of_the_three_tools() {
    let Some(mut world) = World::new("").await else { return };
    let start = Start { profile: "worktree_write", ..Start::new("x", world.repository.text()) };
    let brain = world.gateway.session(&start).await;
    assert!(!brain.state().0["pending_turn"]["tools"].to_string().contains("deepseek"));
    assert_eq!(brain.state().0["deepseek_route"], Value::Null);
    for (tool, input) in [
        ("deepseek_subagent_start", json!({"prompt": "p", "grade": "opus"})),
        ("deepseek_subagent_get", json!({"subsession_id": "sub_x"})),
        ("deepseek_subagent_stop", json!({"subsession_id": "sub_x"})),
    ] {
        assert_eq!(refused(&brain, &world.gateway, None, &[Call::new(tool, input)]).await, "profile_forbids");
    }
    let (mut brain, _) = (world.session().await.0, ());
    let start = Call::new("deepseek_subagent_start", json!({"prompt": "p", "grade": "opus"}));
    let read = Call::new("Read", json!({"file_path": "/etc/hostname"}));
    assert_eq!(refused(&brain, &world.gateway, None, &[start, read]).await, "invalid_argument");
    let unknown = act(&mut brain, "deepseek_subagent_get", json!({"subsession_id": "sub_nobody"})).await;
    assert_eq!((&unknown["ok"], &unknown["code"]), (&json!(false), &json!("not_found")), "{unknown}");
    let unknown = act(&mut brain, "deepseek_subagent_stop", json!({"subsession_id": "sub_nobody"})).await;
    assert_eq!(unknown["code"], "not_found");
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}
