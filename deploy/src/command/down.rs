//! `gatehouse down`.

use std::path::Path;
use std::time::Duration;

use gatehouse_proto::v1::ShutdownRequest;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::failure::Failure;
use crate::gateway::holder;
use crate::install::{Disk, Home, Running};
use crate::operator;
use crate::screen::Screen;
use crate::settings::{Binaries, Place};

/// Longer than the supervisor takes at its worst.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(25);

pub(super) async fn run(place: &Place, screen: &mut Screen) -> Result<(), Failure> {
    let binaries = Binaries::beside_this()?;
    let runtime_dir = binaries.runtime_dir(place).await?;
    match holder(&runtime_dir)? {
        Some(supervisor) => end_supervisor(&runtime_dir, supervisor).await?,
        None => {
            end_executor(&runtime_dir).await?;
            if let Some(services) = installed(&binaries, place).await {
                services.stop().await;
                screen.line("Gatehouse is down. Its services are started again at the next log-in, or by `gatehouse install`.")?;
                return Ok(());
            }
        }
    }
    screen.line("Gatehouse is down.")?;
    Ok(())
}

/// The service manager, if services are installed and it can be asked.
async fn installed(binaries: &Binaries, place: &Place) -> Option<Running> {
    let settings = binaries.settings(place).await.ok()?;
    let record = Disk::new(None, settings.state_dir).record().ok()??;
    let home = Home::find(|name| std::env::var(name).ok()).ok()?;
    let running = Running::new(record.manager, &home);
    running.reachable().await.ok()?;
    Some(running)
}

/// `gatehouse up` is at work: it ends everything in order, itself last.
async fn end_supervisor(runtime_dir: &Path, supervisor: Pid) -> Result<(), Failure> {
    kill(supervisor, Signal::SIGTERM)
        .map_err(|error| Failure::failed(format!("cannot ask `gatehouse up` to end: {error}")))?;
    let ended = async {
        while holder(runtime_dir)? == Some(supervisor) {
            tokio::time::sleep(PAUSE).await;
        }
        Ok::<(), Failure>(())
    };
    tokio::time::timeout(PATIENCE, ended).await.map_err(|_| still_there())?
}

/// A service manager started the executor: it is asked itself.
async fn end_executor(runtime_dir: &Path) -> Result<(), Failure> {
    let mut operator = operator::client(runtime_dir)?;
    operator.shutdown(ShutdownRequest { stop_runners: true }).await?;
    let ended = async {
        while operator::health(&mut operator).await.is_ok() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.map_err(|_| still_there())
}

fn still_there() -> Failure {
    Failure::failed("the gateway was asked to end and still answers after a minute")
}
