use gatehouse_tests::deepseek::{Answer, Message, call, text};
use gatehouse_tests::processes;
use serde_json::json;

use crate::world::{World, act, delegate, seen_out};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_everything_in_the_middle_keeps_it_and_nothing_is_done_twice() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, root) = world.session().await;
    let write =
        call("c", "Write", &json!({"file_path": root.join("x"), "content": "x", "create_only": true}));
    world.provider.script([
        Answer::Good(Message::flash(vec![write])),
        Answer::Held(Message::flash(vec![text("never told")])),
        Answer::Good(Message::flash(vec![text("Written.")])),
    ]);
    let id = delegate(&mut brain, "sonnet").await;
    world.provider.was_asked(2).await;
    let shims = processes::shims_of(&world.gateway.runtime_dir());
    world.gateway.restart_everything().await;
    brain.use_client(world.gateway.client());
    let told = seen_out(&mut brain, &id).await;
    assert_eq!((&told["status"], &told["result"]), (&json!("finished"), &json!("Written.")), "{told}");
    assert_eq!(told["usage"]["requests"], 3, "the request that was cut off counts");
    assert_eq!(told["actions_total"], 1, "{told}");
    let seen = world.provider.seen();
    assert_eq!(seen[1].body, seen[2].body, "it was asked again, word for word");
    assert!(processes::shims_of(&world.gateway.runtime_dir()).iter().all(|shim| shims.contains(shim)));
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_cut_off_twice_is_not_paid_for_a_third_time() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, _) = world.session().await;
    let held = || Answer::Held(Message::flash(vec![text("x")]));
    world.provider.script([held(), held(), held()]);
    let id = delegate(&mut brain, "sonnet").await;
    for times in 1..=2 {
        world.provider.was_asked(times).await;
        world.gateway.kill_executor();
        world.gateway.start_executor().await;
    }
    let told = seen_out(&mut brain, &id).await;
    assert_eq!(
        (&told["status"], &told["error"]["kind"]),
        (&json!("failed"), &json!("interrupted")),
        "{told}"
    );
    assert_eq!(world.provider.seen().len(), 2);
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_that_ended_while_the_executor_was_away_is_not_pretended_to_live() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, _) = world.session().await;
    let main = processes::shims_of(&world.gateway.runtime_dir());
    world.provider.script([Answer::Held(Message::flash(vec![text("x")]))]);
    let id = delegate(&mut brain, "sonnet").await;
    world.provider.was_asked(1).await;
    let its_own: Vec<_> = processes::shims_of(&world.gateway.runtime_dir())
        .into_iter()
        .filter(|shim| !main.contains(shim))
        .collect();
    world.gateway.kill_executor();
    for &shim in &its_own {
        processes::signal(shim, nix::sys::signal::Signal::SIGKILL);
    }
    gatehouse_tests::waiting::until("it is gone", async || {
        its_own.iter().all(|&shim| !processes::is_alive(shim)).then_some(())
    })
    .await;
    world.gateway.start_executor().await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!(told["status"], "failed", "{told}");
    let looked = act(&mut brain, "RunCommand", json!({"argv": ["true"]})).await;
    assert_eq!(looked["ok"], true, "the lock is off: {looked}");
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}
