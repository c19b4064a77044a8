//! Many sessions that wait, with a light stand-in for Claude Code: what they cost while nothing happens, how soon one wakes
//! up, and that no reply is lost or taken twice while front and executor are restarted again and again.
//!
//! `MANY_SESSIONS` says how many (40), `MANY_SECONDS` for how long there are restarts (15), one every ten seconds at most.
//! With `GATEHOUSE_BENCH_FIGURES` what is measured is kept for docs/performance.md.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod measure;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatehouse::chatgpt::{Call, Start, fresh_id};
use gatehouse_figures::{Place, Table};
use gatehouse_proto::v1::{Attachment, ListSessionsRequest};
use gatehouse_tests::binaries::binary;
use gatehouse_tests::dice::Dice;
use gatehouse_tests::patient::Patient;
use gatehouse_tests::places::Project;
use gatehouse_tests::waiting::until;
use gatehouse_tests::{Gateway, Setup};
use measure::Spread;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many sessions are started at the same time.
const AT_A_TIME: usize = 6;
/// How long the idle gateway is watched, unless `MANY_WATCHED` says otherwise (in seconds).
const WATCHED: u64 = 8;
/// What the whole gateway may use of one processor for each waiting session; with debug builds.
const IDLE_SHARE: f64 = 0.001;
/// What executor and front may use of one processor beside that.
const IDLE_BASE: f64 = 0.01;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_sessions_cost_next_to_nothing_and_survive_restarts() {
    let count = usize::try_from(number("MANY_SESSIONS", 40)).unwrap();
    let seconds = number("MANY_SECONDS", 15);
    let config = format!("[limits]\nlive_sessions = {}", count + 1);
    let setup = Setup::with_claude(binary("claude-stand-in")).config(&config);
    let mut gateway = Gateway::start(setup.environment("GATEHOUSE_LOG", "warn")).await;
    let project = Project::small();
    let began = Instant::now();
    let mut sessions = started(&gateway, &project, count).await;
    println!("{count} sessions wait after {:.1} s", began.elapsed().as_secs_f64());
    sessions.iter().for_each(|session| gateway.learn(session.brain()));

    let idle = measure::idle(&gateway, Duration::from_secs(number("MANY_WATCHED", WATCHED)), count).await;
    wake_ups(&mut sessions, &project).await;
    let replies = storm(&mut gateway, sessions, &project, Duration::from_secs(seconds)).await;
    once_each(&gateway, &replies).await;
    gateway.finish().await;
    // Asked last: a machine that is busy with something else spoils no other finding.
    let allowed = IDLE_BASE + IDLE_SHARE * count as f64;
    assert!(idle <= allowed, "idle, the gateway used {idle:.3} of a processor, and {allowed:.3} is allowed");
}

/// Starts sessions, some at a time, each until it waits.
async fn started(gateway: &Gateway, project: &Project, count: usize) -> Vec<Patient> {
    let few = Arc::new(Semaphore::new(AT_A_TIME));
    let mut starting = JoinSet::new();
    for number in 0..count {
        let (client, few) = (gateway.client(), few.clone());
        let start = Start::new(format!("Session {number}."), project.text());
        starting.spawn(async move {
            let _one_of_few = few.acquire_owned().await.unwrap();
            let mut session = Patient::start(client, &start).await;
            let state = session.until(|state| state.status() != "starting").await;
            assert_eq!(state.status(), "waiting_for_gpt", "{}", state.0);
            session
        });
    }
    starting.join_all().await
}

fn read(project: &Project) -> Value {
    Call::new("Read", json!({"file_path": format!("{}/README.md", project.text())})).to_json()
}

/// One reply with one call, until the next turn is there; its id.
async fn reply(session: &mut Patient, call: &Value) -> String {
    let reply_id = fresh_id();
    let arguments = json!({"turn_id": session.brain().turn_id(), "reply_id": reply_id, "tool_calls": [call]});
    let taken = session.call("native_session_reply_and_wait", &arguments).await;
    taken.unwrap_or_else(|refused| panic!("a reply was refused: {refused}"));
    let state = session.until(|state| !matches!(state.status(), "running" | "starting")).await;
    assert_eq!(state.status(), "waiting_for_gpt", "{}", state.0);
    assert!(state.tool_results()[0].ok && state.tool_results().len() == 1, "{}", state.0);
    reply_id
}

