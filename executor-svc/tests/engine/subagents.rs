//! A subagent through the whole of the executor, with a provider on loopback and somebody who plays both shims.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use executor_svc::engine::Order;
use executor_svc::ledger::{runs, sessions};
use executor_svc::session::{Profile, Session, SubagentPolicy, SubagentState};
use executor_svc::subagent::Broker;
use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::ids::{LinkToken, TurnId};
use gatehouse_proto::v1;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::caller::Caller;
use super::house::*;

/// Answers each request with the next of these messages, once it may.
struct Provider {
    port: u16,
    script: Arc<Mutex<Vec<Value>>>,
    asked: Arc<AtomicUsize>,
    may: Arc<Semaphore>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, may) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let script = Arc::<Mutex<Vec<Value>>>::default();
        let (count, gate, contents) = (asked.clone(), may.clone(), script.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = contents.lock().unwrap().get(count.fetch_add(1, Ordering::SeqCst)).cloned();
                let gate = gate.clone();
                tokio::spawn(async move {
                    // The head is enough: a body that is not read is kept by the system.
                    let mut head = [0; 1024];
                    let _ = stream.read(&mut head).await;
                    gate.acquire().await.unwrap().forget();
                    let body = json!({
                        "id": "msg_1", "model": "deepseek-flash", "content": answer, "stop_reason": "end_turn",
                        "usage": {"input_tokens": 3, "output_tokens": 2},
                    });
                    let body = body.to_string();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                });
            }
        });
        Self { port, script, asked, may }
    }

    fn script(&self, contents: Vec<Value>) {
        *self.script.lock().unwrap() = contents;
    }

    fn answers(&self, times: usize) {
        self.may.add_permits(times);
    }
}

/// A ground on which subagents are switched on.
fn ground(provider: &Provider) -> Ground {
    let ground = Ground::new(&format!(
        "[deepseek]\ncredential_file = 'GROUND/key'\nendpoint = 'http://127.0.0.1:{}'\nseconds = 60\n",
        provider.port
    ));
    let key = ground.path("key");
    std::fs::write(&key, "sk-0123456789").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    ground
}

/// A session in which subagents are allowed: one that changes its directory, as if that were a worktree.
async fn caller(ground: &Ground) -> Caller {
    let caller = Caller::writing(ground).await;
    let mut session = caller.house.session(&caller.started).await;
    (session.profile, session.subagents) = (Profile::WorktreeWrite, SubagentPolicy::DeepseekExplicit);
    let row = sessions::SessionRow {
        id: session.id.clone(),
        status: session.state.status().as_str(),
        is_live: session.state.status().is_live(),
        revision: session.revision,
        created_at: session.created_at,
        state: serde_json::to_string(&session).unwrap(),
    };
    caller.house.engine.note(move |tx| sessions::save(tx, &row)).await.unwrap();
    caller
}

async fn session(caller: &Caller) -> Session {
    caller.house.session(&caller.started).await
}

/// Starts one, and poses as its shim.
async fn begun(caller: &mut Caller) -> Shim {
    let receipt =
        caller.call("deepseek_subagent_start", json!({"prompt": "Do it.", "grade": "sonnet"})).await;
    assert_eq!(
        (&receipt["status"], &receipt["route"]),
        (&json!("started"), &json!("deepseek-flash")),
        "{receipt}"
    );
    its_shim(caller).await
}

async fn its_shim(caller: &Caller) -> Shim {
    let run = session(caller).await.subagent.expect("a subagent").run;
    let token = LinkToken::mint().unwrap();
    let hash = token.hash();
    let id = run.id.clone();
    caller.house.engine.note(move |tx| runs::set_link(tx, &id, &hash)).await.unwrap();
    caller.house.shim_with(token, run.ordinal)
}

/// The turn that the broker is ordered to ask about.
async fn ordered(house: &mut House) -> TurnId {
    loop {
        if let Order::Ask { turn, .. } = house.orders.recv().await.unwrap() {
            return turn;
        }
    }
}

async fn answered(shim: &Shim, turn: &str) -> v1::await_reply_reply::Outcome {
    loop {
        match shim.await_reply(turn).await {
            v1::await_reply_reply::Outcome::Pending(_) => {}
            outcome => return outcome,
        }
    }
}

