//! Starting both processes, keeping them running, ending them in order.

use std::ffi::OsString;
use std::time::Duration;

use gatehouse_proto::v1::ShutdownRequest;

use super::child::{Logs, Program, Supervised, in_words};
use super::listen::{Listen, front_arguments};
use super::ready::{executor_ready, front_ready};
use crate::chatgpt::Endpoint;
use crate::failure::Failure;
use crate::operator::{self, Operator};
use crate::settings::{Binaries, Place, Settings};

/// How long both processes may take until they are ready.
const START: Duration = Duration::from_secs(60);
/// How long runners may take to end.
const SHUTDOWN: Duration = Duration::from_secs(30);

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which gateway.
    pub place: Place,
    /// Where the front listens, instead of the configured address.
    pub listen: Option<String>,
    /// Environment variables for both processes on top of ours.
    pub environment: Vec<(OsString, OsString)>,
    /// Where log lines go.
    pub logs: Logs,
}

/// Why [`Gateway::watch`] returned by itself.
#[derive(Debug)]
struct Ended {
    program: &'static str,
    how: String,
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    settings: Settings,
    endpoint: Endpoint,
    operator: Operator,
    executor: Supervised,
    front: Supervised,
}

impl Gateway {
    /// Starts both processes and returns when both are ready.
    ///
    /// # Errors
    /// When a gateway is running in that place already, or one of the two ends or is not ready within a minute.
    pub async fn start(binaries: &Binaries, options: Options) -> Result<Self, Failure> {
        let settings = binaries.settings(&options.place).await?;
        let mut operator = operator::client(&settings.runtime_dir)?;
        if operator::health(&mut operator).await.is_ok() {
            return Err(Failure::failed("a gateway is running there already")
                .hint("End it with `gatehouse down`, or choose another --runtime-dir and --state-dir."));
        }
        let listen = Listen::parse(options.listen.as_deref().unwrap_or(&settings.front.listen))?;
        let executor = Program {
            name: "executor-svc",
            path: binaries.path("executor-svc")?,
            arguments: options.place.arguments(),
            environment: options.environment.clone(),
        };
        let front = Program {
            name: "mcp-front",
            path: binaries.path("mcp-front")?,
            arguments: front_arguments(&settings, &listen),
            environment: options.environment,
        };
        let mut gateway = Self {
            endpoint: listen.endpoint(None),
            settings,
            operator,
            executor: Supervised::new(executor, options.logs.clone()),
            front: Supervised::new(front, options.logs),
        };
        match tokio::time::timeout(START, gateway.come_up(&listen)).await {
            Ok(Ok(())) => Ok(gateway),
            Ok(Err(failure)) => Err(gateway.give_up(failure).await),
            Err(_) => {
                Err(gateway.give_up(Failure::failed("the gateway was not ready within a minute")).await)
            }
        }
    }

    /// The front needs the key file, which the executor makes: one after the other.
    async fn come_up(&mut self, listen: &Listen) -> Result<(), Failure> {
        self.executor.start().map_err(|error| Failure::failed(format!("executor-svc: {error}")))?;
        tokio::select! {
            () = executor_ready(&mut self.operator) => {}
            status = self.executor.ended() => return Err(ended_early("executor-svc", &in_words(status))),
        }
        self.front.start().map_err(|error| Failure::failed(format!("mcp-front: {error}")))?;
        tokio::select! {
            ready = front_ready(&self.endpoint) => ready?,
            status = self.front.ended() => return Err(ended_early("mcp-front", &in_words(status))),
            status = self.executor.ended() => return Err(ended_early("executor-svc", &in_words(status))),
        }
        self.endpoint = listen.endpoint(read_key(&self.settings)?);
        Ok(())
    }

    async fn give_up(mut self, failure: Failure) -> Failure {
        self.front.end(Duration::ZERO).await;
        self.executor.end(Duration::ZERO).await;
        failure
    }

    /// The settings it runs with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where the front listens, key included.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Watches both processes and starts again what ends, telling `say` about it. Returns when the executor has ended
    /// because somebody asked it to shut down.
    pub async fn watch(&mut self, mut say: impl FnMut(&str)) {
        loop {
            let Some(ended) = self.next_end().await else { return };
            let child = if ended.program == "executor-svc" { &mut self.executor } else { &mut self.front };
            let mut why = format!("ended ({})", ended.how);
            loop {
                let pause = child.next_pause();
                say(&format!("{} {why}; starting it again in {} ms", ended.program, pause.as_millis()));
                tokio::time::sleep(pause).await;
                match child.start() {
                    Ok(()) => break,
                    Err(error) => why = format!("cannot be started ({error})"),
                }
            }
        }
    }

    async fn next_end(&mut self) -> Option<Ended> {
        tokio::select! {
            status = self.executor.ended() => {
                let asked = status.as_ref().is_ok_and(std::process::ExitStatus::success);
                (!asked).then(|| Ended { program: "executor-svc", how: in_words(status) })
            }
            status = self.front.ended() => Some(Ended { program: "mcp-front", how: in_words(status) }),
        }
    }

    /// Ends everything, runners included; returns how many runners were stopped.
    pub async fn shut_down(mut self) -> u32 {
        let asked = self.operator.shutdown(ShutdownRequest { stop_runners: true });
        let stopped = match tokio::time::timeout(SHUTDOWN, asked).await {
            Ok(Ok(reply)) => reply.into_inner().stopped_runners,
            Ok(Err(_)) | Err(_) => 0,
        };
        self.front.end(Duration::ZERO).await;
        self.executor.end(Duration::from_secs(10)).await;
        stopped
    }
}

fn ended_early(name: &str, how: &str) -> Failure {
    Failure::failed(format!("{name} ended before it was ready ({how})"))
        .hint("Its own words stand above; `GATEHOUSE_LOG=debug` makes it say more.")
}

fn read_key(settings: &Settings) -> Result<Option<String>, Failure> {
    let key = std::fs::read_to_string(&settings.front.key_file)
        .map_err(|error| Failure::failed(format!("the key file cannot be read: {error}")))?;
    Ok(Some(key.trim().to_owned()))
}
