//! The services under a systemd of their own: the units as systemd reads them, and a whole life from installation to removal.
//!
//! The instance runs in mount, process and control group namespaces of its own, so nothing of the machine's is touched. What is
//! started in it is seen, and reached over loopback, from outside.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use gatehouse::chatgpt::{Brain, Client, Endpoint, Start};
use gatehouse_tests::binaries::binary;
use gatehouse_tests::places::Project;
use gatehouse_tests::up::Place;
use gatehouse_tests::waiting::until;
use gatehouse_tests::{claude, processes, skip};

/// Whether systemd can be used here; a test that it is left out for is counted as skipped.
fn usable(programs: &[&str]) -> bool {
    let there = |program: &&str| Path::new(program).exists();
    if programs.iter().all(there) && nix::unistd::geteuid().is_root() {
        return true;
    }
    assert!(
        skip("systemd"),
        "these tests need root and {programs:?}; GATEHOUSE_SKIP=systemd leaves them out"
    );
    false
}

#[test]
fn systemd_takes_the_units_without_a_word() {
    if !usable(&["/usr/bin/systemd-analyze"]) {
        return;
    }
    let top = tempfile::tempdir().unwrap();
    let home = top.path().join("Jörg 100% $x");
    std::fs::create_dir(&home).unwrap();
    let mut install = Command::new(binary("gatehouse"));
    install.args(["install", "--as-root", "--no-start", "--runtime-dir", "/run/x y"]);
    install.env_clear().env("HOME", &home).env("PATH", "/usr/bin:/a b/100%");
    let made = install.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let units = home.join(".config/systemd/user");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--user", "--man=no", "--recursive-errors=one"]);
    verify.args(["gatehouse-executor.service", "gatehouse-front.service"].map(|unit| units.join(unit)));
    let found = verify.env("HOME", &home).env("XDG_RUNTIME_DIR", top.path()).output().unwrap();
    let said = String::from_utf8_lossy(&found.stderr);
    let about_ours: Vec<_> = said.lines().filter(|line| line.contains("gatehouse")).collect();
    assert!(found.status.success() && about_ours.is_empty(), "{said}");
}

/// A systemd user instance, and a shell inside of it.
struct Instance {
    shell: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Prepares the namespaces, starts the instance, and then runs each line that it reads.
const INSIDE: &str = r#"
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0 && chmod 700 /run/user/0
mount -t tmpfs none /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
mkdir "/sys/fs/cgroup/$1" && echo $$ > "/sys/fs/cgroup/$1/cgroup.procs"
export XDG_RUNTIME_DIR=/run/user/0 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/0/bus USER=root
dbus-daemon --session --address="$DBUS_SESSION_BUS_ADDRESS" --nofork --nopidfile >&2 &
/usr/lib/systemd/systemd --user --log-target=console >&2 &
until systemctl --user is-system-running --wait >/dev/null 2>&1; do :; done
set +e
echo ready
while read -r line; do eval "$line" 2>&1; echo "exit $?"; done
"#;

impl Instance {
    fn start(home: &Path, group: &str) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--cgroup", "--pid", "--fork", "--mount-proc", "--kill-child"]);
        command.args(["bash", "-c", INSIDE, "inside", group]).env("HOME", home);
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "CLAUDE_TOOLS_STATE_DIR"] {
            command.env_remove(name);
        }
        let mut shell = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(home.join("systemd.log")).unwrap())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let log = || std::fs::read_to_string(home.join("systemd.log")).unwrap_or_default();
        assert_eq!(line, "ready\n", "{}", log());
        Self { input: shell.stdin.take(), shell, output }
    }

    /// Runs a line of shell; its exit code and what it said.
    fn run(&mut self, line: &str) -> (i32, String) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        let mut said = String::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the shell ended: {said}");
            match line.strip_prefix("exit ") {
                Some(code) => return (code.trim().parse().unwrap(), said),
                None => said.push_str(&line),
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.shell.wait();
    }
}

/// Removes what the instance left in the machine's tree of control groups.
struct Group(String);

impl Drop for Group {
    fn drop(&mut self) {
        let script = r#"mount -t tmpfs none /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
            for try in 1 2 3 4 5; do find "/sys/fs/cgroup/$1" -depth -type d -exec rmdir {} + 2>/dev/null; done"#;
        let _ = Command::new("unshare").args(["--mount", "bash", "-c", script, "clean", &self.0]).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_are_installed_keep_runners_through_a_restart_and_go_without_a_trace() {
    let programs = ["/usr/lib/systemd/systemd", "/usr/bin/dbus-daemon", "/usr/bin/unshare"];
    if !usable(&programs) {
        return;
    }
    let Some(claude) = claude() else { return };
    let (place, project) = (Place::fresh(), Project::small());
    let home = place.path().join("h");
    std::fs::create_dir(&home).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let group = Group(format!("gatehouse-test-{}", std::process::id()));
    let mut instance = Instance::start(&home, &group.0);
    let flags =
        format!("--config {0}/config.toml --state-dir {0}/s --runtime-dir {0}/r", place.path().display());
    let gatehouse = |what: &str| {
        format!("CLAUDE_BIN={} {} {what} {flags}", claude.display(), binary("gatehouse").display())
    };

    let install = gatehouse(&format!("install --as-root --listen 127.0.0.1:{port}"));
    let (code, said) = instance.run(&install);
    assert_eq!(code, 0, "{said}\n{}", std::fs::read_to_string(home.join("systemd.log")).unwrap());
    assert!(said.contains("two services") && said.contains("enable-linger"), "{said}");

    let key = std::fs::read_to_string(place.path().join("s/front.key")).unwrap().trim().to_owned();
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let client = Arc::new(Client::http(Endpoint::Tcp { address, key: Some(key) }, None));
    let mut brain = Brain::start(client, &Start::new("Hello.", project.text())).await.unwrap();
    brain.settle().await.unwrap();
    let runner = processes::claude_of(brain.state().claude_session_id()).expect("Claude Code lives");

    let executor = |instance: &mut Instance| {
        instance.run("systemctl --user show -p MainPID --value gatehouse-executor").1.trim().to_owned()
    };
    let before = executor(&mut instance);
    assert_eq!(instance.run("systemctl --user restart gatehouse-executor").0, 0);
    assert_ne!(executor(&mut instance), before);
    until("the session answers again", async || brain.status(0).await.ok().map(drop)).await;
    assert_eq!(processes::claude_of(brain.state().claude_session_id()), Some(runner), "the runner stayed");
    let (code, said) = instance.run(&install);
    assert!(code == 0 && said.matches("unchanged").count() == 2, "an update in place: {said}");
    until("the session answers again", async || brain.status(0).await.ok().map(drop)).await;
    assert_eq!(processes::claude_of(brain.state().claude_session_id()), Some(runner), "the runner stayed");
    brain.finish("Done.").await.unwrap();

    let (code, said) = instance.run(&gatehouse("uninstall"));
    assert_eq!(code, 0, "{said}");
    assert!(!home.join(".config/systemd/user/gatehouse-executor.service").exists());
    assert!(place.path().join("s/ledger.db").exists(), "state stays");
    let (_, known) = instance.run("systemctl --user list-unit-files 'gatehouse*' --no-legend");
    assert_eq!(known, "", "systemd knows nothing of it any more");
    processes::no_shim_is_left(&place.path().join("r")).await;
}
