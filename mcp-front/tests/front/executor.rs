//! A gRPC server in the executor's place: it records what it is asked and answers what it was told to.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::socket::{self, Role};
use gatehouse_proto::v1::{
    Contact, ContinueRequest, MetricsReply, MetricsRequest, NetworkBoundary, NoteReply, ReadyReply,
    ReadyRequest, RecoverRequest, ReplyRequest, SessionReply, SessionStatus, SessionView, StartRequest,
    StatusRequest, StopRequest, SubagentPolicy, Workspace, WorkspaceKind,
    front_server::{Front, FrontServer},
};
use mcp_front::executor::Call;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status};

/// How a call is answered.
#[derive(Clone)]
pub enum Answer {
    Reply(Box<SessionReply>),
    Refuse(Box<Refusal>),
    /// Not before the notification; then with the reply.
    Held(Arc<Notify>, Box<SessionReply>),
}

type Script = Arc<dyn Fn(&Call) -> Answer + Send + Sync>;

#[derive(Clone)]
struct Scripted {
    script: Script,
    asked: Arc<Mutex<Vec<Call>>>,
    finished: Arc<Mutex<usize>>,
    contact: Arc<Mutex<Contact>>,
}

impl Scripted {
    async fn answer(&self, call: Call) -> Result<Response<SessionReply>, Status> {
        self.asked.lock().unwrap().push(call.clone());
        let answer = match (self.script)(&call) {
            Answer::Reply(reply) => Ok(Response::new(*reply)),
            Answer::Refuse(refusal) => Err((*refusal).into()),
            Answer::Held(until, reply) => {
                until.notified().await;
                Ok(Response::new(*reply))
            }
        };
        *self.finished.lock().unwrap() += 1;
        answer
    }
}

#[tonic::async_trait]
impl Front for Scripted {
    async fn start(&self, request: Request<StartRequest>) -> Result<Response<SessionReply>, Status> {
        self.answer(Call::Start(request.into_inner())).await
    }
    async fn r#continue(&self, request: Request<ContinueRequest>) -> Result<Response<SessionReply>, Status> {
        self.answer(Call::Continue(request.into_inner())).await
    }
    async fn recover(&self, request: Request<RecoverRequest>) -> Result<Response<SessionReply>, Status> {
        self.answer(Call::Recover(request.into_inner())).await
    }
    async fn reply_and_wait(&self, request: Request<ReplyRequest>) -> Result<Response<SessionReply>, Status> {
        self.answer(Call::Reply(request.into_inner())).await
    }
    async fn get_status(&self, request: Request<StatusRequest>) -> Result<Response<SessionReply>, Status> {
        self.answer(Call::Status(request.into_inner())).await
    }
    async fn stop(&self, request: Request<StopRequest>) -> Result<Response<SessionReply>, Status> {
        self.answer(Call::Stop(request.into_inner())).await
    }
    async fn ready(&self, _: Request<ReadyRequest>) -> Result<Response<ReadyReply>, Status> {
        Ok(Response::new(ReadyReply {}))
    }
    async fn note(&self, request: Request<Contact>) -> Result<Response<NoteReply>, Status> {
        *self.contact.lock().unwrap() = request.into_inner();
        Ok(Response::new(NoteReply {}))
    }
    async fn metrics(&self, _: Request<MetricsRequest>) -> Result<Response<MetricsReply>, Status> {
        Ok(Response::new(MetricsReply { text: "gatehouse_turns_total 7\n".to_owned() }))
    }
}

/// A running server. Dropping it breaks every connection at once, like a killed process.
pub struct Executor {
    scripted: Scripted,
    runtime_dir: PathBuf,
    // The server's own runtime: its end takes all connections with it.
    runtime: Option<tokio::runtime::Runtime>,
    _served: JoinHandle<()>,
}

impl Executor {
    pub fn start(runtime_dir: &Path, script: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        let scripted = Scripted {
            script: Arc::new(script),
            asked: Arc::default(),
            finished: Arc::default(),
            contact: Arc::default(),
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let service = FrontServer::new(scripted.clone()).max_decoding_message_size(socket::MAX_MESSAGE);
        let listener = listen(&runtime, runtime_dir);
        let served = runtime.spawn(async move {
            let connections = socket::same_user_connections(listener, |_| {});
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(connections)
                .await
                .unwrap();
        });
        Self { scripted, runtime_dir: runtime_dir.to_owned(), runtime: Some(runtime), _served: served }
    }

    pub fn asked(&self) -> Vec<Call> {
        self.scripted.asked.lock().unwrap().clone()
    }

    pub fn contact(&self) -> Contact {
        self.scripted.contact.lock().unwrap().clone()
    }

    pub fn finished(&self) -> usize {
        *self.scripted.finished.lock().unwrap()
    }

    /// Dies as a killed process does.
    pub fn kill(self) -> PathBuf {
        self.runtime_dir.clone()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }
}

/// A process that another test is just starting holds a killed executor's socket until its own program runs.
fn listen(runtime: &tokio::runtime::Runtime, runtime_dir: &Path) -> tokio::net::UnixListener {
    let _in_runtime = runtime.enter();
    let began = Instant::now();
    loop {
        match socket::listen(Role::Front, runtime_dir) {
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && began.elapsed() < Duration::from_secs(10) =>
            {
                std::thread::yield_now();
            }
            bound => return bound.unwrap(),
        }
    }
}

/// A session in this state, with the least that an executor must say.
pub fn session(status: SessionStatus) -> SessionReply {
    let view = SessionView {
        native_session_id: "ns_1".into(),
        status: status.into(),
        revision: 3,
        capability_profile: gatehouse_proto::v1::CapabilityProfile::ReadOnly.into(),
        working_directory: "/home/u/project".into(),
        source_directory: "/home/u/project".into(),
        workspace: Some(Workspace {
            kind: WorkspaceKind::ReadOnly.into(),
            root: "/home/u/project".into(),
            writable: false,
            source_head: None,
            note: String::new(),
        }),
        network_boundary: Some(NetworkBoundary {
            claude: "loopback-two-ports".into(),
            commands: "none".into(),
            enforced_by: vec!["userns".into(), "seccomp".into()],
        }),
        subagent_policy: SubagentPolicy::None.into(),
        ..SessionView::default()
    };
    SessionReply {
        session: Some(view),
        replay: false,
        lease_id: "lease_1".into(),
        lease_expires_at_ms: 1_796_000_000_000,
        recovery_token: None,
    }
}
