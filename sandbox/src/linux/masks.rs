//! Step 3e: what is hidden.
//!
//! An empty directory or file that nobody may open is bound over each protected path that exists, and over every other
//! place where a mount shows the same files. The program gets `EACCES`. Links are hidden at their end: the name that
//! points there then leads to the mask. What no mask can cover is another hard link to the same file, which is why
//! whoever makes the request looks for those and names them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::dev::{MASK_DIRECTORY, MASK_FILE};
use super::mountinfo::{self, Mount};
use super::{Step, failed, mounts};
use crate::launch::{Confinement, Layer, LayerFailure, Remedy};

include!(concat!(env!("OUT_DIR"), "/covered.rs"));

/// The table of mounts, to be read as soon as everything is mounted that shows files of the host: the shorter it is, the
/// sooner it is there.
///
/// # Errors
/// When it cannot be read.
pub(super) fn mount_table() -> Step<Vec<u8>> {
    mountinfo::own().map_err(failed(Layer::Masks, "read /proc/self/mountinfo"))
}

/// Hides what is to be hidden. The scratch, which is mounted at `scratch`, is meant to be seen there although it lies
/// inside of what is hidden: it is ours, and so is that. `table` is the [`mount_table`].
///
/// # Errors
/// When a mask cannot be put, or would hide something in `needed`.
pub(super) fn apply(confinement: &Confinement, needed: &[PathBuf], scratch: &Path, table: &[u8]) -> Step {
    let mounts = mountinfo::parse(table);
    let mut found = BTreeSet::new();
    for path in COVERED.iter().map(Path::new) {
        // The kernel's own file systems show nowhere else: each is of its own device.
        let of_the_kernel = path.starts_with("/proc") || path.starts_with("/sys");
        let ends = ends_of(path, if of_the_kernel { &[] } else { &mounts })?;
        found.extend(ends.here.into_iter().chain(ends.elsewhere));
    }
    for path in &confinement.hidden {
        let ends = ends_of(path, &mounts)?;
        found.extend(ends.here);
        found.extend(ends.elsewhere.into_iter().filter(|place| place != scratch));
    }
    let needed: Vec<PathBuf> = needed.iter().filter_map(|path| mounts::resolve(path).ok()).collect();
    let mut last: Option<&Path> = None;
    for path in &found {
        // Sorted: what lies below a mask comes right after it, and is hidden with it.
        if last.is_some_and(|last| path.starts_with(last)) {
            continue;
        }
        if let Some(needed) = needed.iter().find(|needed| needed.starts_with(path)) {
            return Err(conflict(path, needed));
        }
        cover(path)?;
        last = Some(path);
    }
    Ok(())
}

fn conflict(path: &Path, needed: &Path) -> LayerFailure {
    let call = format!("hide {} which holds {}", path.display(), needed.display());
    LayerFailure {
        remedy: Some(Remedy::HidesWhatIsNeeded),
        ..LayerFailure::new(Layer::Masks, call, nix::errno::Errno::EINVAL as i32)
    }
}

/// Where a path leads.
#[derive(Debug, Default)]
struct Ends {
    here: Option<PathBuf>,
    /// Where else the same shows, or a part of it.
    elsewhere: Vec<PathBuf>,
}

/// Where `path` leads, and where else that shows. Nothing where it does not exist or we cannot get there: the program,
/// with the same identity and fewer rights, cannot either.
fn ends_of(path: &Path, mounts: &[Mount<'_>]) -> Step<Ends> {
    let real = match mounts::resolve(path) {
        Ok(real) => real,
        Err(error) if is_out_of_reach(&error) => return Ok(Ends::default()),
        Err(error) => return Err(failed(Layer::Masks, format!("realpath {}", path.display()))(error)),
    };
    let same = |place: &PathBuf| match (fs::symlink_metadata(place), fs::symlink_metadata(&real)) {
        (Ok(one), Ok(other)) => one.dev() == other.dev(),
        _ => false,
    };
    let elsewhere = mountinfo::other_places(mounts, &real).into_iter().filter(same).collect();
    Ok(Ends { elsewhere, here: Some(real) })
}

fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let looped = error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32);
    looped || matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

fn cover(path: &Path) -> Step {
    let found =
        fs::symlink_metadata(path).map_err(failed(Layer::Masks, format!("lstat {}", path.display())))?;
    let mask = if found.is_dir() { MASK_DIRECTORY } else { MASK_FILE };
    rustix::mount::mount_bind(mask, path)
        .map_err(failed(Layer::Masks, format!("bind a mask over {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_what_is_always_hidden_names_each_path_once() {
        let unique: BTreeSet<_> = COVERED.iter().collect();
        assert_eq!(unique.len(), COVERED.len());
    }
}
