use gatehouse_proto::v1::{GetSessionRequest, SessionStatus};
use gatehouse_tests::deepseek::{Answer, FakeDeepseek, Message, text};
use gatehouse_tests::processes;
use serde_json::{Value, json};

use crate::world::{World, act, delegate, refused, seen_out};

fn held() -> [Answer; 1] {
    [Answer::Held(Message::flash(vec![text("x")]))]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_subagent_is_seen_to_be_gone_before_the_session_can_finish() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, _) = world.session().await;
    world.provider.script(held());
    let id = delegate(&mut brain, "sonnet").await;
    world.provider.was_asked(1).await;
    assert_eq!(processes::shims_of(&world.gateway.runtime_dir()).len(), 2);
    assert_eq!(refused(&brain, &world.gateway, Some("Done."), &[]).await, "subagent_active");
    let stop = json!({"subsession_id": id});
    let stopped = act(&mut brain, "deepseek_subagent_stop", stop.clone()).await;
    assert_eq!(stopped["status"], "stopped", "{stopped}");
    assert_eq!(processes::shims_of(&world.gateway.runtime_dir()).len(), 1, "it is gone when that is told");
    let again = act(&mut brain, "deepseek_subagent_stop", stop).await;
    assert_eq!(again["status"], "stopped", "stopping twice changes nothing: {again}");
    let told = seen_out(&mut brain, &id).await;
    assert_eq!((&told["status"], &told["result"]), (&json!("stopped"), &Value::Null), "{told}");
    brain.finish("Done.").await.unwrap();
    assert_eq!(brain.state().status(), "idle");
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_stopped_takes_its_subagent_with_it() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, _) = world.session().await;
    world.provider.script(held());
    delegate(&mut brain, "sonnet").await;
    world.provider.was_asked(1).await;
    brain.stop("enough").await.unwrap();
    brain.until(|state| state.status() == "stopped").await.unwrap();
    assert!(processes::shims_of(&world.gateway.runtime_dir()).is_empty());
    let state = brain.status(0).await.unwrap().0.clone();
    assert_eq!(state["deepseek_subsessions"][0]["status"], "stopped", "{state}");
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_whose_time_is_over_is_ended() {
    let Some(mut world) = World::new("seconds = 10").await else { return };
    let (mut brain, _) = world.session().await;
    world.provider.script(held());
    let id = delegate(&mut brain, "sonnet").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!((&told["status"], &told["error"]["kind"]), (&json!("failed"), &json!("timed_out")), "{told}");
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_runs_out_ends_the_subagent_too() {
    let provider = FakeDeepseek::start().await;
    let endpoint = format!("http://127.0.0.1:{}", provider.port());
    let lease = "[limits]\nlease_seconds = 60";
    let Some(mut world) = World::with(provider, &endpoint, "", lease).await else { return };
    let (mut brain, _) = world.session().await;
    world.provider.script(held());
    delegate(&mut brain, "sonnet").await;
    // Asking ChatGPT's way would renew the lease; the operator only looks.
    let mut operator = world.gateway.operator();
    let request = GetSessionRequest { native_session_id: brain.session_id().to_owned() };
    let expired = async {
        loop {
            let session = operator.get_session(request.clone()).await.unwrap().into_inner().session.unwrap();
            if session.status() == SessionStatus::LeaseExpired
                && session.active_deepseek_subsession_id.is_none()
            {
                return session;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let session = tokio::time::timeout(std::time::Duration::from_secs(100), expired).await.unwrap();
    assert_eq!(session.deepseek_subsessions[0].status, "stopped");
    processes::no_shim_is_left(&world.gateway.runtime_dir()).await;
    assert_eq!(brain.recover().await.unwrap().status(), "idle");
    brain.go_on("Again.").await.unwrap();
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_dies_is_a_failure_and_the_main_session_goes_on() {
    let Some(mut world) = World::new("").await else { return };
    let (mut brain, _) = world.session().await;
    let main = processes::shims_of(&world.gateway.runtime_dir());
    world.provider.script(held());
    let id = delegate(&mut brain, "sonnet").await;
    world.provider.was_asked(1).await;
    for shim in processes::shims_of(&world.gateway.runtime_dir()) {
        if !main.contains(&shim) {
            processes::signal(shim, nix::sys::signal::Signal::SIGKILL);
        }
    }
    let told = seen_out(&mut brain, &id).await;
    assert_eq!(
        (&told["status"], &told["error"]["kind"]),
        (&json!("failed"), &json!("runner_gone")),
        "{told}"
    );
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}
