//! Taking a worktree away, whole or half-made. No git is needed for that: a directory of ours, and its registration.
//!
//! First the directory gets another name, under which it is looked at again and then deleted, so that neither another directory
//! in its place is deleted nor a half-deleted one left under its name. Then the registration goes. Each step can be repeated.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::binding::{identify, link_target, path_in, read_small};
use super::fault::{BindingFault, RemoveFault};
use super::{Identity, Worktree, WorktreeIntent, Worktrees};
use crate::files::mounted_below;

/// What was there to clear away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleared {
    /// Nothing.
    Nothing,
    /// A worktree, or a part of one.
    Removed,
}

impl Worktrees {
    /// Removes a worktree, whatever is in it, with its lock and its registration and nothing else. One whose directory is gone
    /// already only loses its registration.
    ///
    /// # Errors
    /// When something else is in its place, or the system does not let us. May be called again.
    pub async fn remove(&self, worktree: &Worktree) -> Result<(), RemoveFault> {
        let worktree = worktree.clone();
        blocking(move || remove(&worktree)).await
    }

    /// Removes what a creation that was interrupted has left behind; only what carries the intent's nonce, and never a
    /// worktree that a session has been at work in (the caller knows that).
    ///
    /// # Errors
    /// When something else is in its place, or the system does not let us. May be called again.
    pub async fn clear_away(&self, intent: &WorktreeIntent) -> Result<Cleared, RemoveFault> {
        // Where the creation was dropped, its git may write until it is gone.
        self.git.orphans_gone().await;
        let intent = intent.clone();
        blocking(move || clear_away(&intent)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RemoveFault> + Send + 'static,
) -> Result<T, RemoveFault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(RemoveFault::Io { path: PathBuf::new(), source: io::Error::other(error) })
    })
}

fn remove(worktree: &Worktree) -> Result<(), RemoveFault> {
    match worktree.same_directory() {
        Ok(()) => {
            // Before anything is gone: it is the one that the repository knows.
            worktree.verify()?;
            delete(&worktree.path, worktree.identity)?;
        }
        Err(BindingFault::Missing(_)) => finish(&worktree.path)?,
        Err(fault) => return Err(fault.into()),
    }
    if identify(&worktree.common_dir).is_ok_and(|found| found == worktree.common)
        && worktree.leads_back().is_ok()
    {
        unregister(&worktree.registration_dir())?;
    }
    Ok(())
}

fn clear_away(intent: &WorktreeIntent) -> Result<Cleared, RemoveFault> {
    let path = intent.folder.canonicalize().unwrap_or_else(|_| intent.folder.clone()).join(&intent.name);
    let registration = intent.registration();
    let registered = identify(&registration).is_ok();
    if registered && !is_ours(&registration, intent) {
        return Err(not_ours(&registration, "it is the registration of another worktree"));
    }
    let mut cleared = if registered { Cleared::Removed } else { Cleared::Nothing };
    match identify(&path) {
        Ok(identity) => {
            if registered && leads_to(&path, &registration) {
                delete(&path, identity)?;
            } else {
                if registered {
                    remove_unwritten_link(&path)?;
                }
                // Not written to yet, or not ours: it goes only if it is empty.
                remove_empty(&path)?;
            }
            cleared = Cleared::Removed;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => finish(&path)?,
        Err(_) => return Err(not_ours(&path, "it is not a directory")),
    }
    if registered {
        unregister(&registration)?;
    } else {
        leave_no_empty_list(&registration);
    }
    Ok(cleared)
}

fn not_ours(path: &Path, why: &'static str) -> RemoveFault {
    RemoveFault::NotOurs { path: path.to_owned(), why }
}

fn fault(path: &Path) -> impl FnOnce(io::Error) -> RemoveFault {
    let path = path.to_owned();
    move |source| RemoveFault::Io { path, source }
}

/// Git writes the reason of the lock before it writes anything else. Before that, the registration is empty but for an empty
/// lock, and no worktree.
fn is_ours(registration: &Path, intent: &WorktreeIntent) -> bool {
    match read_small(&registration.join("locked")) {
        Ok(reason) if reason.is_empty() => !registration.join("gitdir").exists(),
        Ok(reason) => reason.trim_ascii_end() == intent.lock_reason().as_bytes(),
        Err(_) => std::fs::read_dir(registration).is_ok_and(|mut entries| entries.next().is_none()),
    }
}

fn leads_to(path: &Path, registration: &Path) -> bool {
    let leads = read_small(&path.join(".git")).ok().and_then(|content| link_target(&content, path));
    let back = read_small(&registration.join("gitdir")).ok().and_then(|text| path_in(&text, registration));
    leads.as_deref() == Some(registration) && back == Some(path.join(".git"))
}

/// Git makes its file before it writes into it. Only where nothing else is there.
fn remove_unwritten_link(path: &Path) -> Result<(), RemoveFault> {
    let link = path.join(".git");
    let is_unwritten = link.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
    let is_alone = std::fs::read_dir(path).is_ok_and(|entries| entries.count() == 1);
    if is_unwritten && is_alone { std::fs::remove_file(&link).map_err(fault(&link)) } else { Ok(()) }
}

fn remove_empty(path: &Path) -> Result<(), RemoveFault> {
    std::fs::remove_dir(path).map_err(|source| match source.kind() {
        io::ErrorKind::DirectoryNotEmpty => {
            not_ours(path, "it holds files and does not lead to our registration")
        }
        _ => RemoveFault::Io { path: path.to_owned(), source },
    })
}

/// The name under which a directory is deleted.
fn doomed(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".removing-{name}"))
}

