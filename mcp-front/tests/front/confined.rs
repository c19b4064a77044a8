//! The front gives up everything but its listener and the executor's socket, or does not serve.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use gatehouse_proto::v1::SessionStatus;
use serde_json::json;

use crate::client::{Ask, initialize, request, tool};
use crate::executor::{Answer, Executor, session};
use crate::process::{HttpFront, StdioFront, key_file};

/// Every thread of a process has a system call filter and no capability.
fn is_bound(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let states =
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
    let lines =
        ["Seccomp:\t2\n", "NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n"];
    states.into_iter().all(|state| lines.iter().all(|line| state.contains(line)))
}

#[test]
fn whatever_it_serves_on_it_is_confined_when_it_serves() {
    for front in [HttpFront::start(&[]), HttpFront::on_unix_socket(&[])] {
        assert!(is_bound(front.pid()));
    }
    let mut front = StdioFront::start(&[]);
    assert_eq!(front.ask(&request("ping", json!({})).to_string())["result"], json!({}));
    assert!(is_bound(front.child.id()));
}

#[test]
fn an_executor_that_comes_later_or_anew_is_found_in_the_directory_that_is_left() {
    let front = HttpFront::start(&[]);
    let directory = front.runtime_dir.join("front");
    assert_eq!(directory.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(Ask::get("/readyz").send(&front).status, 503);
    let status = tool("native_session_status", json!({"native_session_id": "ns_1", "lease_id": "lease_1"}));
    for _ in 0..3 {
        let executor =
            Executor::start(&front.runtime_dir, |_| Answer::Reply(Box::new(session(SessionStatus::Idle))));
        assert_eq!(Ask::get("/readyz").send(&front).status, 200);
        assert!(Ask::message(&status).send(&front).body.contains("idle"));
        drop(executor);
        assert_eq!(Ask::get("/readyz").send(&front).status, 503);
    }
    assert_eq!(Ask::get("/metrics").send(&front).status, 200);
}

#[test]
fn the_socket_that_one_leaves_behind_is_replaced_by_the_next() {
    let first = HttpFront::on_unix_socket(&[]);
    let dir = first.end();
    let second = HttpFront::on_unix_socket_in(dir);
    let ask = Ask::message(&initialize("2025-11-25")).without("X-Gatehouse-Key");
    assert_eq!(ask.send_to_socket(&second).status, 200);
}

#[test]
fn the_directory_may_be_named_from_where_it_was_started() {
    let dir = tempfile::tempdir().unwrap();
    let key = key_file(dir.path());
    std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
    for name in ["run", "elsewhere/../run"] {
        let _executor = Executor::start(&dir.path().join("run"), |_| {
            Answer::Reply(Box::new(session(SessionStatus::Idle)))
        });
        let front = HttpFront::with(|command| {
            command.current_dir(dir.path()).args(["http", "--listen", "127.0.0.1:0", "--runtime-dir", name]);
            command.arg("--key-file").arg(&key);
        });
        assert_eq!(Ask::get("/readyz").send(&front).status, 200, "{name}");
    }
}

#[test]
fn a_host_that_gives_no_user_namespace_gets_no_front_and_is_told_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let key = key_file(dir.path());
    // A namespace in which no further ones can be made, as on a host where they are switched off.
    let without = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let front = env!("CARGO_BIN_EXE_mcp-front");
    for transport in ["http", "stdio"] {
        let mut command = Command::new("unshare");
        command.args(["-Ur", "sh", "-c", without, "sh", front, transport]);
        command.arg("--runtime-dir").arg(dir.path().join("run"));
        if transport == "http" {
            command.args(["--listen", "127.0.0.1:0", "--key-file"]).arg(&key);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty(), "nothing was announced");
        for part in
            ["does not serve unconfined", "layer userns", "unshare", "sysctl -w user.max_user_namespaces"]
        {
            assert!(said.contains(part), "{part} not in {said}");
        }
    }
}
