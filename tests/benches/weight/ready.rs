//! Daemons that are started and watched closely until they are ready.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gatehouse::operator;
use gatehouse_proto::socket::Role;
use gatehouse_proto::v1::HealthRequest;
use gatehouse_tests::binaries::binary;
use gatehouse_tests::processes;
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// Between two looks.
const LOOK: Duration = Duration::from_micros(200);

/// An empty state directory, and whatever is started there.
pub struct House(TempDir);

/// Ends with SIGTERM when it is dropped.
pub struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        processes::signal(self.0.id(), Signal::SIGTERM);
        // Whoever is gone already needs no waiting for.
        let _ = self.0.wait();
    }
}

impl House {
    pub fn new() -> Self {
        let top = tempfile::Builder::new().prefix("gh").tempdir_in("/tmp").unwrap();
        std::fs::write(top.path().join("config.toml"), "").unwrap();
        Self(top)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Daemon {
        let mut command = Command::new(binary(name));
        command.args(arguments).arg("--runtime-dir").arg(self.at("r"));
        command.env("HOME", self.0.path()).env("GATEHOUSE_LOG", "error");
        Daemon(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// The executor, until it answers.
    pub async fn executor(&self) -> (Daemon, f64) {
        let (config, state) = (self.at("config.toml"), self.at("s"));
        let began = Instant::now();
        let daemon = self.start(
            "executor-svc",
            &["--config", config.to_str().unwrap(), "--state-dir", state.to_str().unwrap()],
        );
        let socket = Role::Operator.socket(&self.at("r"));
        loop {
            // Asked anew each time: a channel that failed once waits before it tries again.
            if socket.exists()
                && operator::client(&self.at("r")).unwrap().health(HealthRequest {}).await.is_ok()
            {
                return (daemon, began.elapsed().as_secs_f64());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The front of an executor that runs, until it says that it is ready.
    pub fn front(&self) -> (Daemon, f64) {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let key = self.at("s/front.key");
        let began = Instant::now();
        let daemon =
            self.start("mcp-front", &["http", "--listen", &free, "--key-file", key.to_str().unwrap()]);
        while !is_ready(&free).unwrap_or(false) {
            std::thread::sleep(LOOK);
        }
        (daemon, began.elapsed().as_secs_f64())
    }
}

fn is_ready(address: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}
