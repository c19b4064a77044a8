//! An executor of a test's own, as a process, and a shell beside it that sees the same mounts.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gatehouse_proto::refusal::Refusal;
use gatehouse_proto::socket::{Role, channel};
use gatehouse_proto::v1;
use gatehouse_proto::v1::front_client::FrontClient;
use gatehouse_proto::v1::operator_client::OperatorClient;
use tonic::transport::Channel;

pub const EXECUTOR: &str = env!("CARGO_BIN_EXE_executor-svc");
const PATIENCE: Duration = Duration::from_secs(60);

/// What stays when an executor goes.
pub struct Ground {
    top: tempfile::TempDir,
}

impl Ground {
    pub fn new() -> Self {
        Self::with("")
    }

    /// With further lines of configuration.
    pub fn with(limits: &str) -> Self {
        // A socket's path has to be short.
        let top = tempfile::Builder::new().prefix("gh").tempdir_in("/tmp").unwrap();
        for folder in ["project", "state", "run", "no-helpers", "home"] {
            std::fs::create_dir(top.path().join(folder)).unwrap();
        }
        // Without a launcher a session fails at once, and is there all the same.
        let config = format!(
            "[claude]\nhelper_dir = \"{}\"\n[limits]\n{limits}\n",
            top.path().join("no-helpers").display()
        );
        std::fs::write(top.path().join("config.toml"), config).unwrap();
        Self { top }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub fn arguments(&self) -> Vec<String> {
        let place = |name: &str| self.path(name).to_str().unwrap().to_owned();
        ["--config", &place("config.toml"), "--state-dir", &place("state"), "--runtime-dir", &place("run")]
            .map(str::to_owned)
            .to_vec()
    }

    /// The executor's command line, to be started by hand.
    pub fn command(&self) -> Command {
        let mut command = Command::new(EXECUTOR);
        command.args(self.arguments()).env("HOME", self.path("home")).env_remove("CLAUDE_BIN");
        command.stdin(Stdio::null());
        command
    }

    /// Runs the executor, which is to end by itself.
    pub fn ends(&self) -> Output {
        self.command().output().unwrap()
    }

    /// What a verification of the ledger as it lies there finds.
    pub fn verify(&self) -> serde_json::Value {
        let output = self.command().arg("--verify").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let last = String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned();
        serde_json::from_str::<serde_json::Value>(&last).unwrap()["result"].clone()
    }

    /// Starts the executor and waits until it answers.
    pub async fn start(&self) -> Running {
        let child = self.command().stderr(self.log()).spawn().unwrap();
        self.answering(Process(child)).await
    }

    pub fn log(&self) -> Stdio {
        std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap().into()
    }

    pub async fn answering(&self, mut process: Process) -> Running {
        let running = Running { run: self.path("run"), project: self.path("project"), process: None };
        let mut operator = running.operator();
        until("the executor answers", async || {
            if let Some(ended) = process.0.try_wait().unwrap() {
                panic!("{ended}: {}", std::fs::read_to_string(self.path("log")).unwrap_or_default());
            }
            operator.health(v1::HealthRequest {}).await.ok()
        })
        .await;
        Running { process: Some(process), ..running }
    }
}

/// A process that does not outlive the test.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running executor.
pub struct Running {
    run: PathBuf,
    project: PathBuf,
    process: Option<Process>,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().0.id()
    }

    /// Ends it with SIGKILL.
    pub fn kill(mut self) {
        drop(self.process.take());
    }

    /// Connections of their own.
    pub fn front(&self) -> FrontClient<Channel> {
        FrontClient::new(channel(&Role::Front.socket(&self.run)).unwrap())
    }

    pub fn operator(&self) -> OperatorClient<Channel> {
        OperatorClient::new(channel(&Role::Operator.socket(&self.run)).unwrap())
    }

    pub fn start_request(&self, key: &str) -> v1::StartRequest {
        v1::StartRequest {
            prompt: format!("Hello, {key}."),
            working_directory: self.project.to_str().unwrap().into(),
            idempotency_key: format!("{key}-0123456789abcdef"),
            wait_seconds: Some(0),
            ..v1::StartRequest::default()
        }
    }

