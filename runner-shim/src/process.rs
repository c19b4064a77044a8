//! What the shim does to itself before it serves anything.

use std::io::{self, Read};
use std::path::Path;

use gatehouse_proto::ids::{InvalidId, LinkToken};
use gatehouse_sandbox::confine::{SelfPolicy, confine_self};
use gatehouse_sandbox::launch::LaunchError;
use nix::errno::Errno;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Why the shim could not begin. Without a link there is nobody to tell but the log.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Setting itself apart failed.
    #[error("cannot {step}")]
    SetApart {
        /// What failed.
        step: &'static str,
        /// Why.
        source: Errno,
    },
    /// Nothing came on standard input.
    #[error("no link token on standard input")]
    NoToken(#[source] io::Error),
    /// Something else came.
    #[error("standard input holds no link token")]
    BadToken(#[source] InvalidId),
    /// No runtime.
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    /// The socket's path is unusable.
    #[error("the runner socket cannot be used")]
    Socket(#[source] io::Error),
    /// No signal handlers.
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
}

/// A session of its own (so no terminal and no group signal reaches it), no core files, and nothing it makes for others.
pub fn set_apart() -> Result<(), StartError> {
    use nix::sys::resource::{Resource, setrlimit};
    match nix::unistd::setsid() {
        // It is a group leader already: the executor started it in a session of its own.
        Ok(_) | Err(Errno::EPERM) => {}
        Err(source) => return Err(StartError::SetApart { step: "begin a session", source }),
    }
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
        .map_err(|source| StartError::SetApart { step: "switch off core files", source })?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    Ok(())
}

/// Makes the memory unreadable for other processes of the user: from now on it holds the run's secrets.
///
/// Not before the token has come: the executor looks at the process's executable before it sends that, and the kernel
/// shows the executable of a process in this state to nobody but root.
pub fn seal() -> Result<(), StartError> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)
        .map_err(|source| StartError::SetApart { step: "make the process not dumpable", source })?;
    Ok(())
}

/// Leaves this process nothing but what it has open and the directory of the executor's socket for runners.
///
/// Works only as long as there is one thread; so nothing before this may hand work to another one.
///
/// # Errors
/// When a layer cannot be had. The run must end then.
pub fn confine(socket: &Path) -> Result<(), LaunchError> {
    let reachable = socket.parent().map(Path::to_owned).into_iter().collect();
    let layers = confine_self(&SelfPolicy { reachable })?;
    let layers: Vec<&str> = layers.iter().map(|layer| layer.name()).collect();
    tracing::info!(layers = layers.join(" "), "confined");
    Ok(())
}

/// Logs go to standard error, filtered by `GATEHOUSE_LOG` (`warn`, or `info,runner_shim=debug`, …).
pub fn log_to_stderr() {
    let wanted = std::env::var("GATEHOUSE_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = wanted.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    // Fails only when a logger is there already, which is as good.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}

/// One line of 64 hexadecimal digits.
pub fn read_token(input: impl Read) -> Result<LinkToken, StartError> {
    let mut line = String::new();
    // A little more than a token and a line end: something longer is no token.
    input.take(128).read_to_string(&mut line).map_err(StartError::NoToken)?;
    line.trim_end().parse().map_err(StartError::BadToken)
}

/// The signals that ask a shim to end its run.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// Watches for them from now on.
pub fn stop_signals() -> io::Result<StopSignals> {
    Ok(StopSignals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
    })
}

impl StopSignals {
    /// Waits for one.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_line_of_64_digits_and_nothing_else() {
        let token = LinkToken::mint().unwrap();
        let line = token.to_hex() + "\n";
        assert_eq!(read_token(line.as_bytes()).unwrap().hash(), token.hash());
        for bad in [String::new(), "\n".into(), token.to_hex() + "00\n", "x".repeat(64), line.clone() + &line]
        {
            assert!(matches!(read_token(bad.as_bytes()), Err(StartError::BadToken(_))), "{bad:?}");
        }
    }
}
