//! What `Read` must never give out, asked through the real Claude Code: everything below /proc, /sys and /dev, and the
//! gateway's own directories.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use gatehouse::chatgpt::{Brain, Call, Start, ToolResult};
use gatehouse_tests::{Gateway, Setup, claude, processes};
use serde_json::json;

/// Calls per reply.
const CALLS: usize = 16;
/// Paths taken from each tree.
const SAMPLE: usize = 160;

/// Paths of a tree, breadth first, without following links: at most `limit` of them.
fn walk(top: &Path, limit: usize) -> Vec<PathBuf> {
    let mut found = vec![top.to_owned()];
    let mut next = 0;
    while next < found.len() && found.len() < limit {
        let is_directory = found[next].symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let entries = is_directory.then(|| std::fs::read_dir(&found[next]).ok()).flatten();
        found.extend(entries.into_iter().flatten().flatten().map(|entry| entry.path()));
        next += 1;
    }
    found.truncate(limit);
    found
}

/// Evenly picked from a wide walk, so that every corner has its turn.
fn sample(top: &str) -> Vec<PathBuf> {
    let all = walk(Path::new(top), 20_000);
    let step = (all.len() / SAMPLE).max(1);
    all.into_iter().step_by(step).take(SAMPLE).collect()
}

async fn read_all(brain: &mut Brain, paths: &[PathBuf]) -> Vec<(PathBuf, ToolResult)> {
    let paths: Vec<_> = paths.iter().filter(|path| path.to_str().is_some()).cloned().collect();
    let mut results = Vec::new();
    for batch in paths.chunks(CALLS) {
        let calls: Vec<_> = batch.iter().map(|path| Call::new("Read", json!({"file_path": path}))).collect();
        let shown = brain.act(None, &calls).await.unwrap().tool_results();
        assert_eq!(shown.len(), batch.len());
        results.extend(batch.iter().cloned().zip(shown));
    }
    results
}

fn code(result: &ToolResult) -> &str {
    result.receipt["code"].as_str().unwrap_or_default()
}

async fn session() -> Option<(Gateway, Brain)> {
    let mut gateway = Gateway::start(Setup::with_claude(claude()?)).await;
    let brain = gateway.session(&Start::new("Look everywhere.", "/")).await;
    Some((gateway, brain))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_below_proc_sys_and_dev_is_ever_read() {
    let Some((mut gateway, mut brain)) = session().await else { return };
    gateway.names_internals();
    let shared = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    std::fs::write(&shared, "in memory, and still below /dev").unwrap();
    let own = processes::claude_of(brain.state().claude_session_id()).unwrap();
    let mut paths: Vec<PathBuf> = [
        "/proc/self/environ",
        "/proc/self/mem",
        "/proc/self/root/etc/hostname",
        "/proc/self/cwd/README.md",
        "/proc/self/fd/0",
        "/proc/1/environ",
        "/proc/1/root/etc/passwd",
        "/proc/cpuinfo",
        "/proc/kcore",
        "/proc/sys/kernel/hostname",
        "/proc/../proc/version",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/fs/cgroup/cgroup.procs",
        "/dev/null",
        "/dev/zero",
        "/dev/tty",
        "/dev/stdin",
        "/dev/fd/0",
        "/dev/full",
        "/dev/urandom",
        "/dev/core",
        "//proc//version",
    ]
    .map(PathBuf::from)
    .into();
    paths.push(format!("/proc/{own}/environ").into());
    paths.push(shared.path().to_owned());
    paths.extend(["/proc", "/sys", "/dev"].into_iter().flat_map(sample));
    for (path, result) in read_all(&mut brain, &paths).await {
        assert!(
            !result.ok && result.receipt.get("content").is_none(),
            "{}: {}",
            path.display(),
            result.receipt
        );
        let refused =
            ["special_file_system", "symlink_refused", "not_a_file", "protected_path", "permission_denied"];
        let vanished = code(&result) == "not_found" && !path.exists();
        assert!(vanished || refused.contains(&code(&result)), "{}: {}", path.display(), result.receipt);
    }
    brain.finish("Nothing to see.").await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_own_directories_are_never_read() {
    let Some((mut gateway, mut brain)) = session().await else { return };
    gateway.names_internals();
    let mut paths: Vec<_> =
        [gateway.state_dir(), gateway.runtime_dir()].iter().flat_map(|top| walk(top, 200)).collect();
    paths.retain(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_file()));
    let state = gateway.state_dir();
    for name in ["front.key", "recovery.secret", "ledger.db"] {
        assert!(paths.contains(&state.join(name)), "{name} is there to be asked for");
    }
    paths.push(state.join("../s/front.key"));
    paths.push(state.join("sessions/../front.key"));
    for (path, result) in read_all(&mut brain, &paths).await {
        assert_eq!(
            (result.ok, code(&result)),
            (false, "protected_path"),
            "{}: {}",
            path.display(),
            result.receipt
        );
    }
    let search = Call::new("SearchText", json!({"directory": state, "text": "gatehouse"}));
    let find = Call::new("FindFiles", json!({"directory": state}));
    for result in brain.act(None, &[search, find]).await.unwrap().tool_results() {
        assert_eq!((result.ok, code(&result)), (false, "protected_path"), "{}", result.receipt);
    }
    brain.finish("Nothing to see.").await.unwrap();
    gateway.finish().await;
}
