//! Step 3b: the scratch, mounted at `/tmp`.

use std::path::Path;

use super::mounts::{self, FROZEN, Kind, NOEXEC, TAME, Tree};
use super::{Step, mounts::real};
use crate::launch::{Layer, SCRATCH, SCRATCH_HOME, Scratch};

/// Inodes of a scratch in memory: one for each of these many bytes, so that empty files fill it up too.
const BYTES_PER_INODE: u64 = 4096;

/// Makes the scratch, with the home directory in it; not attached yet.
///
/// # Errors
/// When the directory is not there or cannot be written.
pub(super) fn make(scratch: &Scratch) -> Step<Tree> {
    let tree = match scratch {
        Scratch::None => empty()?,
        Scratch::Directory { path, .. } => {
            let tree = Tree::clone_of(Layer::Scratch, &real(Layer::Scratch, path)?)?;
            tree.restrict(TAME)?;
            tree
        }
        Scratch::Memory { bytes } => memory(*bytes)?,
    };
    if *scratch != Scratch::None {
        let home = Path::new(SCRATCH_HOME).strip_prefix(SCRATCH).unwrap_or_else(|_| Path::new("home"));
        mounts::make_target(Layer::Scratch, tree.root(), home, Kind::Directory)?;
    }
    Ok(tree)
}

/// What was to be writable only for making places in it becomes read-only.
pub(super) fn seal(tree: &Tree, scratch: &Scratch) -> Step {
    match scratch {
        Scratch::None => {
            mounts::set_attributes(Layer::Scratch, tree.root(), c"", super::raw::Reach::One, FROZEN)
        }
        Scratch::Directory { .. } | Scratch::Memory { .. } => Ok(()),
    }
}

fn empty() -> Step<Tree> {
    Tree::new(
        Layer::Scratch,
        "tmpfs",
        &[("size", "64k"), ("nr_inodes", "1024"), ("mode", "755")],
        TAME | NOEXEC,
    )
}

fn memory(bytes: u64) -> Step<Tree> {
    let inodes = (bytes / BYTES_PER_INODE).max(64);
    let options = [("size", &*bytes.to_string()), ("nr_inodes", &*inodes.to_string()), ("mode", "700")];
    Tree::new(Layer::Scratch, "tmpfs", &options, TAME)
}
