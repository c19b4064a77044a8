//! One gateway of a test's own: executor and front as processes, each killed and started as the test likes.

mod further;
mod told;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gatehouse::chatgpt::{Brain, Client, Endpoint, Pipe, Start};
use gatehouse::gateway::front_ready;
use gatehouse::operator::{self, Operator};
use gatehouse_proto::v1::{HealthRequest, ShutdownRequest, VerifyLedgerRequest};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::binaries::binary;
use crate::places::free_port;
use crate::processes;
use crate::record::{Record, Way};
use crate::scan::{self, Secrets};
use crate::waiting::{PATIENCE, until};

/// What a test wants of its gateway.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    claude: Option<PathBuf>,
    config: String,
    environment: Vec<(&'static str, OsString)>,
}

impl Setup {
    /// A gateway that never has to start Claude Code.
    #[must_use]
    pub fn without_claude() -> Self {
        Self::default()
    }

    /// A gateway that starts this Claude Code.
    #[must_use]
    pub fn with_claude(claude: PathBuf) -> Self {
        Self { claude: Some(claude), ..Self::default() }
    }

    /// An environment variable of both processes.
    #[must_use]
    pub fn environment(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Lines of the configuration file.
    #[must_use]
    pub fn config(mut self, lines: &str) -> Self {
        self.config.push_str(lines);
        self.config.push('\n');
        self
    }
}

/// The running gateway.
#[derive(Debug)]
pub struct Gateway {
    home: Option<TempDir>,
    _worktrees: TempDir,
    top: PathBuf,
    port: u16,
    claude: Option<PathBuf>,
    environment: Vec<(&'static str, OsString)>,
    canary: String,
    executor: Option<Child>,
    front: Option<Child>,
    record: Record,
    secrets: Secrets,
    finished: AtomicBool,
}

impl Gateway {
    /// Starts both processes and returns when they are ready.
    pub async fn start(setup: Setup) -> Self {
        // Socket paths have a low limit (104 bytes on macOS): the directory's name is short.
        let home = tempfile::Builder::new().prefix("gh").tempdir_in("/tmp").expect("/tmp is writable");
        let top = home.path().canonicalize().expect("it was just made");
        // Where worktrees are is public, so they are not where everything else of the gateway is.
        let worktrees = tempfile::Builder::new()
            .prefix("gh-worktrees-")
            .tempdir()
            .expect("the temporary folder is writable");
        let config = format!("{}\n[writing]\nworktree_dir = {:?}\n", setup.config, worktrees.path());
        std::fs::write(top.join("config.toml"), config).expect("a private directory is writable");
        let mut gateway = Self {
            home: Some(home),
            _worktrees: worktrees,
            top,
            port: free_port(),
            claude: setup.claude,
            environment: setup.environment,
            canary: format!("canary-{}", uuid::Uuid::new_v4().simple()),
            executor: None,
            front: None,
            record: Record::default(),
            secrets: Secrets::default(),
            finished: AtomicBool::new(false),
        };
        gateway.start_executor().await;
        gateway.start_front().await;
        gateway
    }

    /// The executor's process.
    #[must_use]
    pub fn executor_pid(&self) -> Option<u32> {
        self.executor.as_ref().map(Child::id)
    }

    /// The front's process.
    #[must_use]
    pub fn front_pid(&self) -> Option<u32> {
        self.front.as_ref().map(Child::id)
    }

    /// The state directory.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.top.join("s")
    }

    /// The runtime directory.
    #[must_use]
    pub fn runtime_dir(&self) -> PathBuf {
        self.top.join("r")
    }

    /// The value of an environment variable that both processes were started with, and that must never come out.
    #[must_use]
    pub fn canary(&self) -> &str {
        &self.canary
    }

