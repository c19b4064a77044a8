//! The policy of Claude Code: with probes in its place, and with the real one.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use gatehouse_sandbox::launch::{
    Confinement, Exit, LaunchRequest, Limits, Network, Policy, ProcessGroup, Streams,
};
use tokio::io::AsyncWriteExt;

use crate::host::Host;
use crate::probe::{
    Cause, PORTS, PROBE, can_run, finish, inside_of, launcher, outside, request, start, words,
};

mod fake;

async fn inside(host: &Host, attempt: &[&str]) -> Cause {
    inside_of(Policy::Claude, &crate::probe::claude(Path::new(PROBE), host), attempt).await
}

#[tokio::test]
async fn two_ports_are_reached_through_listeners_that_were_handed_out() {
    let host = Host::new();
    for (port, at) in PORTS.into_iter().zip(0..) {
        let argv = [PROBE, "connect-tcp", &format!("127.0.0.1:{port}")];
        let mut confined =
            start(&request(Policy::Claude, &argv), &crate::probe::claude(Path::new(PROBE), &host))
                .await
                .unwrap();
        let listener = confined.listeners.swap_remove(at);
        assert_eq!(listener.local_addr().unwrap().port(), port);
        let served = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(served.await.unwrap(), "ping");
        assert_eq!(finish(confined).await.stdout, "ok \n");
    }
}

#[tokio::test]
async fn nothing_else_is_reached_by_any_means() {
    let host = Host::new();
    // Somebody listens on the same port outside, on every address; it is not reached.
    let outer = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = outer.local_addr().unwrap().port();
    let other = format!("127.0.0.1:{port}");
    let external = format!("1.1.1.1:{}", PORTS[0]);
    for (attempt, errors) in [
        (vec!["connect-tcp", &*other], &["EACCES", "ECONNREFUSED"][..]),
        (vec!["connect-tcp", "1.1.1.1:443"], &["EACCES", "ENETUNREACH"]),
        (vec!["connect-tcp", &external], &["ENETUNREACH"]),
        (vec!["connect-multipath", &other], &["EPERM"]),
        (vec!["fast-open", &other], &["EPERM"]),
        (vec!["fast-open-option", &other], &["EPERM"]),
        (vec!["bind-tcp"], &["EPERM"]),
        (vec!["listen-unbound"], &["EPERM"]),
        (vec!["send-udp", "8.8.8.8:53"], &["EPERM"]),
        (vec!["connect-unix", &host.text("sockets/stream")], &["EPERM"]),
        (vec!["send-datagram", &host.text("sockets/datagram")], &["EPERM"]),
        (vec!["pair-send-to", "2", &host.text("sockets/datagram")], &["EPERM"]),
        (vec!["connect-abstract", &host.abstract_name], &["EPERM"]),
        (vec!["socket", "16", "3", "0"], &["EPERM"]),
    ] {
        let cause = inside(&host, &attempt).await;
        let Cause::Errno(name) = &cause else { panic!("{attempt:?}: {cause:?}") };
        assert!(errors.contains(&name.as_str()), "{attempt:?}: {cause:?}");
    }
    assert_eq!(host.reached(), 0);
    for attempt in [["connect-tcp", &other], ["fast-open", &other], ["fast-open-option", &other]] {
        let control = outside(&attempt);
        assert!(control.is_ok(), "{attempt:?}: {control:?}");
    }
}

#[tokio::test]
async fn nothing_but_what_was_named_is_there() {
    let host = Host::new();
    let state = host.text("state/file");
    for (attempt, error) in [
        (vec!["read", &*host.text("home/file")], "ENOENT"),
        (vec!["list", &host.text("home")], "ENOENT"),
        (vec!["read", "/etc/passwd"], "ENOENT"),
        (vec!["list", "/usr"], "ENOENT"),
        (vec!["list", "/sys"], "ENOENT"),
        (vec!["list", "/"], "EACCES"),
        (vec!["write", &host.text("ws/file")], "EROFS"),
        (vec!["create", "/file"], "EROFS"),
        (vec!["create", "/srv/file"], "ENOENT"),
        (vec!["read", &format!("/proc/{}/environ", host.victim())], "ENOENT"),
        (vec!["kill", &host.victim(), "0"], "ESRCH"),
        (vec!["kind", "/dev/ptmx"], "ENOENT"),
        (vec!["kind", "/dev/vda"], "ENOENT"),
    ] {
        assert_eq!(inside(&host, &attempt).await, Cause::Errno(error.into()), "{attempt:?}");
    }
    assert_eq!(inside(&host, &["read", &host.text("ws/file")]).await, Cause::Ok("public".into()));
    assert!(inside(&host, &["write", &state]).await.is_ok());
    assert!(inside(&host, &["read", "/proc/self/maps"]).await.is_ok());
    assert!(inside(&host, &["read", "/dev/urandom"]).await.is_ok());
}

