//! The executor's side of the runner service, as far as a run needs it; what it "committed" outlives its restarts.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::digest::digest;
use gatehouse_proto::ids::{LINK_METADATA, LinkToken, ToolCallId, TurnId};
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::socket::{self, Role};
use gatehouse_proto::v1;
use gatehouse_proto::v1::await_reply_reply::Outcome;
use gatehouse_proto::v1::open_turn_request::Key;
use gatehouse_proto::v1::runner_server::{Runner, RunnerServer};
use serde_json::Value;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

/// What stands for a turn's key: the ordinal, or the ids.
pub type TurnName = (u32, BTreeSet<String>);

#[derive(Default)]
pub struct Ledger {
    pub plan: v1::RunPlan,
    token: String,
    pub attaches: usize,
    /// The layers that were told, attach by attach.
    pub enforced_by: Vec<Vec<String>>,
    pub heartbeats: usize,
    pub lease_seconds: u64,
    pub end_run: bool,
    pub turns: Vec<Turn>,
    actions: HashMap<String, Action>,
    /// How long a tool takes, by name.
    pub slow: HashMap<String, Duration>,
    pub opens: usize,
    pub no_keys: Vec<String>,
    /// How many more ends are not heard.
    pub deaf_to_ends: usize,
    pub ended: Option<v1::end_run_request::Outcome>,
}

#[derive(Debug, Clone)]
pub struct Turn {
    pub id: String,
    pub name: TurnName,
    pub seen: Vec<v1::SeenToolResult>,
    pub outcome: Option<Outcome>,
}

struct Action {
    name: String,
    input_sha256: String,
    /// When it is done; set when it is begun, once.
    done_at: Option<Instant>,
    begun: usize,
}

impl Ledger {
    /// How often an action was begun: what a user would call its effects.
    pub fn effects_of(&self, id: &str) -> usize {
        self.actions[id].begun
    }
}

/// A service over a ledger; both can be shared with the test.
#[derive(Clone)]
pub struct Executor {
    ledger: Arc<Mutex<Ledger>>,
    changed: Arc<watch::Sender<u64>>,
    runtime_dir: PathBuf,
    running: Arc<Mutex<Option<tokio::runtime::Runtime>>>,
}

impl Executor {
    pub fn new(runtime_dir: &Path, token: &LinkToken, plan: v1::RunPlan) -> Self {
        let ledger = Ledger { plan, token: token.to_hex(), lease_seconds: 1800, ..Ledger::default() };
        let executor = Self {
            ledger: Arc::new(Mutex::new(ledger)),
            changed: Arc::new(watch::channel(0).0),
            runtime_dir: runtime_dir.to_owned(),
            running: Arc::default(),
        };
        executor.start();
        executor
    }

