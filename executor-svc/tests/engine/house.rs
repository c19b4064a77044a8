//! One executor in a folder of its own, which can be put down and opened again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use executor_svc::action::Actions;
use executor_svc::clock::{ManualClock, Timestamp};
use executor_svc::commands::Commands;
use executor_svc::config::{Overrides, Settings};
use executor_svc::content::ContentStore;
use executor_svc::engine::{Engine, Order, Parts, RecoverySecret};
use executor_svc::files::replace::{ReplaceOptions, Replacer};
use executor_svc::files::{FilePolicy, FilePolicyConfig, HardLinks, NetworkFs};
use executor_svc::ledger::{self, LedgerError, runs};
use executor_svc::rpc::{self, Services, Sockets};
use executor_svc::runner::Runners;
use executor_svc::session::{Call, Session};
use executor_svc::worktree::{WorktreeSettings, Worktrees};
use gatehouse_proto::codes::ErrorCode;
use gatehouse_proto::ids::{LINK_METADATA, LinkToken, SessionId};
use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::socket::{Role, channel};
use gatehouse_proto::v1;
use gatehouse_proto::v1::front_client::FrontClient;
use gatehouse_proto::v1::operator_client::OperatorClient;
use gatehouse_proto::v1::runner_client::RunnerClient;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{mpsc, watch};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// The launcher that was built beside this test.
fn launcher() -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let file = test.parent().unwrap().parent().unwrap().join("sandbox-launch");
    file.is_file().then_some(file)
}

pub const LEASE: Duration = Duration::from_secs(1800);

/// What of the executor stays over a restart.
pub struct Ground {
    top: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
}

impl Ground {
    pub fn new(config: &str) -> Self {
        Self::below(&std::env::temp_dir(), config)
    }

