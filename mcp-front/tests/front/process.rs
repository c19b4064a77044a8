//! The real program, started for one test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

pub const KEY: &str = "0123456789abcdef-a-key-for-tests-0123456789";

/// A front over HTTP, ended with the test.
pub struct HttpFront {
    child: Option<Child>,
    pub endpoint: String,
    pub runtime_dir: PathBuf,
    dir: Option<tempfile::TempDir>,
}

impl HttpFront {
    pub fn start(options: &[&str]) -> Self {
        Self::listening("127.0.0.1:0", options)
    }

    pub fn on_unix_socket(options: &[&str]) -> Self {
        Self::listening("unix", options)
    }

    fn listening(listen: &str, options: &[&str]) -> Self {
        Self::in_directory(tempfile::tempdir().unwrap(), listen, options)
    }

    /// On a Unix socket in a directory where another one was before.
    pub fn on_unix_socket_in(dir: tempfile::TempDir) -> Self {
        Self::in_directory(dir, "unix", &[])
    }

    fn in_directory(dir: tempfile::TempDir, listen: &str, options: &[&str]) -> Self {
        let socket = dir.path().join("mcp.sock");
        let listen = if listen == "unix" { format!("unix:{}", socket.display()) } else { listen.to_owned() };
        let (key, runtime_dir) = (key_file(dir.path()), dir.path().join("run"));
        Self::started(dir, |command| {
            command
                .arg("http")
                .args(["--listen", &listen, "--key-file", key.to_str().unwrap()])
                .args(["--runtime-dir", runtime_dir.to_str().unwrap()])
                .args(options);
        })
    }

    /// With arguments of the test's own.
    pub fn with(arguments: impl FnOnce(&mut Command)) -> Self {
        Self::started(tempfile::tempdir().unwrap(), arguments)
    }

    fn started(dir: tempfile::TempDir, arguments: impl FnOnce(&mut Command)) -> Self {
        let mut command = command();
        arguments(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no endpoint: {line:?}"));
        let endpoint = said["endpoint"].as_str().unwrap().to_owned();
        Self { child: Some(child), endpoint, runtime_dir: dir.path().join("run"), dir: Some(dir) }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// `host:port` of the endpoint.
    pub fn authority(&self) -> &str {
        self.endpoint.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap()
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.as_ref().unwrap().path().join("mcp.sock")
    }

    /// Sends SIGTERM; returns the exit code and all that was logged.
    pub fn terminate(mut self) -> (Option<i32>, String) {
        let mut child = self.child.take().unwrap();
        signal(child.id(), nix::sys::signal::Signal::SIGTERM);
        let code = child.wait().unwrap().code();
        let mut log = String::new();
        child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (code, log)
    }

    /// Ends it and gives back its directory.
    pub fn end(mut self) -> tempfile::TempDir {
        let dir = self.dir.take().unwrap();
        assert_eq!(self.terminate().0, Some(0));
        dir
    }
}

impl Drop for HttpFront {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn signal(pid: u32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.try_into().unwrap()), signal).unwrap();
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-front"));
    command.env_clear();
    command
}

pub fn key_file(dir: &Path) -> PathBuf {
    let path = dir.join("front.key");
    std::fs::write(&path, KEY).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A front on pipes.
pub struct StdioFront {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub runtime_dir: PathBuf,
    _dir: tempfile::TempDir,
}

impl StdioFront {
    pub fn start(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runtime_dir = dir.path().join("run");
        let mut child = command()
            .args(["stdio", "--runtime-dir", runtime_dir.to_str().unwrap()])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, runtime_dir, _dir: dir }
    }

    pub fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}"))
    }

    pub fn ask(&mut self, line: &str) -> Value {
        self.send(line);
        self.receive()
    }

    /// Ends the input; returns what else was written and the exit code.
    pub fn end(&mut self) -> (String, Option<i32>) {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for StdioFront {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