    /// Serves the socket, in a runtime of its own, so that a stop takes every connection with it.
    pub fn start(&self) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = {
            let _inside = runtime.enter();
            socket::listen(Role::Runner, &self.runtime_dir).unwrap()
        };
        let service = RunnerServer::new(self.clone()).max_decoding_message_size(socket::MAX_MESSAGE);
        runtime.spawn(async move {
            let connections = socket::same_user_connections(listener, |_| {});
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(connections)
                .await
                .unwrap();
        });
        *self.running.lock().unwrap() = Some(runtime);
    }

    /// As if killed: connections break, what was committed stays.
    pub fn stop(&self) {
        if let Some(runtime) = self.running.lock().unwrap().take() {
            // On a thread of its own: the test's runtime may not be blocked by another's end. When this is back, the
            // listener and every connection are gone.
            std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(10))).join().unwrap();
        }
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let result = change(&mut self.ledger.lock().unwrap());
        self.changed.send_modify(|n| *n += 1);
        result
    }

    /// Waits until the ledger has what is looked for.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut(&mut Ledger) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                if let Some(found) = look(&mut self.ledger.lock().unwrap()) {
                    return found;
                }
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(90), found).await.unwrap_or_else(|_| {
            let ended = self.ledger.lock().unwrap().ended.clone();
            panic!("never came: {what}; the run's end: {ended:?}")
        })
    }

    /// The turn with that number (from 0), once it is open.
    pub async fn turn(&self, number: usize) -> Turn {
        self.until(&format!("turn {number}"), |ledger| ledger.turns.get(number).cloned()).await
    }

    /// Commits a reply to a turn: text, and calls by name and input. Gives the ids of the calls.
    pub fn reply(&self, turn: &Turn, text: &str, calls: &[(&str, Value)]) -> Vec<String> {
        let calls: Vec<v1::AuthorisedCall> = calls
            .iter()
            .map(|(name, input)| v1::AuthorisedCall {
                tool_call_id: ToolCallId::mint().into(),
                name: (*name).to_owned(),
                input_json: input.to_string(),
            })
            .collect();
        let ids = calls.iter().map(|call| call.tool_call_id.clone()).collect();
        self.with(|ledger| {
            for call in &calls {
                let input: Value = serde_json::from_str(&call.input_json).unwrap();
                let action =
                    Action { name: call.name.clone(), input_sha256: digest(&input), done_at: None, begun: 0 };
                ledger.actions.insert(call.tool_call_id.clone(), action);
            }
            let turn = ledger.turns.iter_mut().find(|open| open.id == turn.id).unwrap();
            assert!(turn.outcome.is_none(), "one reply to a turn");
            turn.outcome = Some(Outcome::Reply(v1::CommittedReply { text: text.to_owned(), calls }));
        });
        ids
    }

    /// From now on this tool takes that many seconds.
    pub fn slow_down(&self, tool: &str, seconds: u64) {
        self.with(|ledger| ledger.slow.insert(tool.to_owned(), Duration::from_secs(seconds)));
    }

    pub fn close(&self, turn: &Turn, reason: &str) {
        self.with(|ledger| {
            let turn = ledger.turns.iter_mut().find(|open| open.id == turn.id).unwrap();
            turn.outcome = Some(Outcome::Closed(reason.to_owned()));
        });
    }

    pub fn effects(&self, id: &str) -> usize {
        self.with(|ledger| ledger.effects_of(id))
    }

    pub async fn ended(&self) -> v1::end_run_request::Outcome {
        self.until("the end of the run", |ledger| ledger.ended.clone()).await
    }

    pub async fn finished(&self) -> v1::RunFinished {
        match self.ended().await {
            v1::end_run_request::Outcome::Finished(finished) => finished,
            other @ v1::end_run_request::Outcome::Failed(_) => panic!("{other:?}"),
        }
    }

    pub async fn failed(&self) -> v1::RunFailed {
        match self.ended().await {
            v1::end_run_request::Outcome::Failed(failed) => failed,
            other @ v1::end_run_request::Outcome::Finished(_) => panic!("{other:?}"),
        }
    }

    fn admit<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let shown = request.metadata().get(LINK_METADATA).and_then(|value| value.to_str().ok());
        if shown == Some(self.ledger.lock().unwrap().token.as_str()) {
            Ok(())
        } else {
            Err(Status::permission_denied("no such link"))
        }
    }

    /// From now on the shim's token is nobody's.
    pub fn forget_link(&self) {
        self.with(|ledger| ledger.token.clear());
    }
}

