//! Three sockets, three services, one user.

use std::future::Future;
use std::io;
use std::path::Path;

use gatehouse_proto::socket::{MAX_MESSAGE, Role, listen, same_user_connections};
use gatehouse_proto::v1::front_server::FrontServer;
use gatehouse_proto::v1::operator_server::OperatorServer;
use gatehouse_proto::v1::runner_server::RunnerServer;
use tokio::sync::{mpsc, watch};
use tonic::transport::Server;

use super::front::FrontService;
use super::operator::OperatorService;
use super::runner::RunnerService;
use crate::action::Actions;
use crate::engine::Engine;
use crate::runner::Runners;

/// What is served.
#[derive(Debug)]
pub struct Services {
    /// The engine.
    pub engine: Engine,
    /// The action room.
    pub actions: Actions,
    /// The runner room.
    pub runners: Runners,
    /// Ends the executor.
    pub shutdown: mpsc::Sender<()>,
}

/// Serves until `end` shows true. Calls in flight are not waited for: whoever asked asks again.
///
/// # Errors
/// When a socket cannot be bound.
pub async fn serve(services: Services, runtime_dir: &Path, end: watch::Receiver<bool>) -> io::Result<()> {
    let Services { engine, actions, runners, shutdown } = services;
    let front = FrontServer::new(FrontService::new(engine.clone()))
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let operator = OperatorServer::new(OperatorService::new(engine.clone(), shutdown))
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE * 8);
    let runner = RunnerServer::new(RunnerService::new(engine, actions, runners))
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let sockets = Role::ALL.map(|role| {
        listen(role, runtime_dir)
            .map(|listener| same_user_connections(listener, move |uid| refused(role, uid)))
    });
    let [for_front, for_operator, for_runner] = sockets;
    let (for_front, for_operator, for_runner) = (for_front?, for_operator?, for_runner?);
    tokio::try_join!(
        until(&end, Server::builder().add_service(front).serve_with_incoming(for_front)),
        until(&end, Server::builder().add_service(operator).serve_with_incoming(for_operator)),
        until(&end, Server::builder().add_service(runner).serve_with_incoming(for_runner)),
    )?;
    Ok(())
}

fn refused(role: Role, uid: Option<u32>) {
    tracing::warn!(?role, ?uid, "a connection of another user was refused");
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
