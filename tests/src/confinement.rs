//! What the system says about how a process is confined, looked at from outside.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The namespaces of a process that are not our own, by name. Only root may ask this about processes that keep others out.
///
/// # Errors
/// When the process is not there, or we may not ask.
pub fn foreign_namespaces(pid: u32) -> std::io::Result<Vec<&'static str>> {
    let of = |pid: &str, name: &str| std::fs::read_link(format!("/proc/{pid}/ns/{name}"));
    let mut foreign = Vec::new();
    for name in ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"] {
        if of(&pid.to_string(), name)? != of("self", name)? {
            foreign.push(name);
        }
    }
    Ok(foreign)
}

/// The status of each thread of a process: its fields by name.
///
/// # Panics
/// When the process is not there.
#[must_use]
pub fn thread_states(pid: u32) -> Vec<BTreeMap<String, String>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let status = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.expect("a thread").path().join("status")).ok()?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Some(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    };
    // A thread may end while we look.
    threads.filter_map(status).collect()
}

/// A mount in the view of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is, in that view.
    pub path: PathBuf,
    /// Its options.
    pub options: Vec<String>,
}

/// All mounts in the view of a process.
///
/// # Errors
/// When the process is not there, or we may not ask.
pub fn mounts(pid: u32) -> std::io::Result<Vec<Mount>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/mountinfo"))?;
    let mount = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let options = fields[5].split(',').map(str::to_owned).collect();
        Mount { path: PathBuf::from(fields[4]), options }
    };
    Ok(text.lines().map(mount).collect())
}

/// Every path in the view of a process, but what lies below `except`.
///
/// # Errors
/// When we may not look.
pub fn view(pid: u32, except: &[&Path]) -> std::io::Result<Vec<PathBuf>> {
    let root = PathBuf::from(format!("/proc/{pid}/root/"));
    let mut found = Vec::new();
    let mut waiting = vec![root.clone()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let inside = Path::new("/").join(entry.path().strip_prefix(&root).expect("below the root"));
            if except.contains(&&*inside) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
            found.push(inside);
        }
    }
    found.sort();
    Ok(found)
}
