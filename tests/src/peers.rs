//! Other people's servers of files, over MCP on standard input and output: what the benches measure beside ours.
//!
//! They are installed by `make bench` into the build folder. Each gets a home of its own, and no reason to call anybody.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binaries::claude;

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `@modelcontextprotocol/server-filesystem`.
    Filesystem,
    /// `@wonderwhy-er/desktop-commander`.
    DesktopCommander,
    /// `claude mcp serve`.
    Claude,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Filesystem, Self::DesktopCommander, Self::Claude];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filesystem => "server-filesystem",
            Self::DesktopCommander => "desktop-commander",
            Self::Claude => "`claude mcp serve`",
        }
    }

    /// How it is started, to serve this directory; `None` if it is not installed.
    fn command(self, directory: &Path, home: &Path) -> Option<Command> {
        let modules = gatehouse_figures::peers().join("node_modules");
        let mut command = match self {
            Self::Filesystem => {
                let mut node = node(&modules.join("@modelcontextprotocol/server-filesystem/dist/index.js"))?;
                node.arg(directory);
                node
            }
            Self::DesktopCommander => {
                let settings = home.join(".claude-server-commander");
                std::fs::create_dir_all(&settings).ok()?;
                let config = json!({"telemetryEnabled": false, "allowedDirectories": [directory]});
                std::fs::write(settings.join("config.json"), config.to_string()).ok()?;
                node(&modules.join("@wonderwhy-er/desktop-commander/dist/index.js"))?
            }
            Self::Claude => {
                let mut program = Command::new(claude()?);
                program.args(["mcp", "serve"]);
                program
            }
        };
        command.env("HOME", home).env("CLAUDE_CONFIG_DIR", home).env("PUPPETEER_SKIP_DOWNLOAD", "1");
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
        command.current_dir(directory);
        Some(command)
    }

    fn read(self, file: &Path) -> (&'static str, Value) {
        match self {
            Self::Filesystem => ("read_text_file", json!({"path": file})),
            Self::DesktopCommander => ("read_file", json!({"path": file})),
            Self::Claude => ("Read", json!({"file_path": file})),
        }
    }

    fn write(self, file: &Path, content: &str) -> (&'static str, Value) {
        match self {
            Self::Filesystem => ("write_file", json!({"path": file, "content": content})),
            Self::DesktopCommander => {
                ("write_file", json!({"path": file, "content": content, "mode": "rewrite"}))
            }
            Self::Claude => ("Write", json!({"file_path": file, "content": content})),
        }
    }
}

fn node(script: &Path) -> Option<Command> {
    let mut command = Command::new("node");
    command.arg(script);
    script.is_file().then_some(command)
}

/// A running server. It ends when this is dropped.
#[derive(Debug)]
pub struct Peer {
    kind: Kind,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
    _home: TempDir,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Whoever is gone already needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// Starts it and shakes hands; `None` if it is not installed.
    ///
    /// # Panics
    /// When it is and does not work.
    #[must_use]
    pub fn start(kind: Kind, directory: &Path) -> Option<Self> {
        let home = tempfile::tempdir().expect("the temporary folder is writable");
        let mut command = kind.command(directory, home.path())?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let input = child.stdin.take().expect("it is a pipe");
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut peer = Self { kind, child, input, output, asked: 0, _home: home };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "gatehouse-bench", "version": "1"}});
        peer.ask("initialize", &hello);
        peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        peer.ask("tools/list", &json!({}));
        Some(peer)
    }

    /// Which one it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it read a file; how long that took.
    ///
    /// # Panics
    /// When it does not.
    pub fn read(&mut self, file: &Path) -> Duration {
        let (tool, arguments) = self.kind.read(file);
        self.call(tool, &arguments)
    }

    /// Has it overwrite a file; how long that took.
    ///
    /// # Panics
    /// When it does not.
    pub fn write(&mut self, file: &Path, content: &str) -> Duration {
        let (tool, arguments) = self.kind.write(file, content);
        let took = self.call(tool, &arguments);
        assert_eq!(std::fs::read_to_string(file).expect("it is there"), content, "{}", self.kind.name());
        took
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Duration {
        let began = Instant::now();
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let took = began.elapsed();
        assert!(answer["isError"] != true, "{}: {answer}", self.kind.name());
        took
    }

    fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).expect("the server reads");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).expect("the server answers");
            assert!(read > 0, "{} has ended", self.kind.name());
            let Ok(mut message) = serde_json::from_str::<Value>(&line) else { continue };
            if message["id"] == self.asked {
                assert!(message["error"].is_null(), "{}: {message}", self.kind.name());
                return message["result"].take();
            }
        }
    }
}
