//! Looking at processes from outside, the way an administrator would: by what the system says about them.

use std::collections::BTreeMap;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::waiting::until;

/// A process and its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its arguments, the program's name first.
    pub arguments: Vec<String>,
}

/// All processes whose arguments can be read.
#[must_use]
pub fn all() -> Vec<Process> {
    let ids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some(Process { pid, arguments: arguments(pid)? }))
        .collect()
}

fn arguments(pid: u32) -> Option<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let parts = bytes.split(|&byte| byte == 0).filter(|part| !part.is_empty());
    Some(parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect())
}

/// The Claude Code process of a Claude session, if it lives: the one that is not a launcher on its way to become it.
#[must_use]
pub fn claude_of(claude_session_id: &str) -> Option<u32> {
    let named = |process: &Process| process.arguments.iter().any(|argument| argument == claude_session_id);
    let is_claude = |process: &Process| {
        let exe = std::fs::read_link(format!("/proc/{}/exe", process.pid));
        exe.is_ok_and(|exe| !exe.ends_with("sandbox-launch") && !exe.ends_with("runner-shim"))
    };
    all().into_iter().find(|process| named(process) && is_claude(process)).map(|process| process.pid)
}

/// The shims that serve the gateway with this runtime directory.
#[must_use]
pub fn shims_of(runtime_dir: &Path) -> Vec<u32> {
    let mine = |process: &Process| {
        process.arguments.first().is_some_and(|program| program.ends_with("runner-shim"))
            && process.arguments.iter().any(|argument| Path::new(argument).starts_with(runtime_dir))
    };
    all().into_iter().filter(mine).map(|process| process.pid).collect()
}

/// Waits until no shim serves that gateway any more. One that has lost the executor asks again after a pause, and is told only then
/// that its run is over.
pub async fn no_shim_is_left(runtime_dir: &Path) {
    until("no shim is left", async || shims_of(runtime_dir).is_empty().then_some(())).await;
}

/// The shim of a Claude session, if it lives: the nearest one above whatever has that id among its arguments.
#[must_use]
pub fn shim_of(claude_session_id: &str) -> Option<u32> {
    let all = all();
    let named = |process: &&Process| process.arguments.iter().any(|argument| argument == claude_session_id);
    all.iter().filter(named).find_map(|process| {
        let mut pid = process.pid;
        loop {
            pid = parent(pid)?;
            let found = all.iter().find(|process| process.pid == pid)?;
            if found.arguments.first().is_some_and(|program| program.ends_with("runner-shim")) {
                return Some(pid);
            }
        }
    })
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 1)
}

/// Every process that has `directory` in its arguments or environment: those of one test's gateway.
#[must_use]
pub fn of_directory(directory: &Path) -> Vec<u32> {
    let needle = directory.to_str().expect("test directories are UTF-8");
    let mine = std::process::id();
    let touches = |process: &Process| {
        process.pid != mine
            && (process.arguments.iter().any(|argument| argument.contains(needle))
                || environment(process.pid).values().any(|value| value.contains(needle)))
    };
    all().into_iter().filter(touches).map(|process| process.pid).collect()
}

/// A process's environment as it was at its start; empty where the system does not tell.
#[must_use]
pub fn environment(pid: u32) -> BTreeMap<String, String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let entries = bytes.split(|&byte| byte == 0).filter_map(|entry| {
        let text = String::from_utf8_lossy(entry).into_owned();
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    });
    entries.collect()
}

/// Whether a process is there and not just waiting to be reaped.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Sends a signal to a process that the test found or started.
pub fn signal(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        // Whoever is gone already needs no signal.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}
