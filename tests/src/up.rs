//! `gatehouse up` as a child, for tests of the command line itself.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use gatehouse::chatgpt::Endpoint;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::binaries::binary;
use crate::processes;

/// A directory for a gateway: state, sockets, an empty configuration.
#[derive(Debug)]
pub struct Place {
    top: TempDir,
}

impl Place {
    /// A fresh one, with a short name: socket paths have a low limit.
    ///
    /// # Panics
    /// When `/tmp` is not writable.
    #[must_use]
    pub fn fresh() -> Self {
        let top = tempfile::Builder::new().prefix("gh").tempdir_in("/tmp").expect("/tmp is writable");
        std::fs::write(top.path().join("config.toml"), "").expect("a private directory is writable");
        Self { top }
    }

    /// Its top.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.top.path()
    }

    /// The command line with the flags that name this place.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("gatehouse"));
        command
            .args(arguments)
            .args(self.flags())
            .env_remove("CLAUDE_TOOLS_STATE_DIR")
            .env("GATEHOUSE_LOG", "warn");
        command
    }

    fn flags(&self) -> Vec<PathBuf> {
        let of = |flag: &str, name: &str| [PathBuf::from(flag), self.top.path().join(name)];
        [of("--config", "config.toml"), of("--state-dir", "s"), of("--runtime-dir", "r")].concat()
    }
}

/// A running `gatehouse up`.
#[derive(Debug)]
pub struct Up {
    child: Child,
    /// Its one line.
    pub ready: Value,
}

impl Up {
    /// Starts it and returns when it says that it is ready.
    ///
    /// # Panics
    /// When it ends instead.
    #[must_use]
    pub fn start(place: &Place, claude: Option<&Path>) -> Self {
        Self::start_listening(place, claude, "127.0.0.1:0")
    }

    /// The same, listening elsewhere.
    ///
    /// # Panics
    /// When it ends instead.
    #[must_use]
    pub fn start_listening(place: &Place, claude: Option<&Path>, listen: &str) -> Self {
        let mut command = place.command(&["up", "--json", "--listen", listen]);
        if let Some(claude) = claude {
            command.env("CLAUDE_BIN", claude);
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("gatehouse starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("one line when ready");
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a JSON line: {line:?}"));
        Self { child, ready }
    }

    /// The endpoint that it names, with the key from the key file that it names.
    ///
    /// # Panics
    /// When either is not there.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let url = self.ready["endpoint"].as_str().expect("an endpoint");
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp").parse().expect("an address");
        let key =
            std::fs::read_to_string(self.ready["key_file"].as_str().expect("a key file")).expect("the key");
        Endpoint::Tcp { address, key: Some(key.trim().to_owned()) }
    }

    /// The process of one of its children, by program name.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<u32> {
        let runtime_dir = self.ready["runtime_dir"].as_str().expect("a runtime directory");
        let is_it = |process: &processes::Process| {
            process.arguments.first().is_some_and(|program| program.ends_with(name))
                && process.arguments.iter().any(|argument| argument == runtime_dir)
        };
        processes::all()
            .into_iter()
            .find(|process| is_it(process) && processes::is_alive(process.pid))
            .map(|found| found.pid)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        processes::signal(self.child.id(), signal);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("it can be waited for")
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            processes::signal(self.child.id(), Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}