    /// What has left the gateway so far.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    fn log(&self, name: &str) -> Stdio {
        let path = self.top.join(name);
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path)
            .expect("a private directory is writable");
        file.into()
    }

    fn command(&self, name: &str, log: &str) -> Command {
        let mut command = Command::new(binary(name));
        command.env("GATEHOUSE_CANARY", &self.canary).env("AWS_SECRET_ACCESS_KEY", &self.canary);
        command
            .env("GATEHOUSE_LOG", "info,executor_svc=debug,mcp_front=debug,runner_shim=debug")
            .env_remove("CLAUDE_TOOLS_STATE_DIR");
        if let Some(claude) = &self.claude {
            command.env("CLAUDE_BIN", claude);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(self.log(log)).stderr(self.log(log));
        command
    }

    /// Starts the executor and waits until it answers.
    ///
    /// # Panics
    /// When it ends instead.
    pub async fn start_executor(&mut self) {
        self.start_executor_with(&[]).await;
    }

    /// The same with further environment variables.
    ///
    /// # Panics
    /// When it ends instead.
    pub async fn start_executor_with(&mut self, environment: &[(&str, &str)]) {
        let mut command = self.command("executor-svc", "executor.log");
        command.envs(environment.iter().copied());
        command.arg("--config").arg(self.top.join("config.toml"));
        command.arg("--state-dir").arg(self.state_dir()).arg("--runtime-dir").arg(self.runtime_dir());
        let mut child = command.spawn().expect("the executor starts");
        let mut operator = self.operator();
        until("the executor answers Health", async || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the executor ended at once ({status}): {}", self.logged("executor.log"));
            }
            operator.health(HealthRequest {}).await.ok()
        })
        .await;
        self.executor = Some(child);
    }

    /// Starts the front on HTTP and waits until it reaches the executor.
    pub async fn start_front(&mut self) {
        let mut command = self.command("mcp-front", "front.log");
        command.args(["http", "--listen", &format!("127.0.0.1:{}", self.port)]);
        command
            .arg("--runtime-dir")
            .arg(self.runtime_dir())
            .arg("--key-file")
            .arg(self.state_dir().join("front.key"));
        self.front = Some(command.spawn().expect("the front starts"));
        let endpoint = self.endpoint();
        let ready = tokio::time::timeout(PATIENCE, front_ready(&endpoint));
        ready.await.expect("the front is ready within a minute").expect("the front can be asked");
    }

    /// SIGKILL for the executor.
    pub fn kill_executor(&mut self) {
        kill_now(&mut self.executor);
    }

    /// Waits until the executor has ended by itself, at most for `patience`; whether it has.
    pub async fn executor_ends(&mut self, patience: std::time::Duration) -> bool {
        self.executor.is_none() || self.executor_status(patience).await.is_some()
    }

    /// The same, and how it ended; `None` if it has not, or had been seen to end before.
    pub async fn executor_status(
        &mut self,
        patience: std::time::Duration,
    ) -> Option<std::process::ExitStatus> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            if let Ok(Some(status)) = self.executor.as_mut()?.try_wait() {
                self.executor = None;
                return Some(status);
            }
            if tokio::time::Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }

    /// SIGKILL for the front.
    pub fn kill_front(&mut self) {
        kill_now(&mut self.front);
    }

    /// SIGTERM for the executor, which leaves runners alone; waits for its end.
    pub fn end_executor(&mut self) {
        if let Some(mut child) = self.executor.take() {
            processes::signal(child.id(), Signal::SIGTERM);
            child.wait().expect("the executor can be waited for");
        }
    }

    /// SIGTERM for the front; waits for its end.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn end_front(&mut self) {
        if let Some(mut child) = self.front.take() {
            processes::signal(child.id(), Signal::SIGTERM);
            child.wait().expect("the front can be waited for");
        }
    }

    /// Kills both and starts both again.
    pub async fn restart_everything(&mut self) {
        self.kill_executor();
        self.kill_front();
        self.start_executor().await;
        self.start_front().await;
    }

    /// Where the front listens, key included.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let key = std::fs::read_to_string(self.state_dir().join("front.key")).ok();
        Endpoint::Tcp {
            address: ([127, 0, 0, 1], self.port).into(),
            key: key.map(|key| key.trim().to_owned()),
        }
    }

    /// A client over HTTP.
    #[must_use]
    pub fn client(&self) -> Arc<Client> {
        Arc::new(Client::http(self.endpoint(), Some(self.record.tap())))
    }

    /// A client over stdio, with a front of its own.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn stdio_client(&self) -> Client {
        let mut command = tokio::process::Command::from(self.command("mcp-front", "stdio.log"));
        command.arg("stdio").arg("--runtime-dir").arg(self.runtime_dir());
        Client::stdio(Pipe::start(command, Some(self.record.tap())).expect("the front starts"))
    }

    /// A client of the operator service.
    ///
    /// # Panics
    /// Never for a path of ours.
    #[must_use]
    pub fn operator(&self) -> Operator {
        operator::client(&self.runtime_dir()).expect("a socket path")
    }

    /// A session that has asked its first question.
    ///
    /// # Panics
    /// When it does not come that far.
    pub async fn session(&mut self, start: &Start) -> Brain {
        let mut brain = Brain::start(self.client(), start).await.expect("the session starts");
        brain.settle().await.expect("the session settles");
        assert_eq!(brain.state().status(), "waiting_for_gpt", "{}", brain.state().0);
        self.learn(&brain);
        brain
    }

    /// Learns the secrets of a live session, for the scan at the end.
    pub fn learn(&mut self, brain: &Brain) {
        self.secrets.learn_session(brain, &self.runtime_dir());
    }

    /// Learns the secrets of whatever serves a Claude session at this moment, for the scan at the end.
    pub fn learn_run(&mut self, claude_session_id: &str) {
        self.secrets.learn_run(claude_session_id, &self.runtime_dir());
    }

    /// This must not come out either.
    pub fn keeps(&mut self, secret: &str) {
        self.secrets.keep(secret);
    }

    /// For a test that names the gateway's own directories or processes in its calls: answers may repeat them, logs may
    /// not.
    pub const fn names_internals(&mut self) {
        self.secrets.name_internals();
    }

    /// Runs the command line on this gateway.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn cli(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new(binary("gatehouse"));
        command.args(arguments).arg("--runtime-dir").arg(self.runtime_dir());
        let output = command.output().expect("the command line starts");
        for bytes in [&output.stdout, &output.stderr] {
            self.record.add(Way::Cli, String::from_utf8_lossy(bytes));
        }
        output
    }

    /// What a process has logged so far.
    #[must_use]
    pub fn logged(&self, name: &str) -> String {
        std::fs::read_to_string(self.top.join(name)).unwrap_or_default()
    }

    /// Ends everything in order and goes through all output. Every test ends with this.
    ///
    /// # Panics
    /// When the ledger does not verify, a process is left over, or something came out that must not.
    pub async fn finish(mut self) {
        if self.executor.is_none() {
            self.start_executor().await;
        }
        self.secrets.learn_gateway(&self.top, &self.canary, self.executor.as_ref(), self.front.as_ref());
        self.record_operator().await;
        let mut operator = self.operator();
        let ledger = operator
            .verify_ledger(VerifyLedgerRequest {})
            .await
            .expect("the ledger is verified")
            .into_inner();
        assert!(ledger.ok, "the ledger is broken: {}", ledger.message);
        operator.shutdown(ShutdownRequest { stop_runners: true }).await.expect("the executor shuts down");
        kill_now(&mut self.front);
        if let Some(mut executor) = self.executor.take() {
            executor.wait().expect("the executor can be waited for");
        }
        until("all processes of the gateway are gone", async || {
            processes::of_directory(&self.top).iter().all(|&pid| !processes::is_alive(pid)).then_some(())
        })
        .await;
        for log in ["executor.log", "front.log", "stdio.log"] {
            self.record.add(Way::Log, self.logged(log));
        }
        let found = scan::scan(&self.record.pieces(), &self.secrets);
        assert!(found.is_empty(), "things left the gateway that must not:\n{}", found.join("\n"));
        self.finished.store(true, Ordering::Relaxed);
    }

    fn leave_for_inspection(&mut self) {
        kill_now(&mut self.front);
        kill_now(&mut self.executor);
        for pid in processes::of_directory(&self.top) {
            processes::signal(pid, Signal::SIGKILL);
        }
        let kept = self.home.take().map(TempDir::keep).unwrap_or_default();
        eprintln!("the gateway's directory is kept: {}", kept.display());
        for log in ["executor.log", "front.log", "stdio.log"] {
            eprintln!("--- {log}\n{}", last_lines(&kept.join(log)));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if !self.finished.load(Ordering::Relaxed) {
            self.leave_for_inspection();
            assert!(std::thread::panicking(), "a test has to end with Gateway::finish");
        }
    }
}

fn kill_now(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        // Whoever is gone already needs no signal; waiting reaps it all the same.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}