    /// The same in a folder of one's choice.
    pub fn below(place: &std::path::Path, config: &str) -> Self {
        let top = tempfile::tempdir_in(place).unwrap();
        for folder in ["project", "state", "bin"] {
            std::fs::create_dir(top.path().join(folder)).unwrap();
        }
        let config = config.replace("GROUND", top.path().to_str().unwrap());
        std::fs::write(top.path().join("config.toml"), config).unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        Self { top, clock }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn settings(&self) -> Settings {
        Settings::load(&Overrides {
            config: Some(self.path("config.toml")),
            state_dir: Some(self.path("state")),
            runtime_dir: Some(self.path("run")),
            environment: [("HOME".into(), self.path("home").into())].into(),
        })
        .unwrap()
    }

    /// Opens the executor: ledger, rooms, sockets.
    pub fn open(&self) -> House {
        self.open_with(launcher())
    }

    /// The same with another launcher, or none.
    pub fn open_with(&self, launcher: Option<PathBuf>) -> House {
        let has_launcher = launcher.is_some();
        let git_launcher = launcher.clone();
        let settings = self.settings();
        let policy = FilePolicy::new(FilePolicyConfig {
            homes: Vec::new(),
            read_roots: vec!["/".into()],
            extra_protected: Vec::new(),
            own_dirs: vec![settings.state_dir.clone(), settings.runtime_dir.clone()],
            hard_links: HardLinks::Strict,
            network_fs: NetworkFs::RootOnly,
            whole_hash_limit: 1 << 20,
        })
        .unwrap();
        let (orders, ordered) = mpsc::unbounded_channel();
        let parts = Parts {
            ledger: ledger::open(&settings.state_dir).unwrap(),
            policy: Arc::new(policy),
            secret: RecoverySecret::load(&settings.state_dir).unwrap(),
            settings,
            orders,
        };
        let engine = Engine::new(parts, self.clock.clone());
        let commands =
            Commands::new(engine.settings().commands.clone(), engine.policy().clone(), launcher).unwrap();
        let content = ContentStore::open(&self.path("state").join("content"), 1 << 30)
            .unwrap()
            .with_ledger(engine.ledger_readers());
        let replacer = Replacer::new(ReplaceOptions::default());
        let actions = Actions::new(engine.clone(), commands, replacer, content);
        let worktree_settings = WorktreeSettings {
            launcher: git_launcher,
            path: engine.settings().commands.path.clone(),
            excludes: None,
            scratch: self.path("state").join("git"),
        };
        let worktrees = Arc::new(Worktrees::new(worktree_settings, engine.policy().clone()));
        let runners = Runners::new(engine.clone(), worktrees.clone());
        let (shutdown, asked) = mpsc::channel(1);
        let (over, end) = watch::channel(false);
        let services = Services {
            engine: engine.clone(),
            actions: actions.clone(),
            runners: runners.clone(),
            worktrees,
            shutdown,
        };
        let sockets = Sockets::bind(&self.path("run")).unwrap();
        let serving = tokio::spawn(rpc::serve(services, sockets, end));
        House {
            run_dir: self.path("run"),
            project: self.path("project"),
            has_launcher,
            engine,
            actions,
            runners,
            orders: ordered,
            asked,
            over,
            serving,
        }
    }
}

/// A running executor.
pub struct House {
    run_dir: PathBuf,
    pub project: PathBuf,
    pub has_launcher: bool,
    pub engine: Engine,
    pub actions: Actions,
    pub runners: Runners,
    pub orders: UnboundedReceiver<Order>,
    pub asked: mpsc::Receiver<()>,
    over: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl House {
    /// Puts the executor down.
    pub async fn close(self) {
        self.over.send_replace(true);
        self.serving.await.unwrap().unwrap();
    }

    /// A connection of its own.
    pub fn front(&self) -> FrontClient<Channel> {
        FrontClient::new(channel(&Role::Front.socket(&self.run_dir)).unwrap())
    }

    pub fn operator(&self) -> OperatorClient<Channel> {
        OperatorClient::new(channel(&Role::Operator.socket(&self.run_dir)).unwrap())
    }

    pub fn start_request(&self, key: &str) -> v1::StartRequest {
        v1::StartRequest {
            prompt: "Hello.".into(),
            working_directory: self.project.to_str().unwrap().into(),
            idempotency_key: key.into(),
            wait_seconds: Some(0),
            ..v1::StartRequest::default()
        }
    }

    pub async fn start(&self, key: &str) -> v1::SessionReply {
        self.front().start(self.start_request(key)).await.unwrap().into_inner()
    }

    pub async fn session(&self, reply: &v1::SessionReply) -> Session {
        self.engine.load(&session_id(reply)).unwrap()
    }

    /// Poses as the shim of the session's run.
    pub async fn shim(&self, reply: &v1::SessionReply) -> Shim {
        let run = self.session(reply).await.state.run().expect("a run").clone();
        let token = LinkToken::mint().unwrap();
        let hash = token.hash();
        self.engine.note(move |tx| runs::set_link(tx, &run.id, &hash)).await.unwrap();
        self.shim_with(token, run.ordinal)
    }

    /// Poses as the shim of whatever run has this token.
    pub fn shim_with(&self, token: LinkToken, ordinal: u32) -> Shim {
        let client = RunnerClient::new(channel(&Role::Runner.socket(&self.run_dir)).unwrap());
        Shim { client, token, ordinal }
    }

    /// Starts a session and opens its first turn.
    pub async fn waiting(&self, key: &str) -> (v1::SessionReply, Shim, String) {
        let started = self.start(key).await;
        let shim = self.shim(&started).await;
        let turn = shim.open_first().await;
        (started, shim, turn)
    }

    pub async fn status(&self, of: &v1::SessionReply) -> Result<v1::SessionReply, Status> {
        self.front().get_status(status_request(of, 0)).await.map(Response::into_inner)
    }

    /// How many rows a table has.
    pub async fn count(&self, table: &'static str) -> u64 {
        self.engine
            .read(move |connection| {
                connection
                    .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
                    .map_err(LedgerError::from)
            })
            .await
            .unwrap()
    }
}

/// Poses as a runner-shim.
#[derive(Clone)]
pub struct Shim {
    client: RunnerClient<Channel>,
    token: LinkToken,
    ordinal: u32,
}

impl Shim {
    fn signed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert(LINK_METADATA, self.token.to_hex().parse().unwrap());
        request
    }

