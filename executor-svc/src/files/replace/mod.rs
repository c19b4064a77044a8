//! Replacing a file as a whole, by compare and swap. Nothing else in the workspace writes the user's files.
//!
//! A write goes through four hands:
//! 1. [`Replacer::open`] finds the place below the session's root, judges it, holds its path against other actions and
//!    reads what is there: a [`Target`].
//! 2. [`Target::prepare`] gives a [`Prepared`] with its [`Intent`]. Nothing on disk has changed. The caller keeps both
//!    contents and makes the intent durable.
//! 3. [`Prepared::perform`] does it: a temporary file in the same directory, written to the disk with all metadata;
//!    the two names are swapped in one step; what was swapped out is looked at, and put back if it is not exactly what
//!    was there in hand 1. So a change that another process makes at any moment is seen, and not lost.
//! 4. After a crash [`Replacer::reconcile`] finishes or undoes what was begun and says what became of it.
//!
//! At every instant the path has the old bytes or the new ones, whole. What a crash may leave besides is the temporary
//! file, which the intent names, and directories that had to be made.

mod creating;
mod current;
mod fault;
mod intent;
mod lock;
mod metadata;
mod perform;
mod place;
mod reconcile;
mod removing;
mod replacing;
mod steps;
mod swap;
mod target;
mod temporary;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

pub use fault::ReplaceFault;
pub use intent::{After, Before, Intent, is_temporary_name};
pub use perform::{How, Outcome, WriterCheck};
pub use reconcile::{Left, Reconciled, Verdict};
pub use steps::{Step, StepWatch};
pub use target::{Prepared, Target};

use self::lock::PathLocks;
use super::session::SessionFiles;

/// What to do where a file system cannot swap two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WithoutExchange {
    /// Check once more and rename over the old file. A change by another process in the instant between is lost, and
    /// the outcome's [`How::Renamed`] says that this was possible (the default).
    #[default]
    Rename,
    /// Refuse.
    Refuse,
}

/// How files are replaced.
#[derive(Debug, Clone, Copy)]
pub struct ReplaceOptions {
    /// The largest file that is changed, before or after, in bytes.
    pub max_bytes: u64,
    /// The permission bits that new files and directories do not get: the user's umask, not the daemon's.
    pub umask: u32,
    /// File systems that cannot swap.
    pub without_exchange: WithoutExchange,
}

impl Default for ReplaceOptions {
    fn default() -> Self {
        Self { max_bytes: 64 * 1024 * 1024, umask: 0o022, without_exchange: WithoutExchange::default() }
    }
}

/// Replaces files. One for the whole executor, for it keeps actions off each other's paths. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Replacer {
    options: ReplaceOptions,
    locks: Arc<PathLocks>,
    watch: Arc<dyn StepWatch>,
}

impl Replacer {
    /// How many bytes a file may have, before and after.
    #[must_use]
    pub const fn max_bytes(&self) -> u64 {
        self.options.max_bytes
    }

    /// A replacer with these options. In debug builds the environment variable `GATEHOUSE_FAIL_AT` names a [`Step`]
    /// before which the process kills itself.
    #[must_use]
    pub fn new(options: ReplaceOptions) -> Self {
        Self::watched(options, steps::default_watch())
    }

    /// A replacer whose steps are watched.
    #[must_use]
    pub fn watched(options: ReplaceOptions, watch: Arc<dyn StepWatch>) -> Self {
        Self { options, locks: Arc::default(), watch }
    }

    /// Finds a file, or the place where it shall be, and holds the path until the target is gone.
    ///
    /// # Errors
    /// Why it may not be written, each cause with its code; [`ReplaceFault::Busy`] if another action holds the path
    /// until then.
    pub fn open(
        &self,
        files: &Arc<SessionFiles>,
        path: &Path,
        until: Instant,
    ) -> Result<Target, ReplaceFault> {
        Target::open(self, files, path, until)
    }

    /// Finds out what became of a write that may have been interrupted at any instant, and removes what it left.
    /// Asking again gives the same answer.
    #[must_use]
    pub fn reconcile(&self, files: &SessionFiles, intent: &Intent) -> Reconciled {
        reconcile::reconcile(self, files, intent)
    }

    /// Removes the temporary file of a write that did not end, unless it holds what another process wrote. The file itself
    /// is not touched.
    ///
    /// # Errors
    /// When its directory is not the session's any more, or the file cannot be removed.
    pub fn clear_left(&self, files: &SessionFiles, intent: &Intent) -> Result<Left, ReplaceFault> {
        reconcile::clear_left(self, files, intent)
    }

    /// Removes those of these directories that are empty, as far as they lie on the way to the file: what
    /// [`Target::prepare_removal`] would have done after the file was gone. Gives them, innermost first.
    #[must_use]
    pub fn remove_empty(&self, files: &SessionFiles, file: &Path, directories: &[PathBuf]) -> Vec<PathBuf> {
        perform::remove_empty(files, file, directories)
    }

    /// Tells who watches that contents and intent are about to be committed.
    ///
    /// # Errors
    /// The error with which that is to fail.
    pub fn before_commit(&self) -> std::io::Result<()> {
        Ok(self.watch.before(Step::KeepContents)?)
    }

    fn before(&self, step: Step, path: &Path) -> Result<(), ReplaceFault> {
        self.watch.before(step).map_err(|errno| ReplaceFault::of(errno, path))
    }
}