#[tokio::test]
async fn no_other_program_is_started() {
    let host = Host::new();
    std::fs::copy(PROBE, host.path("state/copy")).unwrap();
    std::fs::copy(PROBE, host.path("ws/copy")).unwrap();
    let confined = crate::probe::claude(Path::new(PROBE), &host);
    for file in ["state/copy", "ws/copy"] {
        let failed = start(&request(Policy::Claude, &[host.text(file)]), &confined).await;
        let error = failed.unwrap_err().to_string();
        assert!(error.starts_with("launch step exec failed: Permission denied"), "{error}");
    }
    let failed = start(&request(Policy::Claude, &["/usr/bin/git"]), &confined).await;
    assert!(failed.unwrap_err().to_string().contains("No such file"));
}

/// `CLAUDE_BIN`, which make sets, else the copy that make brings into the build folder.
fn claude() -> PathBuf {
    let packages = "claude-code/node_modules/@anthropic-ai/claude-code-linux-x64/claude";
    let build = Path::new(PROBE).ancestors().nth(2).unwrap();
    std::env::var_os("CLAUDE_BIN").map_or_else(|| build.join(packages), PathBuf::from)
}

struct Session {
    host: Host,
    request: LaunchRequest,
    confinement: Confinement,
}

fn session(arguments: &[&str]) -> Session {
    let host = Host::new();
    let dirs = ["home", "config", "tmp"].map(|name| host.path("state").join(name));
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let [home, config, tmp] = dirs.clone();
    let mcp = host.path("ws/mcp.json");
    std::fs::write(&mcp, fake::mcp_config(PORTS[1])).unwrap();
    let binary = claude();
    let env: BTreeMap<String, std::ffi::OsString> = [
        ("HOME", home.into()),
        ("CLAUDE_CONFIG_DIR", config.into()),
        ("TMPDIR", tmp.clone().into()),
        ("CLAUDE_CODE_TMPDIR", tmp.into()),
        ("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", PORTS[0]).into()),
        ("ANTHROPIC_API_KEY", "key".into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        ("DISABLE_AUTOUPDATER", "1".into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let request = LaunchRequest {
        argv: [vec![binary.to_str().unwrap().to_owned()], words(arguments)]
            .concat()
            .into_iter()
            .map(Into::into)
            .collect(),
        cwd: host.path("cwd").into(),
        env,
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy: Policy::Claude,
    };
    let mut confinement = crate::probe::claude(&binary, &host);
    confinement.readable = vec![mcp];
    confinement.writable = dirs.to_vec();
    Session { host, request, confinement }
}

#[tokio::test]
async fn the_real_one_says_its_version_without_any_network() {
    if !can_run("claude", &claude()) {
        return;
    }
    let mut session = session(&["--version"]);
    session.confinement.network = Network::None;
    let run = crate::probe::run(&session.request, &session.confinement).await;
    assert_eq!(run.ended.how, Exit::Code(0), "{run:?}");
    assert!(run.stdout.contains("Claude Code"), "{run:?}");
}

#[tokio::test]
async fn the_real_one_thinks_and_calls_a_tool_over_the_two_ports() {
    if !can_run("claude", &claude()) {
        return;
    }
    let mcp = "--bare -p --session-id 1df54dd9-cc4d-4e3b-b2b6-2fe49cd3a97e --strict-mcp-config --disable-slash-commands \
        --permission-mode dontAsk --output-format stream-json --verbose --model chatgpt-main \
        --allowedTools mcp__gatehouse__Echo --mcp-config";
    let arguments: Vec<&str> = mcp.split_whitespace().collect();
    let mut session = session(&arguments);
    session.request.argv.push(session.host.path("ws/mcp.json").into());
    for word in ["--setting-sources", "", "--tools", ""] {
        session.request.argv.push(word.into());
    }
    let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::piped() };
    let mut confined =
        launcher().start_confined(&session.request, &session.confinement, streams).await.unwrap();
    let called = fake::serve(std::mem::take(&mut confined.listeners));
    confined.child.stdin.take().unwrap().write_all(b" say something\n").await.unwrap();
    let run = tokio::time::timeout(std::time::Duration::from_secs(60), finish(confined)).await.unwrap();
    assert_eq!(run.ended.how, Exit::Code(0), "{run:?}");
    let last = run.stdout.lines().last().unwrap();
    assert!(last.contains(r#""is_error":false"#) && last.contains(r#""result":"all done""#), "{run:?}");
    assert_eq!(
        called.lock().unwrap().as_slice(),
        ["hello"],
        "the tool was called with the argument that was asked for"
    );
    assert!(session.host.path("state/config/projects").exists(), "its history is where it belongs");
}
