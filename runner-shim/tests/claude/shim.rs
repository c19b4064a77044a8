//! A shim under test: its directories, its process, and what runs below it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gatehouse_proto::ids::LinkToken;
use gatehouse_proto::socket::Role;
use gatehouse_proto::v1;
use gatehouse_sandbox::process::{ProcessHandle, ProcessIdentity, Signal, identity_of};

use crate::executor::Executor;
use crate::relay::Relay;

/// The executable under test.
pub fn claude() -> PathBuf {
    let path =
        std::env::var_os("CLAUDE_BIN").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_file());
    path.expect("CLAUDE_BIN must name the executable of Claude Code 2.1.247 (`make claude` brings it)")
}

fn runner_shim() -> PathBuf {
    let shim = PathBuf::from(env!("CARGO_BIN_EXE_runner-shim"));
    beside(&shim, "sandbox-launch");
    shim
}

/// Another program of the workspace.
pub fn beside(shim: &Path, name: &str) -> PathBuf {
    let program = shim.with_file_name(name);
    assert!(program.is_file(), "build {} first: cargo build -p gatehouse-sandbox --bins", program.display());
    program
}

fn tool(name: &str, read_only: bool) -> v1::PlannedTool {
    v1::PlannedTool {
        name: name.to_owned(),
        description: format!("The tool {name}."),
        input_schema_json: r#"{"type":"object","properties":{},"additionalProperties":true}"#.to_owned(),
        read_only,
    }
}

/// A run to be started: change `plan`, then `start`.
pub struct Setting {
    pub top: Arc<tempfile::TempDir>,
    pub plan: v1::RunPlan,
    /// What stands between the shim and its launcher, if anything is to.
    pub relay: Option<Relay>,
}

impl Setting {
    pub fn new() -> Self {
        let top = Arc::new(tempfile::Builder::new().prefix("shim").tempdir().unwrap());
        let at = |name: &str| top.path().join("session").join(name).to_str().unwrap().to_owned();
        let plan = v1::RunPlan {
            run_ordinal: 1,
            claude_session_id: uuid::Uuid::new_v4().to_string(),
            stdin_text: "[gatehouse run 1]\nhello".to_owned(),
            claude_binary: claude().to_str().unwrap().to_owned(),
            expected_version: "2.1.247".to_owned(),
            home_dir: at("home"),
            config_dir: at("config"),
            run_dir: at("run"),
            cwd_dir: at("cwd"),
            tmp_dir: at("tmp"),
            tools: vec![
                tool("Read", true),
                tool("FindFiles", true),
                tool("Slow", false),
                tool("Fails", false),
            ],
            ping_seconds: 1,
            tool_timeout_ms: 600_000,
            stream_idle_timeout_ms: 86_400_000,
            ..v1::RunPlan::default()
        };
        Self { top, plan, relay: None }
    }

    /// The next run of the same session.
    pub fn resume(&mut self, prompt: &str) {
        self.plan.run_ordinal += 1;
        self.plan.resume = true;
        self.prompt(prompt);
    }

    pub fn prompt(&mut self, prompt: &str) {
        self.plan.stdin_text = format!("[gatehouse run {}]\n{prompt}", self.plan.run_ordinal);
    }

    /// Puts a relay between the shim and its launcher, to be changed before the start.
    pub fn relay(&mut self) -> &mut Relay {
        self.relay.get_or_insert_with(|| Relay::new(self.top.path()))
    }

    pub fn start(&self) -> Shim {
        let token = LinkToken::mint().unwrap();
        let executor = Executor::new(&self.runtime_dir(), &token, self.plan.clone());
        self.start_with(executor, &token.to_hex())
    }

    pub fn start_with(&self, executor: Executor, token: &str) -> Shim {
        let log = tempfile::NamedTempFile::new().unwrap();
        let program = self.relay.as_ref().map_or_else(runner_shim, Relay::set_up);
        let mut child = Command::new(program)
            .arg("--runner-socket")
            .arg(Role::Runner.socket(&self.runtime_dir()))
            .args(["--run-nonce", "00112233445566778899aabbccddeeff"])
            .env_clear()
            .env("GATEHOUSE_LOG", "info,runner_shim=debug")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(format!("{token}\n").as_bytes()).unwrap();
        Shim { executor, child, log, _top: Arc::clone(&self.top) }
    }

    pub fn runtime_dir(&self) -> PathBuf {
        self.top.path().join("r")
    }
}

pub struct Shim {
    pub executor: Executor,
    child: Child,
    log: tempfile::NamedTempFile,
    _top: Arc<tempfile::TempDir>,
}

impl Shim {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    /// Claude Code, proven: it has a keeper and a first process of its namespace between itself and the shim.
    pub fn claude(&self) -> ProcessIdentity {
        let [.., claude] = self.line()[..] else { panic!("{:?}", self.line()) };
        identity_of(claude).unwrap()
    }

    /// The processes from the shim's child down to Claude Code, each the only child of the one before.
    pub fn line(&self) -> Vec<u32> {
        let mut line = Vec::new();
        let mut above = self.pid();
        loop {
            let children = std::fs::read_to_string(format!("/proc/{above}/task/{above}/children")).unwrap();
            let pids: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
            match pids[..] {
                [] => return line,
                [only] => above = only,
                _ => panic!("{above} has the children {children}"),
            }
            line.push(above);
        }
    }

    /// It is our child and not waited for, so the number is its own.
    pub fn signal(&self, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(self.pid().try_into().unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits for the end of the process.
    pub async fn gone(&mut self) {
        for _ in 0..1200 {
            if self.child.try_wait().unwrap().is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the shim does not end");
    }
}

/// Waits for the end of a process that is not ours to wait for.
pub async fn wait_gone(identity: &ProcessIdentity) {
    if let Ok(handle) = ProcessHandle::adopt(identity) {
        let waited = tokio::time::timeout(Duration::from_secs(30), handle.wait_gone()).await;
        waited.expect("the process still runs");
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.executor.stop();
        if std::thread::panicking() {
            eprintln!("the shim logged:\n{}", self.log());
        }
    }
}
