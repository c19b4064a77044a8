//! Another program than Claude Code as the sub-session's: one that takes the same arguments and says the same lines.

use gatehouse_tests::deepseek::{Answer, Message, call, text};
use serde_json::json;

use crate::world::{World, delegate, seen_out};

#[tokio::test(flavor = "multi_thread")]
async fn a_compatible_program_works_as_the_sub_session() {
    let program = env!("CARGO_BIN_EXE_compatible-cli");
    let Some(mut world) = World::new(&format!("executable = {program:?}")).await else { return };
    let (mut brain, root) = world.session().await;
    let write = json!({"file_path": root.join("x"), "content": "by another\n", "create_only": true});
    world.provider.script([
        Answer::Good(Message::flash(vec![text("Writing."), call("c", "Write", &write)])),
        Answer::Good(Message::flash(vec![text("Written.")])),
    ]);
    let id = delegate(&mut brain, "opus").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!((&told["status"], &told["result"]), (&json!("finished"), &json!("Written.")), "{told}");
    assert_eq!(std::fs::read_to_string(root.join("x")).unwrap(), "by another\n");
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_a_failure_that_says_so() {
    let Some(mut world) = World::new("executable = \"/nowhere/cli\"").await else { return };
    let (mut brain, _) = world.session().await;
    let id = delegate(&mut brain, "opus").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!(
        (&told["status"], &told["error"]["kind"]),
        (&json!("failed"), &json!("claude_not_found")),
        "{told}"
    );
    assert!(world.provider.seen().is_empty());
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}