#[tonic::async_trait]
impl Runner for Executor {
    async fn attach(&self, request: Request<v1::AttachRequest>) -> Result<Response<v1::RunPlan>, Status> {
        self.admit(&request)?;
        let plan = self.with(|ledger| {
            ledger.attaches += 1;
            ledger.enforced_by.push(request.into_inner().enforced_by);
            v1::RunPlan { lease_seconds_left: ledger.lease_seconds, ..ledger.plan.clone() }
        });
        Ok(Response::new(plan))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatReply>, Status> {
        self.admit(&request)?;
        let (lease_seconds_left, end_run) = self.with(|ledger| {
            ledger.heartbeats += 1;
            (ledger.lease_seconds, ledger.end_run)
        });
        Ok(Response::new(v1::HeartbeatReply { lease_seconds_left, end_run }))
    }

    async fn open_turn(
        &self,
        request: Request<v1::OpenTurnRequest>,
    ) -> Result<Response<v1::OpenTurnReply>, Status> {
        self.admit(&request)?;
        let (name, seen) = match request.into_inner().key {
            Some(Key::FirstOfRun(ordinal)) => ((ordinal, BTreeSet::new()), Vec::new()),
            Some(Key::ToolResults(set)) => {
                ((0, set.results.iter().map(|seen| seen.tool_call_id.clone()).collect()), set.results)
            }
            Some(Key::NoKey(reason)) => {
                self.with(|ledger| ledger.no_keys.push(reason));
                return Err(Refusal::new(ErrorCode::TurnMismatch, "no such turn", "nothing").into());
            }
            None => return Err(Status::invalid_argument("no key")),
        };
        let turn_id = self.with(|ledger| {
            ledger.opens += 1;
            if let Some(turn) = ledger.turns.iter().find(|turn| turn.name == name) {
                return turn.id.clone();
            }
            let turn = Turn { id: TurnId::mint().into(), name, seen, outcome: None };
            ledger.turns.push(turn.clone());
            turn.id
        });
        Ok(Response::new(v1::OpenTurnReply { turn_id }))
    }

    async fn await_reply(
        &self,
        request: Request<v1::AwaitReplyRequest>,
    ) -> Result<Response<v1::AwaitReplyReply>, Status> {
        self.admit(&request)?;
        let v1::AwaitReplyRequest { turn_id, wait_ms } = request.into_inner();
        assert!(wait_ms <= 50_000);
        let mut changed = self.changed.subscribe();
        let outcome = async {
            loop {
                let found = self.ledger.lock().unwrap().turns.iter().find(|turn| turn.id == turn_id).cloned();
                if let Some(outcome) = found.and_then(|turn| turn.outcome) {
                    return outcome;
                }
                changed.changed().await.unwrap();
            }
        };
        let outcome = tokio::time::timeout(Duration::from_millis(wait_ms.into()), outcome).await;
        let outcome = Some(outcome.unwrap_or(Outcome::Pending(v1::Pending {})));
        Ok(Response::new(v1::AwaitReplyReply { outcome }))
    }

    async fn invoke_tool(
        &self,
        request: Request<v1::InvokeToolRequest>,
    ) -> Result<Response<v1::InvokeToolReply>, Status> {
        self.admit(&request)?;
        let asked = request.into_inner();
        let done_at = self.with(|ledger| {
            let wait = ledger.slow.get(&asked.name).copied().unwrap_or_default();
            let action = ledger.actions.get_mut(&asked.tool_call_id);
            let action = action
                .filter(|action| action.name == asked.name && action.input_sha256 == asked.input_sha256)?;
            if action.done_at.is_none() {
                action.begun += 1;
            }
            Some(*action.done_at.get_or_insert_with(|| Instant::now() + wait))
        });
        let done_at = done_at.ok_or_else(|| {
            Status::from(Refusal::new(ErrorCode::ToolNotAllowed, "no such action", "nothing"))
        })?;
        tokio::time::sleep_until(done_at.into()).await;
        let ok = asked.name != "Fails";
        Ok(Response::new(v1::InvokeToolReply {
            ok,
            short_result: format!("result of {}", asked.tool_call_id),
        }))
    }

    async fn end_run(
        &self,
        request: Request<v1::EndRunRequest>,
    ) -> Result<Response<v1::EndRunReply>, Status> {
        self.admit(&request)?;
        self.with(|ledger| {
            if let Some(fewer) = ledger.deaf_to_ends.checked_sub(1) {
                ledger.deaf_to_ends = fewer;
                return Err(Status::unavailable("not heard"));
            }
            ledger.ended = request.into_inner().outcome;
            Ok(Response::new(v1::EndRunReply {}))
        })
    }
}