#[tokio::test]
async fn an_answer_is_released_when_it_is_committed_and_its_calls_go_the_one_way() {
    let provider = Provider::start().await;
    let ground = ground(&provider);
    let file = ground.path("project/x");
    let write = json!({"file_path": file, "content": "x", "create_only": true});
    provider.script(vec![
        json!([{"type": "tool_use", "id": "c", "name": "Write", "input": write}]),
        json!([{"type": "text", "text": "Done."}]),
    ]);
    let mut caller = caller(&ground).await;
    let its = begun(&mut caller).await;
    let broker = Broker::new(caller.house.engine.clone());
    let turn = its.open_first().await;
    let id = ordered(&mut caller.house).await;
    assert_eq!(id.as_str(), turn);
    let session_id = session(&caller).await.id;
    // Asked for twice, also at the same time, it is one request.
    broker.ask(session_id.clone(), id.clone());
    broker.ask(session_id.clone(), id.clone());
    assert_eq!(its.open_first().await, turn, "a repeat of Claude Code's joins the turn");
    provider.answers(1);
    let v1::await_reply_reply::Outcome::Reply(reply) = answered(&its, &turn).await else {
        panic!("no reply")
    };
    assert_eq!(provider.asked.load(Ordering::SeqCst), 1);
    let subagent = session(&caller).await.subagent.unwrap();
    assert_eq!((subagent.requests, subagent.state), (1, SubagentState::Working));
    let call = subagent.run.calls[0].clone();
    assert_eq!((&reply.calls[0].tool_call_id, call.id.as_str().len()), (&call.id.to_string(), 30));
    // The main run's shim cannot make the subagent's call, nor the other way round.
    assert!(caller.shim.invoke(&call).await.is_err());
    for _ in 0..2 {
        assert!(its.invoke(&call).await.unwrap().ok, "asking again gives the same receipt");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"x");

    let seen = v1::ToolResultSet {
        results: vec![v1::SeenToolResult {
            tool_call_id: call.id.to_string(),
            is_error: false,
            text: String::new(),
        }],
    };
    let turn = its.open(v1::open_turn_request::Key::ToolResults(seen)).await.unwrap();
    broker.ask(session_id, ordered(&mut caller.house).await);
    provider.answers(1);
    let v1::await_reply_reply::Outcome::Reply(last) = answered(&its, &turn).await else { panic!("no reply") };
    assert_eq!((last.text.as_str(), last.calls.len()), ("Done.", 0));
    its.finish().await;
    assert!(session(&caller).await.subagent.is_none());
    let id =
        caller.house.status(&caller.started).await.unwrap().session.unwrap().deepseek_subsessions.remove(0);
    let told = caller.call("deepseek_subagent_get", json!({"subsession_id": id.subsession_id})).await;
    assert_eq!(
        (&told["status"], &told["result"], &told["model_verified"]),
        (&json!("finished"), &json!("Done."), &json!(true))
    );
    assert_eq!(
        (&told["actions"][0]["name"], &told["usage"]["requests"]),
        (&json!("Write"), &json!(2)),
        "{told}"
    );
    caller.house.close().await;
}

#[tokio::test]
async fn what_is_stopped_while_the_provider_answers_uses_nothing_of_the_answer() {
    let provider = Provider::start().await;
    provider.script(vec![json!([{"type": "text", "text": "late"}])]);
    let ground = ground(&provider);
    let mut caller = caller(&ground).await;
    let its = begun(&mut caller).await;
    let broker = Broker::new(caller.house.engine.clone());
    let turn = its.open_first().await;
    let id = ordered(&mut caller.house).await;
    broker.ask(session(&caller).await.id, id);
    let begun = session(&caller).await.subagent.unwrap();
    let refused = caller
        .refusal("Write", json!({"file_path": ground.path("project/y"), "content": "", "create_only": true}))
        .await;
    assert_eq!(refused, ErrorCode::SubagentActive);
    let stop = executor_svc::session::Command::StopSubagent { id: begun.id.clone(), why: "enough".into() };
    let id = session(&caller).await.id;
    caller.house.engine.submit(&id, None, move |_, _| Ok(stop)).await.unwrap();
    provider.answers(1);
    let outcome = answered(&its, &turn).await;
    assert!(matches!(outcome, v1::await_reply_reply::Outcome::Closed(_)), "{outcome:?}");
    let subagent = session(&caller).await.subagent.unwrap();
    assert!(subagent.is_ending() && subagent.usage.output_tokens == 0);
    assert!(its.open(v1::open_turn_request::Key::FirstOfRun(1)).await.is_err(), "its run is over");
    let gone =
        executor_svc::session::Command::RunnerGone { run_id: subagent.run.id, epoch: 1, why: "gone".into() };
    caller.house.engine.submit(&id, None, move |_, _| Ok(gone)).await.unwrap();
    let view = caller.house.status(&caller.started).await.unwrap().session.unwrap();
    assert_eq!(view.deepseek_subsessions[0].status, "stopped");
    assert_eq!(view.active_deepseek_subsession_id, None);
    caller.house.close().await;
}

#[tokio::test]
async fn a_look_waits_for_the_end_and_wakes_when_it_comes() {
    let provider = Provider::start().await;
    provider.script(vec![json!([{"type": "text", "text": "Done."}])]);
    let ground = ground(&provider);
    let mut caller = caller(&ground).await;
    let its = begun(&mut caller).await;
    let broker = Broker::new(caller.house.engine.clone());
    let turn = its.open_first().await;
    broker.ask(session(&caller).await.id, ordered(&mut caller.house).await);
    let id = session(&caller).await.subagent.unwrap().id;
    let began = std::time::Instant::now();
    let looking =
        caller.call("deepseek_subagent_get", json!({"subsession_id": id.as_str(), "wait_seconds": 50}));
    let ending = async {
        provider.answers(1);
        answered(&its, &turn).await;
        its.finish().await;
    };
    let (told, ()) = tokio::join!(looking, ending);
    assert_eq!(told["status"], "finished", "{told}");
    assert!(began.elapsed() < std::time::Duration::from_secs(40));
    caller.house.close().await;
}
