//! The processes of the way: this program, started once more for each.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;

use bytes::Bytes;
use gatehouse_figures::BareCommits;
use gatehouse_proto::socket::channel;
use gatehouse_tests::tunnel::serving;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, oneshot};
use tonic::transport::Channel;

use super::grpc;

/// Names the part that the process is.
pub const VARIABLE: &str = "GATEHOUSE_BENCH_PART";
/// What it has to know: the executor its folder, the others the executor's socket.
pub const WORD: &str = "GATEHOUSE_BENCH_PART_WORD";

/// A process of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Commits what is put, and gives it to who waits.
    Executor,
    /// ChatGPT's end.
    Front,
    /// Claude Code's end.
    Shim,
}

impl Part {
    const ALL: [Self; 3] = [Self::Executor, Self::Front, Self::Shim];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executor => "executor",
            Self::Front => "front",
            Self::Shim => "shim",
        }
    }

    /// Which part this process is, if any.
    pub fn of_this_process() -> Option<Self> {
        let name = std::env::var(VARIABLE).ok()?;
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// Is that part, until somebody ends the process. With the threads that Gatehouse's own has.
    pub fn run(self) {
        let word = std::env::var(WORD).unwrap_or_default();
        match self {
            Self::Executor => two_threads().block_on(executor(Path::new(&word))),
            Self::Front => two_threads().block_on(end(&word, "/way/put_reply", "/way/wait_asked")),
            Self::Shim => {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(end(&word, "/way/put_asked", "/way/wait_reply"));
            }
        }
    }
}

fn two_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// One way to go: what was put and not fetched yet.
struct Lane {
    put: tokio::sync::mpsc::UnboundedSender<Vec<u8>>,
    waiting: Mutex<tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>>,
}

impl Lane {
    fn new() -> Self {
        let (put, waiting) = tokio::sync::mpsc::unbounded_channel();
        Self { put, waiting: Mutex::new(waiting) }
    }
}

/// Both ways, and the one thread that commits.
pub struct Lanes {
    asked: Lane,
    reply: Lane,
    ledger: mpsc::Sender<oneshot::Sender<()>>,
}

async fn executor(folder: &Path) {
    let bare = BareCommits::open(&folder.join("bare.db")).unwrap();
    let (ledger, commits) = mpsc::channel::<oneshot::Sender<()>>();
    std::thread::spawn(move || {
        for done in commits {
            bare.commit().unwrap();
            let _ = done.send(());
        }
    });
    let lanes = Box::leak(Box::new(Lanes { asked: Lane::new(), reply: Lane::new(), ledger }));
    grpc::serve(&folder.join("socket"), lanes, |lanes, name, body| {
        let lane = if name.ends_with("asked") { &lanes.asked } else { &lanes.reply };
        let put = name.starts_with("put");
        Box::pin(async move { if put { commit_and_put(lanes, lane, body).await } else { wait(lane).await } })
    })
    .await;
}

async fn commit_and_put(lanes: &Lanes, lane: &Lane, body: Vec<u8>) -> Vec<u8> {
    let (done, committed) = oneshot::channel();
    lanes.ledger.send(done).unwrap();
    committed.await.unwrap();
    lane.put.send(body).unwrap();
    Vec::new()
}

async fn wait(lane: &Lane) -> Vec<u8> {
    lane.waiting.lock().await.recv().await.unwrap()
}

/// Front or shim: takes a request over HTTP, puts it, waits for what comes back.
async fn end(socket: &str, put: &'static str, wait: &'static str) {
    let channel = channel(Path::new(socket)).unwrap();
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    serving::serve(listener, move |request| exchange(channel.clone(), request, put, wait));
    std::future::pending::<()>().await;
}

async fn exchange(
    channel: Channel,
    request: Request<Incoming>,
    put: &'static str,
    wait: &'static str,
) -> Response<Full<Bytes>> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    if !body.is_empty() {
        grpc::call(channel.clone(), put, body.to_vec()).await;
    }
    let came = grpc::call(channel, wait, Vec::new()).await;
    serving::response(StatusCode::OK, String::from_utf8(came).unwrap())
}
