//! A model that turns on Claude Code: it has it use its own tools instead of ours.
//!
//! Claude Code refuses that by itself, for it was started without any. So it is also started with all of them and with
//! leave to use them, as if it had been talked into that or taken over; then only its sandbox is left. The same calls
//! without the sandbox show that they are real.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use gatehouse_sandbox::launch::{Confinement, LaunchRequest, Launcher, Streams};
use gatehouse_sandbox::process::Signal;
use serde_json::{Value, json};
use tokio::process::Child;

use crate::model;
use crate::proxy::Proxy;
use crate::shim::{Setting, beside};

const SECRET: &str = "PRIVATE-KEY-4711";

/// What is not Claude Code's: a secret to read, and a directory to write to.
struct Outside(tempfile::TempDir);

impl Outside {
    fn new() -> Self {
        let top = tempfile::Builder::new().prefix("gh-outside-").tempdir().unwrap();
        std::fs::write(top.path().join("secret"), SECRET).unwrap();
        std::fs::write(top.path().join("text"), "as it was").unwrap();
        Self(top)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Calls of Claude Code's own tools: all that it has when it is started bare.
    fn calls(&self) -> Vec<(&'static str, Value)> {
        // There is no PATH, so the shell does it by itself.
        let script = format!(
            "read key < {}; echo \"$key\"; echo \"$key\" > {}",
            self.path("secret"),
            self.path("Bash")
        );
        vec![
            ("Read", json!({"file_path": self.path("secret")})),
            ("Bash", json!({"command": script})),
            ("Edit", created(&self.path("new"))),
            ("Read", json!({"file_path": self.path("text")})),
            (
                "Edit",
                json!({"file_path": self.path("text"), "old_string": "as it was", "new_string": "Edit was here"}),
            ),
        ]
    }

    /// What has been done here.
    fn done(&self) -> Vec<&'static str> {
        let mut done: Vec<&str> =
            ["Bash", "new"].into_iter().filter(|name| Path::new(&self.path(name)).exists()).collect();
        if std::fs::read_to_string(self.path("text")).unwrap() != "as it was" {
            done.push("text");
        }
        done
    }
}

/// The input of an Edit that makes a file.
fn created(path: &str) -> Value {
    json!({"file_path": path, "old_string": "", "new_string": "mine"})
}

