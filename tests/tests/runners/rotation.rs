//! One lease at a time: what the old one holds is dead at once.

use std::time::Duration;

use gatehouse::chatgpt::fresh_id;
use gatehouse_tests::dice::Dice;
use gatehouse_tests::patient::Patient;
use gatehouse_tests::places::Project;
use gatehouse_tests::waiting::until;
use gatehouse_tests::{Gateway, Setup, claude};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{World, only, running, sh};

/// Far less than the call would wait otherwise.
const AT_ONCE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_under_the_old_lease_is_told_at_once_and_its_command_goes_on() {
    let Some(mut world) = World::new("").await else { return };
    let word = "97532.0001";
    let script = format!("sleep {word} & while ! [ -e /tmp/enough ]; do sleep 0.1; done; echo done; kill $!");
    let reply = world.brain.reply_arguments(None, &[sh(&script)]);
    let client = world.gateway.client();
    let replying = tokio::spawn(async move { client.call("native_session_reply_and_wait", reply).await });
    running(word).await;
    let (client, look) = (world.gateway.client(), world.brain.with_ids(json!({"wait_seconds": 50})));
    let looking = tokio::spawn(async move { client.call("native_session_status", look).await });
    let old = world.brain.with_ids(json!({"wait_seconds": 0}));
    let state = world.brain.recover().await.unwrap();
    assert_eq!((state.status(), &state.0["runtime_attached"]), ("running", &true.into()), "{}", state.0);
    for call in [replying, looking] {
        let answer = tokio::time::timeout(AT_ONCE, call).await.expect("at once").unwrap();
        assert_eq!(answer.unwrap_err().code(), Some("lease_mismatch"));
    }
    let refused = world.gateway.client().call("native_session_status", old).await.unwrap_err();
    assert_eq!(refused.code(), Some("lease_mismatch"));
    // What was authorised goes on, and the new holder is told.
    let scratch = world.gateway.state_dir().join("sessions").join(world.brain.session_id()).join("scratch");
    std::fs::write(scratch.join("enough"), "").unwrap();
    let state = world.brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
    let result = only(state.tool_results());
    assert_eq!((result.ok, &result.receipt["stdout"]), (true, &json!("done\n")), "{}", result.receipt);
    world.brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_meets_a_recovery_is_committed_once_or_not_at_all() {
    let Some(mut world) = World::new("").await else { return };
    let mut dice = Dice::of(5);
    let (mut under_the_old, mut under_the_new, mut refused) = (0, 0, 0);
    let mut reply_ids = Vec::new();
    let mut lead: i64 = 4;
    // However quick the machine is, the lead is drawn to where either may win.
    while reply_ids.len() < 24 || ((under_the_old == 0 || under_the_new == 0) && reply_ids.len() < 240) {
        let reply = world.brain.reply_arguments(None, &[sh("true")]);
        reply_ids.push(reply["reply_id"].as_str().unwrap().to_owned());
        let (client, sent) = (world.gateway.client(), reply.clone());
        let lead_now = lead + i64::try_from(dice.within(0..5)).unwrap() - 2;
        let replying = tokio::spawn(async move {
            tokio::time::sleep(milliseconds(-lead_now)).await;
            client.call("native_session_reply_and_wait", sent).await
        });
        tokio::time::sleep(milliseconds(lead_now)).await;
        world.brain.recover().await.unwrap();
        if let Err(error) = replying.await.unwrap() {
            assert_eq!(error.code(), Some("lease_mismatch"), "{error}");
            refused += 1;
        }
        // The same reply under the new lease: a replay if the old one still counted, taken now if not.
        let again = world.brain.with_ids(without_lease(reply));
        let state = world.brain.call("native_session_reply_and_wait", again).await.unwrap();
        if state.replay() {
            under_the_old += 1;
            lead -= 1;
        } else {
            under_the_new += 1;
            lead += 1;
        }
        let state = world.brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
        assert!(only(state.tool_results()).ok);
    }
    let told =
        format!("{under_the_old} under the old lease, {under_the_new} under the new, {refused} refused");
    assert!(under_the_old > 0 && under_the_new > 0 && refused > 0, "{told}");
    let journal = world.gateway.journal().await;
    for reply_id in reply_ids {
        let stands = |event: &&gatehouse_proto::v1::Event| {
            event.kind == "reply.committed"
                && serde_json::from_str::<Value>(&event.body_json).unwrap()["reply_id"] == *reply_id
        };
        assert_eq!(journal.iter().filter(stands).count(), 1, "{reply_id}");
    }
    world.brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

/// So many of them, or none where there are less than none.
fn milliseconds(count: i64) -> Duration {
    Duration::from_millis(count.try_into().unwrap_or(0))
}

fn without_lease(mut reply: Value) -> Value {
    let fields = reply.as_object_mut().unwrap();
    fields.remove("lease_id").unwrap();
    fields.remove("native_session_id").unwrap();
    reply
}

/// A recovery sent again and again with its id, through deaths of the executor and the front, mints one lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_is_repeated_through_restarts_mints_one_lease() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    let project = Project::small();
    let start = gatehouse::chatgpt::Start::new("Hello.", project.text());
    let mut patient = Patient::start(gateway.client(), &start).await;
    patient.until(|state| state.status() == "waiting_for_gpt").await;
    gateway.learn(patient.brain());
    let turn = patient.brain().turn_id().to_owned();
    for round in 0..4 {
        let asked = json!({"native_session_id": patient.brain().session_id(),
            "recovery_token": patient.brain().recovery_token(), "recovery_id": fresh_id()});
        let (client, sent) = (gateway.client(), asked.clone());
        let first = tokio::spawn(async move { client.call("native_session_recover", sent).await });
        match round {
            0 => gateway.kill_executor(),
            1 => gateway.end_executor(),
            2 => gateway.kill_front(),
            _ => gateway.end_front(),
        }
        if gateway.executor_pid().is_none() {
            gateway.start_executor().await;
        } else {
            gateway.start_front().await;
        }
        let early = first.await.unwrap();
        let again = gateway.client().call("native_session_recover", asked).await.unwrap();
        if let Ok(early) = early {
            assert!(again.replay() && again.lease_id() == early.lease_id(), "{} {}", early.0, again.0);
        }
        assert_eq!((again.status(), again.turn_id()), ("waiting_for_gpt", Some(&*turn)), "{}", again.0);
        patient.recover().await.unwrap();
    }
    let attached = |state: &gatehouse::chatgpt::State| state.0["current_run"]["attachment"] == "attached";
    patient.until(attached).await;
    // A shim that is killed as soon as it is attached again is missed as well.
    let session = patient.state().claude_session_id().to_owned();
    let shim = gatehouse_tests::processes::shim_of(&session).unwrap();
    gatehouse_tests::processes::signal(shim, Signal::SIGKILL);
    patient.until(|state| state.status() == "idle").await;
    until("nothing of the run is left", async || {
        gatehouse_tests::processes::claude_of(&session).is_none().then_some(())
    })
    .await;
    gateway.finish().await;
}
