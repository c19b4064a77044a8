//! Commands that are asked for twice, looked at while they run, stopped, and cut off.

use std::path::Path;
use std::time::Duration;

use executor_svc::session::{Command, Status};
use gatehouse_proto::v1::SessionStatus;

use super::*;

/// Waits for what another process does.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn scratch(ground: &Ground, commander: &Commander) -> std::path::PathBuf {
    ground.path("state").join("sessions").join(id(&commander.started)).join("scratch")
}

async fn has_written(file: &Path) {
    until("the command writes", async || file.exists()).await;
}

#[tokio::test]
async fn a_command_that_is_asked_for_again_runs_once() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let script = "echo ran >> /tmp/count; while [ ! -e /tmp/go ]; do sleep 0.02; done; cat /tmp/count";
    let call = commander.authorise(&json!({"argv": ["sh", "-c", script]})).await;
    let scratch = scratch(&ground, &commander);
    let asks: Vec<_> = (0..5)
        .map(|_| {
            let (shim, call) = (commander.shim.clone(), call.clone());
            tokio::spawn(async move { shim.invoke(&call).await.unwrap() })
        })
        .collect();
    has_written(&scratch.join("count")).await;
    std::fs::write(scratch.join("go"), "").unwrap();
    for ask in asks {
        assert!(ask.await.unwrap().ok);
    }
    let again = commander.shim.invoke(&call).await.unwrap();
    assert!(again.ok, "and afterwards its receipt is given");
    assert_eq!(end(&commander.receipt(&call.id).await.unwrap()), (None, Some(0), "ran\n"));
    assert_eq!(std::fs::read_to_string(scratch.join("count")).unwrap(), "ran\n");
}

#[tokio::test]
async fn a_running_command_is_seen_with_what_it_has_written() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let script = "echo 12345; while [ ! -e /tmp/go ]; do sleep 0.02; done";
    let call = commander.authorise(&json!({"argv": ["sh", "-c", script]})).await;
    let asked = {
        let (shim, call) = (commander.shim.clone(), call.clone());
        tokio::spawn(async move { shim.invoke(&call).await.unwrap() })
    };
    let mut seen = None;
    until("the output is seen", async || {
        let status = commander.house.status(&commander.started).await.unwrap();
        let run = status.session.unwrap().current_run.unwrap();
        seen = run.actions.into_iter().find(|action| action.output_bytes == Some(6));
        seen.is_some()
    })
    .await;
    let seen = seen.unwrap();
    assert_eq!(
        (seen.tool_call_id.as_str(), seen.name.as_str(), seen.state.as_str()),
        (call.id.as_str(), "RunCommand", "performing")
    );
    std::fs::write(scratch(&ground, &commander).join("go"), "").unwrap();
    assert!(asked.await.unwrap().ok);
}

#[tokio::test]
async fn a_stop_ends_the_command_and_the_session_is_stopped_only_then() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let word = "98762.4321";
    let script = format!("setsid sleep {word} & echo begun; echo > /tmp/up; sleep {word}");
    let call = commander.authorise(&json!({"argv": ["sh", "-c", script]})).await;
    let asked = {
        let (shim, call) = (commander.shim.clone(), call.clone());
        tokio::spawn(async move { shim.invoke(&call).await })
    };
    has_written(&scratch(&ground, &commander).join("up")).await;
    let stopping =
        commander.house.front().stop(stop_request(&commander.started, "s1")).await.unwrap().into_inner();
    assert_eq!(shown(&stopping), SessionStatus::Stopping);
    until("the command has its receipt", async || commander.receipt(&call.id).await.is_some()).await;
    let receipt = commander.receipt(&call.id).await.unwrap();
    assert_eq!((end(&receipt).0, end(&receipt).2), (Some("cancelled"), "begun\n"), "{receipt}");
    assert_eq!(processes_with(word), 0);
    let _ = asked.await.unwrap();
    // The shim, which this test only plays, is still to be seen gone.
    let session = commander.house.session(&commander.started).await;
    assert_eq!((session.state.status(), session.finishing.len()), (Status::Stopping, 0));
    let ending = session.ending.unwrap();
    let gone = Command::RunnerGone { run_id: ending.run_id, epoch: ending.epoch, why: "gone".into() };
    let over = commander.house.engine.submit(&session.id, None, move |_, _| Ok(gone)).await.unwrap();
    assert_eq!(over.session.state.status(), Status::Stopped);
}

#[tokio::test]
async fn a_lease_that_runs_out_ends_the_command() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let word = "98761.4321";
    let call =
        commander.authorise(&json!({"argv": ["sh", "-c", format!("echo > /tmp/up; sleep {word}")]})).await;
    let asked = {
        let (shim, call) = (commander.shim.clone(), call.clone());
        tokio::spawn(async move { shim.invoke(&call).await })
    };
    has_written(&scratch(&ground, &commander).join("up")).await;
    ground.clock.advance(LEASE + Duration::from_secs(1));
    let session = session_id(&commander.started);
    let expired =
        commander.house.engine.submit(&session, None, |_, _| Ok(Command::CheckLease)).await.unwrap();
    assert_eq!(expired.session.state.status(), Status::LeaseExpired);
    until("the command has its receipt", async || commander.receipt(&call.id).await.is_some()).await;
    assert_eq!(end(&commander.receipt(&call.id).await.unwrap()).0, Some("cancelled"));
    assert_eq!(processes_with(word), 0);
    let _ = asked.await.unwrap();
}

#[tokio::test]
async fn a_command_that_was_cut_off_by_a_restart_is_told_so_and_never_run_again() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let call = commander.authorise(&json!({"argv": ["sh", "-c", "echo ran >> /tmp/count"]})).await;
    // What an executor leaves that dies right after the commit before the start.
    let (session, prepared) = (session_id(&commander.started), call.id.clone());
    let prepare = move |_: &_, _| Ok(Command::Prepare { id: prepared, intent: None });
    commander.house.engine.submit(&session, None, prepare).await.unwrap();
    let (started, before) = (commander.started.clone(), scratch(&ground, &commander));
    commander.house.close().await;

    let house = ground.open();
    house.actions.reconcile().await.unwrap();
    let shim = house.shim(&started).await;
    let short = shim.invoke(&call).await.unwrap();
    assert!(!short.ok && short.short_result.contains("cancelled"), "{}", short.short_result);
    assert!(short.short_result.contains("restarted"), "{}", short.short_result);
    assert!(!before.join("count").exists());
    house.close().await;
}