    pub async fn open(&self, key: v1::open_turn_request::Key) -> Result<String, Status> {
        let ask = v1::OpenTurnRequest { key: Some(key), request_sha256: String::new() };
        let opened = self.client.clone().open_turn(self.signed(ask)).await?;
        Ok(opened.into_inner().turn_id)
    }

    pub async fn open_first(&self) -> String {
        self.open(v1::open_turn_request::Key::FirstOfRun(self.ordinal)).await.unwrap()
    }

    /// What has become of a turn, waiting for a second.
    pub async fn await_reply(&self, turn: &str) -> v1::await_reply_reply::Outcome {
        let ask = v1::AwaitReplyRequest { turn_id: turn.into(), wait_ms: 1000 };
        self.client.clone().await_reply(self.signed(ask)).await.unwrap().into_inner().outcome.unwrap()
    }

    /// Calls a tool, as Claude Code would.
    pub async fn invoke(&self, call: &Call) -> Result<v1::InvokeToolReply, Status> {
        let ask = v1::InvokeToolRequest {
            tool_call_id: call.id.to_string(),
            name: call.name.clone(),
            input_sha256: call.input_sha256.clone(),
        };
        Ok(self.client.clone().invoke_tool(self.signed(ask)).await?.into_inner())
    }

    pub async fn finish(&self) {
        let outcome = v1::end_run_request::Outcome::Finished(v1::RunFinished::default());
        let ask = v1::EndRunRequest { outcome: Some(outcome) };
        self.client.clone().end_run(self.signed(ask)).await.unwrap();
    }
}

pub fn session_id(reply: &v1::SessionReply) -> SessionId {
    SessionId::try_from(id(reply)).unwrap()
}

pub fn id(reply: &v1::SessionReply) -> String {
    reply.session.as_ref().unwrap().native_session_id.clone()
}

pub fn shown(reply: &v1::SessionReply) -> v1::SessionStatus {
    reply.session.as_ref().unwrap().status()
}

pub fn status_request(of: &v1::SessionReply, wait: u32) -> v1::StatusRequest {
    v1::StatusRequest { native_session_id: id(of), lease_id: of.lease_id.clone(), wait_seconds: Some(wait) }
}

pub fn reply_request(of: &v1::SessionReply, turn: &str, reply_id: &str, text: &str) -> v1::ReplyRequest {
    v1::ReplyRequest {
        native_session_id: id(of),
        lease_id: of.lease_id.clone(),
        turn_id: turn.into(),
        reply_id: reply_id.into(),
        text: Some(text.into()),
        tool_calls: Vec::new(),
        wait_seconds: Some(0),
    }
}

pub fn recover_request(of: &v1::SessionReply, token: &str, recovery_id: &str) -> v1::RecoverRequest {
    v1::RecoverRequest {
        native_session_id: id(of),
        recovery_token: token.into(),
        recovery_id: recovery_id.into(),
        wait_seconds: None,
    }
}

pub fn continue_request(of: &v1::SessionReply, key: &str) -> v1::ContinueRequest {
    v1::ContinueRequest {
        native_session_id: id(of),
        lease_id: of.lease_id.clone(),
        prompt: "Go on.".into(),
        idempotency_key: key.into(),
        wait_seconds: Some(0),
    }
}

pub fn stop_request(of: &v1::SessionReply, request_id: &str) -> v1::StopRequest {
    v1::StopRequest {
        native_session_id: id(of),
        lease_id: of.lease_id.clone(),
        request_id: request_id.into(),
        reason: None,
    }
}

/// The code of a refusal.
pub fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> ErrorCode {
    Refusal::from_status(&answer.expect_err("a refusal")).expect("a refusal of ours").code
}