    pub async fn begin(&self, key: &str) -> Result<v1::SessionReply, Refusal> {
        let asked = self.front().start(self.start_request(key)).await;
        asked.map(tonic::Response::into_inner).map_err(|status| refusal(&status))
    }

    pub async fn status(&self, of: &v1::SessionReply) -> Result<v1::SessionReply, Refusal> {
        let ask = v1::StatusRequest {
            native_session_id: id(of),
            lease_id: of.lease_id.clone(),
            wait_seconds: Some(0),
        };
        let asked = self.front().get_status(ask).await;
        asked.map(tonic::Response::into_inner).map_err(|status| refusal(&status))
    }

    pub async fn health(&self) -> v1::HealthReply {
        self.operator().health(v1::HealthRequest {}).await.unwrap().into_inner()
    }

    pub async fn ready(&self) -> Result<(), Refusal> {
        let asked = self.front().ready(v1::ReadyRequest {}).await;
        asked.map(drop).map_err(|status| refusal(&status))
    }

    pub async fn listed(&self) -> Vec<String> {
        let ask = v1::ListSessionsRequest { limit: 1000, ..v1::ListSessionsRequest::default() };
        let reply = self.operator().list_sessions(ask).await.unwrap().into_inner();
        assert_eq!(reply.damaged, Vec::<String>::new());
        reply.sessions.into_iter().map(|session| session.native_session_id).collect()
    }

    pub async fn verified(&self) -> v1::VerifyLedgerReply {
        self.operator().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap().into_inner()
    }
}

pub fn refusal(status: &tonic::Status) -> Refusal {
    Refusal::from_status(status).unwrap_or_else(|| panic!("no refusal of ours: {status:?}"))
}

pub fn id(reply: &v1::SessionReply) -> String {
    reply.session.as_ref().unwrap().native_session_id.clone()
}

/// Asks until there is an answer.
pub async fn until<T>(what: &str, mut asked: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = asked().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "it did not come about that {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A shell in a mount namespace of its own, where it is root: it mounts, fills and frees, and starts the executor.
pub struct Shell {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    pub fn new() -> Self {
        let mut process = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is part of util-linux");
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut shell = Self { process: Process(process), input, output: BufReader::new(output) };
        shell.done("true");
        shell
    }

    /// Runs a command line and gives its exit code.
    pub fn run(&mut self, line: &str) -> i32 {
        writeln!(self.input, "{line}\necho \"ended $?\"").unwrap();
        let mut answer = String::new();
        loop {
            answer.clear();
            let read = self.output.read_line(&mut answer).unwrap();
            assert!(read > 0, "user and mount namespaces are needed, as for the sandbox itself");
            if let Some(code) = answer.trim().strip_prefix("ended ") {
                return code.parse().unwrap();
            }
        }
    }

    pub fn done(&mut self, line: &str) {
        assert_eq!(self.run(line), 0, "{line}");
    }

    /// Starts the executor in the background of this shell.
    pub async fn start(&mut self, ground: &Ground) -> Running {
        self.start_after(ground, "true").await
    }

    /// The same, after a command line in the subshell that becomes the executor.
    pub async fn start_after(&mut self, ground: &Ground, first: &str) -> Running {
        let arguments = ground.arguments().join(" ");
        self.done(&format!(
            "( {first}; HOME={} exec {EXECUTOR} {arguments} </dev/null >>{log} 2>&1 ) & executor=$!",
            ground.path("home").display(),
            log = ground.path("log").display()
        ));
        let running = Running { run: ground.path("run"), project: ground.path("project"), process: None };
        let mut operator = running.operator();
        until("the executor answers", async || operator.health(v1::HealthRequest {}).await.ok()).await;
        running
    }

    /// Ends the executor with SIGKILL.
    pub fn kill(&mut self) {
        self.done("kill -9 $executor; wait $executor; true");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = writeln!(self.input, "kill -9 $executor; wait; exit");
        let _ = self.process.0.wait();
    }
}

/// Every file below, with its bytes.
pub fn snapshot(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.path(), std::fs::read(entry.path()).unwrap()))
        .collect();
    found.sort();
    found
}
