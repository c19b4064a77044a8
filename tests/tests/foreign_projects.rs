//! Tools that a fresh machine does not have (`make test-foreign` brings them), run as commands in checkouts that cannot be
//! written: pytest with the things that Python programs do, and ripgrep.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::PathBuf;

use gatehouse_tests::binaries::folder;
use gatehouse_tests::commands::{copied, session_in, works};
use gatehouse_tests::places::Project;
use gatehouse_tests::skip;

/// The programs of the Python environment that `make` has filled; `None` where Python is left out.
fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("FOREIGN_HOME").map(PathBuf::from);
    let bin = named.unwrap_or_else(|| folder().join("../foreign")).join("venv/bin");
    if bin.join("pytest").exists() {
        return Some(bin.canonicalize().unwrap());
    }
    assert!(skip("python"), "{} has no pytest; `make test-foreign` brings it", bin.display());
    None
}

const TESTS: &str = r#"
import mmap, multiprocessing, multiprocessing.shared_memory, os, pty, socket, subprocess, sys, threading

def square(x):
    return x * x

def test_a_pool_of_processes():
    with multiprocessing.Pool(4) as pool:
        assert sum(pool.map(square, range(100))) == 328350

def test_shared_memory():
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
    memory.buf[0] = 7
    other = multiprocessing.shared_memory.SharedMemory(name=memory.name)
    assert other.buf[0] == 7
    other.close(); memory.close(); memory.unlink()

def test_a_pair_of_sockets():
    one, other = socket.socketpair()
    one.sendall(b"ping")
    assert other.recv(4) == b"ping"

def test_a_terminal():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "test -t 0 && echo terminal"])
    assert b"terminal" in os.read(terminal, 100)
    os.waitpid(pid, 0)

def test_many_threads():
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(1)) for _ in range(200)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert len(seen) == 200

def test_a_child_and_a_file(tmp_path):
    (tmp_path / "x").write_text("y")
    assert subprocess.check_output(["cat", str(tmp_path / "x")]) == b"y"

def test_mapped_memory(tmp_path):
    file = tmp_path / "m"
    file.write_bytes(b"\0" * 4096)
    with open(file, "r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
        mapped[0] = 65
    assert file.read_bytes()[0] == 65
"#;

#[tokio::test(flavor = "multi_thread")]
async fn pytest_runs_with_processes_shared_memory_terminals_and_threads() {
    let Some(bin) = programs() else { return };
    let project = Project::empty();
    project.write("tests/test_all.py", TESTS);
    project.write("pytest.ini", "[pytest]\n");
    // Brought along, since the build folder may lie where no command sees it.
    let lib =
        std::fs::read_dir(bin.join("../lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    for package in ["pytest", "_pytest", "iniconfig", "packaging", "pluggy", "pygments"] {
        copied(&lib.join(package), &project.path().join("vendor").join(package));
    }
    std::fs::copy(lib.join("py.py"), project.path().join("vendor/py.py")).unwrap();
    let Some((gateway, mut brain)) = session_in(&project, "").await else { return };
    let vendor = format!("PYTHONPATH={}/vendor", project.text());
    let said = works(&mut brain, &["env", &vendor, "python3", "-m", "pytest", "-q", "tests"]).await;
    assert!(said.contains("7 passed") && !said.contains("warning"), "{said}");
    let names = |below: &str| std::fs::read_dir(project.path().join(below)).unwrap().count();
    assert_eq!((names("."), names("tests")), (3, 1), "no cache beside the sources");
    brain.finish("It works.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ripgrep_searches() {
    let Some(bin) = programs() else { return };
    let project = Project::small();
    std::fs::create_dir(project.path().join("bin")).unwrap();
    std::fs::copy(bin.join("rg"), project.path().join("bin/rg")).unwrap();
    let Some((gateway, mut brain)) = session_in(&project, "").await else { return };
    let said = works(&mut brain, &["./bin/rg", "-n", "quicksilver"]).await;
    assert!(said.contains("src/main.txt:2:the word quicksilver stands here"), "{said}");
    brain.finish("It works.").await.unwrap();
    gateway.finish().await;
}
