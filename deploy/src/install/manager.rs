//! Having the running system take services up, and let them go.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::{Home, Manager, launchd, systemd};
use crate::failure::Failure;

/// The services, in the order in which they are started.
const SERVICES: [&str; 2] = ["executor", "front"];

/// The service manager of the running system.
#[derive(Debug, Clone)]
pub struct Running {
    manager: Manager,
    agents: PathBuf,
}

impl Running {
    /// The one that services were planned for.
    #[must_use]
    pub fn new(manager: Manager, home: &Home) -> Self {
        Self { manager, agents: home.home.join("Library/LaunchAgents") }
    }

    /// Whether it can be asked at all.
    ///
    /// # Errors
    /// When it cannot, with what to do.
    pub async fn reachable(&self) -> Result<(), Failure> {
        let (program, arguments): (_, &[&str]) = match self.manager {
            Manager::Systemd => ("systemctl", &["--user", "show-environment"]),
            Manager::Launchd => ("/bin/launchctl", &["version"]),
        };
        let words: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        run(program, &words).await.map(drop).map_err(|failure| {
            Failure::failed(format!("there is no service manager to be asked here: {}", failure.message)).hint(
                "Log in as the user whose services these are (not with su or sudo), or use --no-start, or `gatehouse up`.",
            )
        })
    }

    /// Takes up new or changed files, and starts a service, or starts it again.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn start(&self, service: &str) -> Result<(), Failure> {
        match self.manager {
            Manager::Systemd => {
                systemctl(&["daemon-reload"]).await?;
                systemctl(&["enable", &systemd::unit(service)]).await?;
                systemctl(&["restart", &systemd::unit(service)]).await
            }
            Manager::Launchd => {
                let label = launchd::label(service);
                // One that is not loaded cannot be unloaded.
                let _ = launchctl(&["bootout", &format!("{}/{label}", domain())]).await;
                let file = self.agents.join(format!("{label}.plist"));
                launchctl(&["bootstrap", &domain(), &file.to_string_lossy()]).await
            }
        }
    }

    /// Stops both services; runners stay. One that does not run is no fault.
    pub async fn stop(&self) {
        for service in SERVICES.iter().rev() {
            let _ = match self.manager {
                Manager::Systemd => systemctl(&["stop", &systemd::unit(service)]).await,
                Manager::Launchd => {
                    launchctl(&["bootout", &format!("{}/{}", domain(), launchd::label(service))]).await
                }
            };
        }
    }

    /// Forgets the services: they are not started any more.
    ///
    /// # Errors
    /// When the manager refuses.
    pub async fn forget(&self) -> Result<(), Failure> {
        match self.manager {
            Manager::Systemd => {
                let units = SERVICES.map(systemd::unit);
                systemctl(&["disable", &units[0], &units[1]]).await
            }
            Manager::Launchd => Ok(()),
        }
    }

    /// Has the manager notice that files are gone.
    pub async fn reload(&self) {
        if self.manager == Manager::Systemd {
            // It notices at its own next start otherwise.
            let _ = systemctl(&["daemon-reload"]).await;
        }
    }

    /// How a person looks at a service's log.
    #[must_use]
    pub fn log_hint(&self) -> &'static str {
        match self.manager {
            Manager::Systemd => "journalctl --user -u gatehouse-executor -u gatehouse-front",
            Manager::Launchd => "tail ~/Library/Logs/gatehouse/*.log",
        }
    }
}

fn domain() -> String {
    format!("gui/{}", nix::unistd::getuid())
}

async fn systemctl(words: &[&str]) -> Result<(), Failure> {
    let words: Vec<String> =
        std::iter::once("--user").chain(words.iter().copied()).map(str::to_owned).collect();
    run("systemctl", &words).await
}

async fn launchctl(words: &[&str]) -> Result<(), Failure> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    run("/bin/launchctl", &words).await
}

async fn run(program: &str, words: &[String]) -> Result<(), Failure> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| Failure::failed(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::failed(format!("{program} {}: {}", words.join(" "), said.trim())))
}

/// Whether a user's services go on when that user logs out; `None` where the system has no such thing.
#[must_use]
pub fn lingers(manager: Manager, linger_dir: &Path, user: &str) -> Option<bool> {
    (manager == Manager::Systemd).then(|| linger_dir.join(user).exists())
}
