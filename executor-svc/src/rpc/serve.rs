//! Three sockets, three services, one user.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatehouse_proto::socket::{MAX_MESSAGE, Role, listen, same_user_connections};
use gatehouse_proto::v1::front_server::FrontServer;
use gatehouse_proto::v1::operator_server::OperatorServer;
use gatehouse_proto::v1::runner_server::RunnerServer;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tonic::transport::Server;

use super::connections::bounded;
use super::front::FrontService;
use super::operator::OperatorService;
use super::runner::RunnerService;
use crate::action::Actions;
use crate::engine::Engine;
use crate::runner::Runners;
use crate::worktree::Worktrees;

/// How many connections a socket serves at a time. The front has one; a runner has one; people and scripts have a few each.
const fn places(role: Role) -> usize {
    match role {
        Role::Front | Role::Operator => 128,
        Role::Runner => 1024,
    }
}

/// How many calls a connection may have under way; HTTP/2 makes the peer wait with the next one.
const fn calls(role: Role) -> u32 {
    match role {
        // Every long poll of ChatGPT's comes over the front's one connection.
        Role::Front => 1024,
        Role::Operator => 128,
        Role::Runner => 64,
    }
}

/// A peer that does not even answer a ping for so long is gone, or as good as gone: its connection is closed.
const PING: Duration = Duration::from_secs(60);
const PONG: Duration = Duration::from_secs(120);

fn server(role: Role) -> Server {
    Server::builder()
        .max_concurrent_streams(calls(role))
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PONG))
}

/// What is served.
#[derive(Debug)]
pub struct Services {
    /// The engine.
    pub engine: Engine,
    /// The action room.
    pub actions: Actions,
    /// The runner room.
    pub runners: Runners,
    /// The worktrees.
    pub worktrees: Arc<Worktrees>,
    /// Ends the executor.
    pub shutdown: mpsc::Sender<()>,
}

/// The three sockets, bound and not served yet: who connects waits.
#[derive(Debug)]
pub struct Sockets {
    front: UnixListener,
    operator: UnixListener,
    runner: UnixListener,
}

impl Sockets {
    /// Binds them below the runtime directory.
    ///
    /// # Errors
    /// When one cannot be bound, for example because another executor listens there.
    pub fn bind(runtime_dir: &Path) -> io::Result<Self> {
        Ok(Self {
            front: listen(Role::Front, runtime_dir)?,
            operator: listen(Role::Operator, runtime_dir)?,
            runner: listen(Role::Runner, runtime_dir)?,
        })
    }
}

/// Serves until `end` shows true. Calls in flight are not waited for: whoever asked asks again.
///
/// # Errors
/// When a socket fails.
pub async fn serve(services: Services, sockets: Sockets, end: watch::Receiver<bool>) -> io::Result<()> {
    let Services { engine, actions, runners, worktrees, shutdown } = services;
    let front = FrontServer::new(FrontService::new(engine.clone(), actions.clone(), worktrees.clone()))
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let operator = OperatorServer::new(OperatorService::new(
        engine.clone(),
        actions.clone(),
        worktrees.clone(),
        shutdown,
    ))
    .max_decoding_message_size(MAX_MESSAGE)
    .max_encoding_message_size(MAX_MESSAGE);
    let counted = |service| tower::util::MapResponseLayer::new(counting(engine.clone(), service));
    let (front_errors, operator_errors, runner_errors) =
        (counted("front"), counted("operator"), counted("runner"));
    let runner = RunnerServer::new(RunnerService::new(engine, actions, runners))
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let ours = |role, listener| {
        let connections = same_user_connections(listener, move |uid| refused(role, uid));
        bounded(connections, places(role), move || {
            tracing::warn!(?role, places = places(role), "a connection was closed: all places are taken");
        })
    };
    let (for_front, for_operator, for_runner) = (
        ours(Role::Front, sockets.front),
        ours(Role::Operator, sockets.operator),
        ours(Role::Runner, sockets.runner),
    );
    tokio::try_join!(
        until(
            &end,
            server(Role::Front).layer(front_errors).add_service(front).serve_with_incoming(for_front)
        ),
        until(
            &end,
            server(Role::Operator)
                .layer(operator_errors)
                .add_service(operator)
                .serve_with_incoming(for_operator)
        ),
        until(
            &end,
            server(Role::Runner).layer(runner_errors).add_service(runner).serve_with_incoming(for_runner)
        ),
    )?;
    Ok(())
}

fn refused(role: Role, uid: Option<u32>) {
    tracing::warn!(?role, ?uid, "a connection of another user was refused");
}

/// Counts answers that are errors. A handler's error is in the answer's headers, for it has no body.
fn counting<B>(
    engine: Engine,
    service: &'static str,
) -> impl Fn(http::Response<B>) -> http::Response<B> + Clone {
    move |answer| {
        let code = answer.headers().get("grpc-status").and_then(|code| code.to_str().ok()?.parse().ok());
        if let Some(code) = code.filter(|code| *code != 0) {
            engine.metrics().rpc_error(service, code);
        }
        answer
    }
}

async fn until(
    end: &watch::Receiver<bool>,
    serving: impl Future<Output = Result<(), tonic::transport::Error>>,
) -> io::Result<()> {
    let mut end = end.clone();
    tokio::select! {
        served = serving => served.map_err(io::Error::other),
        _ = end.wait_for(|over| *over) => Ok(()),
    }
}