#[tokio::test]
async fn calls_of_its_own_tools_in_a_reply_are_not_carried_out() {
    let outside = Outside::new();
    let proxy = Proxy::start(&[]).await;
    proxy.takes_names_apart();
    let mut setting = Setting::new();
    setting.relay().through(&proxy);
    let shim = setting.start();
    let mut turn = shim.executor.turn(0).await;
    let others = [
        ("Write", json!({"file_path": outside.path("new"), "content": "mine"})),
        ("Glob", json!({"pattern": "*", "path": outside.path("")})),
        ("Grep", json!({"pattern": "PRIVATE", "path": outside.path("")})),
        ("WebFetch", json!({"url": "http://127.0.0.1:1/", "prompt": "x"})),
        ("Task", json!({"description": "x", "prompt": "x", "subagent_type": "general-purpose"})),
        ("Agent", json!({"description": "x", "prompt": "x"})),
    ];
    for (number, (name, input)) in (1..).zip(outside.calls().into_iter().chain(others)) {
        let ids = shim.executor.reply(&turn, "", &[(name, input)]);
        turn = shim.executor.turn(number).await;
        let [seen] = &turn.seen[..] else { panic!("{turn:?}") };
        assert!(seen.is_error && seen.text.contains("No such tool"), "{name}: {seen:?}");
        assert_eq!(shim.executor.effects(&ids[0]), 0);
    }
    let asked = proxy.bodies().last().unwrap()["messages"].to_string();
    assert!(asked.contains(r#""name":"Bash""#), "the names were Claude Code's own: {asked}");
    assert!(!asked.contains(SECRET) && outside.done().is_empty());
    shim.executor.reply(&turn, "done", &[]);
    shim.executor.finished().await;
}

/// The order that a real shim gives for Claude Code, as if it had been given for a Claude Code with all its tools.
struct Hostile {
    setting: Setting,
    request: LaunchRequest,
    confinement: Confinement,
}

impl Hostile {
    async fn of_a_real_run() -> Self {
        let mut setting = Setting::new();
        setting.relay();
        let mut shim = setting.start();
        shim.executor.turn(0).await;
        let order = setting.relay().order();
        shim.signal(Signal::SIGTERM);
        shim.gone().await;
        let mut request: LaunchRequest = serde_json::from_value(order["launch"].clone()).unwrap();
        let confinement: Confinement = serde_json::from_value(order["confinement"].clone()).unwrap();
        let mut argv: Vec<String> =
            request.argv.iter().map(|word| word.clone().into_string().unwrap()).collect();
        let after = |argv: &[String], name: &str| argv.iter().position(|word| word == name).unwrap() + 1;
        let (session, tools) = (after(&argv, "--session-id"), after(&argv, "--tools"));
        argv[session] = uuid::Uuid::new_v4().to_string();
        argv[tools] = "Bash,Read,Edit".to_owned();
        let allowed = after(&argv, "--allowedTools");
        argv.splice(allowed..allowed, ["Bash", "Read", "Edit"].map(str::to_owned));
        request.argv = argv.into_iter().map(Into::into).collect();
        // The one that the shim wrote is gone with its run.
        std::fs::write(Path::new(&setting.plan.run_dir).join("mcp.json"), r#"{"mcpServers":{}}"#).unwrap();
        Self { setting, request, confinement }
    }

    /// A file of Claude Code's own, and the call that writes it.
    fn own(&self) -> (PathBuf, (&'static str, Value)) {
        let file = Path::new(&self.setting.plan.home_dir).join("own");
        let call = ("Edit", created(file.to_str().unwrap()));
        (file, call)
    }
}

const fn streams() -> fn() -> Streams {
    || Streams { stdin: Stdio::piped(), stdout: Stdio::null(), stderr: Stdio::null() }
}

fn launcher() -> Launcher {
    Launcher::at(beside(Path::new(env!("CARGO_BIN_EXE_runner-shim")), "sandbox-launch"))
}

async fn to_the_end(mut claude: Child) {
    // Its prompt is empty but for this; what it does, the model says.
    let mut stdin = claude.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"go on\n").await.unwrap();
    drop(stdin);
    tokio::time::timeout(Duration::from_secs(120), claude.wait()).await.unwrap().unwrap();
}

#[tokio::test]
async fn with_all_its_tools_and_leave_to_use_them_it_reads_and_writes_nothing_but_its_own() {
    let outside = Outside::new();
    let hostile = Hostile::of_a_real_run().await;
    let (own, call) = hostile.own();
    let calls = [vec![call], outside.calls()].concat();

    let mut confined =
        launcher().start_confined(&hostile.request, &hostile.confinement, streams()()).await.unwrap();
    let results = model::serve(confined.listeners.swap_remove(0), calls.clone());
    to_the_end(confined.child).await;
    let results = results.lock().unwrap().clone();
    assert_eq!(results.len(), calls.len(), "each call was made: {results:#?}");
    assert_eq!(std::fs::read_to_string(own).unwrap(), "mine", "its tools work: {results:#?}");
    assert!(outside.done().is_empty(), "{:?}: {results:#?}", outside.done());
    assert!(results.iter().all(|text| !text.contains(SECRET)), "{results:#?}");
    for (text, (name, _)) in results.iter().zip(&calls).skip(1) {
        assert!(text.contains("is_error\":true"), "{name}: {text}");
    }
}

#[tokio::test]
async fn without_the_sandbox_the_same_calls_do_what_they_say() {
    let outside = Outside::new();
    let mut hostile = Hostile::of_a_real_run().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    hostile.request.env.insert("ANTHROPIC_BASE_URL".to_owned(), url.into());
    let results = model::serve(listener, outside.calls());
    to_the_end(launcher().start(&hostile.request, streams()()).await.unwrap().child).await;
    let results = results.lock().unwrap().clone();
    assert_eq!(outside.done(), ["Bash", "new", "text"], "{results:#?}");
    assert!(results[..2].iter().all(|text| text.contains(SECRET)), "{results:#?}");
}
