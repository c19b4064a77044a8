//! Further fronts beside the one that every gateway of a test has.

use std::path::PathBuf;
use std::process::Child;

use gatehouse::chatgpt::{Endpoint, State};
use gatehouse::gateway::front_ready;

use super::{Gateway, kill_now};
use crate::waiting::{PATIENCE, until};

/// A front on a Unix socket; it ends when this is dropped.
#[derive(Debug)]
pub struct SocketFront {
    /// Where it listens.
    pub socket: PathBuf,
    child: Option<Child>,
    _folder: tempfile::TempDir,
}

impl Drop for SocketFront {
    fn drop(&mut self) {
        kill_now(&mut self.child);
    }
}

impl Gateway {
    /// Starts a second front, on a Unix socket, and waits until it reaches the executor.
    ///
    /// # Panics
    /// When it does not.
    pub async fn socket_front(&self) -> SocketFront {
        // Its place is public, unlike everything below the gateway's own directory.
        let folder = tempfile::Builder::new().prefix("gh-mcp-").tempdir_in("/tmp").expect("/tmp is writable");
        let socket = folder.path().join("mcp.sock");
        let mut command = self.command("mcp-front", "front.log");
        command.args(["http", "--listen"]).arg(format!("unix:{}", socket.display()));
        command.arg("--runtime-dir").arg(self.runtime_dir());
        let front =
            SocketFront { socket, child: Some(command.spawn().expect("the front starts")), _folder: folder };
        until("the socket is there", async || front.socket.exists().then_some(())).await;
        let endpoint = Endpoint::Unix { socket: front.socket.clone() };
        let ready = tokio::time::timeout(PATIENCE, front_ready(&endpoint));
        ready.await.expect("the front is ready within a minute").expect("the front can be asked");
        front
    }

    /// Learns the secrets of a live session from what a call answered, for the scan at the end.
    pub fn learn_state(&mut self, state: &State) {
        self.secrets.learn_state(state, &self.runtime_dir());
    }

    /// The configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.top.join("config.toml")
    }
}