/// From a reply to the next turn, one session after the other.
async fn wake_ups(sessions: &mut [Patient], project: &Project) {
    let (call, mut times) = (read(project), Vec::new());
    let mut table = Table::new(["what", "p50", "p99", "longest", "goal (p99)", "reached"]);
    for _ in 0..2 {
        for session in sessions.iter_mut() {
            let began = Instant::now();
            reply(session, &call).await;
            times.push(began.elapsed());
        }
    }
    measure::wakes(&mut table, &times);
    measure::keep(&table, Place::ManyWakes);
}

/// Everybody replies now and then, while front and executor come and go. Gives the id of every acknowledged reply.
async fn storm(
    gateway: &mut Gateway,
    sessions: Vec<Patient>,
    project: &Project,
    length: Duration,
) -> Vec<String> {
    let until = Instant::now() + length;
    let mut talking = JoinSet::new();
    for (number, session) in sessions.into_iter().enumerate() {
        talking.spawn(talk(session, read(project), Dice::of(number as u64), until));
    }
    restarts(gateway, until).await;
    let (mut replies, mut times, mut repeats) = (Vec::new(), Vec::new(), 0);
    for talked in talking.join_all().await {
        assert_eq!(talked.recoveries, 0, "restarts take no lease away");
        repeats += talked.repeats;
        for (reply_id, took) in talked.replies {
            replies.push(reply_id);
            times.push(took);
        }
    }
    println!("{} replies with restarts, {repeats} calls repeated: {}", replies.len(), Spread::of(times));
    replies
}

struct Talked {
    replies: Vec<(String, Duration)>,
    repeats: usize,
    recoveries: usize,
}

async fn talk(mut session: Patient, call: Value, mut dice: Dice, until: Instant) -> Talked {
    let mut replies = Vec::new();
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(dice.within(500..8000))).await;
        let began = Instant::now();
        replies.push((reply(&mut session, &call).await, began.elapsed()));
    }
    Talked { replies, repeats: session.repeats, recoveries: session.recoveries }
}

/// Executor and front in turn and together, by SIGKILL and SIGTERM in turn, every ten seconds or thrice.
async fn restarts(gateway: &mut Gateway, until: Instant) {
    let between = Duration::from_secs(10).min((until - Instant::now()) / 3);
    let mut round = 0;
    while Instant::now() + between < until {
        tokio::time::sleep(between).await;
        match round % 4 {
            0 => gateway.kill_executor(),
            1 => gateway.end_executor(),
            2 => gateway.kill_front(),
            _ => gateway.end_front(),
        }
        match round % 3 {
            0 => gateway.kill_front(),
            1 => gateway.kill_executor(),
            _ => {}
        }
        let began = Instant::now();
        if gateway.executor_pid().is_none() {
            gateway.start_executor().await;
        }
        let up = began.elapsed();
        if gateway.front_pid().is_none() {
            gateway.start_front().await;
        }
        all_are_back(gateway).await;
        println!(
            "restart {round}: the executor answers after {:.2} s, every shim is back after {:.2} s",
            up.as_secs_f64(),
            began.elapsed().as_secs_f64()
        );
        round += 1;
    }
    assert!(round >= 2, "too short a time for restarts");
}

async fn all_are_back(gateway: &Gateway) {
    until("every shim is attached again", async || {
        let request = ListSessionsRequest { live_only: true, limit: 1000, after: None };
        let listed = gateway.operator().list_sessions(request).await.ok()?.into_inner();
        let back = |run: &gatehouse_proto::v1::CurrentRun| run.attachment() == Attachment::Attached;
        let mut runs = listed.sessions.iter().filter_map(|session| session.current_run.as_ref());
        runs.all(back).then_some(())
    })
    .await;
}

/// Each acknowledged reply stands in the journal exactly once, and nothing else does.
async fn once_each(gateway: &Gateway, storm: &[String]) {
    let mut committed: BTreeMap<String, usize> = BTreeMap::new();
    for event in gateway.journal().await.iter().filter(|event| event.kind == "reply.committed") {
        let body: Value = serde_json::from_str(&event.body_json).unwrap();
        *committed.entry(body["reply_id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    for reply_id in storm {
        assert_eq!(committed.get(reply_id), Some(&1), "{reply_id}");
    }
    assert!(committed.values().all(|count| *count == 1));
}