/// Deletes the directory at this path if it is this one.
fn delete(path: &Path, identity: Identity) -> Result<(), RemoveFault> {
    let doomed = doomed(path);
    finish(path)?;
    nothing_is_mounted_in(path)?;
    std::fs::rename(path, &doomed).map_err(fault(path))?;
    if identify(&doomed).ok() != Some(identity) {
        // Somebody was quicker. Back with it.
        std::fs::rename(&doomed, path).map_err(fault(&doomed))?;
        return Err(BindingFault::Replaced(path.to_owned()).into());
    }
    finish(path)
}

/// Finishes a deletion that was begun.
fn finish(path: &Path) -> Result<(), RemoveFault> {
    let doomed = doomed(path);
    if doomed.symlink_metadata().is_err() {
        return Ok(());
    }
    // Also where a deletion goes on that was broken off.
    nothing_is_mounted_in(&doomed)?;
    let first = std::fs::remove_dir_all(&doomed);
    if first.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        open_up(&doomed).map_err(fault(&doomed))?;
        return std::fs::remove_dir_all(&doomed).map_err(fault(&doomed));
    }
    first.map_err(fault(&doomed))
}

/// What is mounted in a worktree lies elsewhere, and is not ours to delete.
fn nothing_is_mounted_in(path: &Path) -> Result<(), RemoveFault> {
    match mounted_below(path).map_err(fault(path))?.into_iter().min() {
        None => Ok(()),
        Some(mounted) => Err(not_ours(&mounted, "something is mounted there, in the worktree")),
    }
}

/// Makes every directory writable. Links are not followed: what they lead to is not ours.
fn open_up(directory: &Path) -> io::Result<()> {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

fn unregister(registration: &Path) -> Result<(), RemoveFault> {
    std::fs::remove_dir_all(registration).map_err(fault(registration))?;
    leave_no_empty_list(registration);
    Ok(())
}

/// Git, too, leaves no empty list of worktrees behind.
fn leave_no_empty_list(registration: &Path) {
    if let Some(list) = registration.parent() {
        // It is not empty where the repository has others.
        let _ = std::fs::remove_dir(list);
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs the test once more where it may mount; it needs root or user namespaces.
    fn in_a_mount_namespace(test: &str) -> bool {
        const INSIDE: &str = "GATEHOUSE_TEST_INSIDE_MOUNT_NAMESPACE";
        if std::env::var_os(INSIDE).is_some() {
            return true;
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "--propagation", "private"]);
        command.arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]).env(INSIDE, "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        false
    }

    #[test]
    fn what_is_mounted_in_a_worktree_is_not_deleted_with_it() {
        if !in_a_mount_namespace(
            "worktree::remove::tests::what_is_mounted_in_a_worktree_is_not_deleted_with_it",
        ) {
            return;
        }
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let (worktree, precious) = (top.join("tree"), top.join("precious"));
        let data = worktree.join("data");
        std::fs::create_dir_all(&data).unwrap();
        std::fs::create_dir(&precious).unwrap();
        std::fs::write(precious.join("work"), "years of it").unwrap();
        let run = |program: &str, words: &[&Path]| {
            assert!(Command::new(program).args(words).status().unwrap().success(), "{program}");
        };
        run("mount", &["--bind".as_ref(), &precious, &data]);
        let identity = identify(&worktree).unwrap();
        let refused = delete(&worktree, identity).unwrap_err();
        assert!(refused.to_string().contains("something is mounted there"), "{refused}");
        assert!(precious.join("work").exists() && worktree.exists(), "nothing was touched");
        // Nor where a deletion that was broken off is gone on with.
        std::fs::rename(&worktree, doomed(&worktree)).unwrap();
        assert!(finish(&worktree).is_err() && precious.join("work").exists());
        std::fs::rename(doomed(&worktree), &worktree).unwrap();
        run("umount", &[&data]);
        delete(&worktree, identity).unwrap();
        assert!(!worktree.exists() && precious.join("work").exists());
    }
}
