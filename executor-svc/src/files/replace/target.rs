//! What a write is about to change, from finding it to being ready.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gatehouse_proto::digest::sha256_hex;

use super::Replacer;
use super::current::Current;
use super::fault::ReplaceFault;
use super::intent::{After, Before, Intent, temporary_name};
use super::lock::PathGuard;
use super::place::Place;
use crate::files::fault::FileFault;
use crate::files::session::SessionFiles;

/// A file that may be changed, or a place where one may be made. No other action works on it while this lives.
#[derive(Debug)]
pub struct Target {
    pub(super) replacer: Replacer,
    pub(super) files: Arc<SessionFiles>,
    pub(super) place: Place,
    pub(super) current: Option<Current>,
    guard: PathGuard,
}

/// A write that is ready. Nothing on disk has changed yet.
#[derive(Debug)]
pub struct Prepared {
    pub(super) replacer: Replacer,
    pub(super) files: Arc<SessionFiles>,
    pub(super) place: Place,
    pub(super) current: Option<Current>,
    pub(super) new_bytes: Arc<Vec<u8>>,
    pub(super) intent: Intent,
    /// Directories that are removed with the file, if they are empty then.
    pub(super) empty_directories: Vec<PathBuf>,
    pub(super) _guard: PathGuard,
}

impl Target {
    pub(super) fn open(
        replacer: &Replacer,
        files: &Arc<SessionFiles>,
        path: &Path,
        until: Instant,
    ) -> Result<Self, ReplaceFault> {
        let mut place = Place::find(files, path)?;
        let guard = replacer
            .locks
            .hold(place.key(), until)
            .ok_or_else(|| ReplaceFault::Busy { path: path.to_owned() })?;
        if guard.waited {
            place = Place::find(files, path)?;
        }
        let current = Current::read(files, &place, replacer.options.max_bytes)?;
        place.judge_directory_writable()?;
        Ok(Self { replacer: replacer.clone(), files: Arc::clone(files), place, current, guard })
    }

    /// The path without dots.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// The bytes that are there; `None` if there is no file.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.current.as_ref().map(|current| current.bytes.as_slice())
    }

    /// The same, to be had for longer.
    #[must_use]
    pub fn shared_bytes(&self) -> Option<Arc<Vec<u8>>> {
        self.current.as_ref().map(|current| Arc::clone(&current.bytes))
    }

    /// Their SHA-256, in lower-case hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        self.current.as_ref().map(|current| current.sha256.as_str())
    }

    /// Makes ready to give the file these bytes, making it and directories on the way where they are missing. `tag`
    /// becomes part of the temporary file's name: the id of the action.
    ///
    /// # Errors
    /// [`ReplaceFault::TooLarge`].
    pub fn prepare(self, new_bytes: Vec<u8>, tag: &str) -> Result<Prepared, ReplaceFault> {
        self.prepare_shared(Arc::new(new_bytes), tag)
    }

    /// The same with bytes that the caller goes on using.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_shared(self, new_bytes: Arc<Vec<u8>>, tag: &str) -> Result<Prepared, ReplaceFault> {
        let (bytes, limit) = (new_bytes.len() as u64, self.replacer.options.max_bytes);
        if bytes > limit {
            return Err(ReplaceFault::TooLarge { path: self.place.path, bytes, limit });
        }
        let after = After::File { sha256: sha256_hex(&new_bytes), bytes };
        self.prepared(after, new_bytes, Vec::new(), tag)
    }

    /// Makes ready to remove the file, to undo its creation, and then those of these directories that are empty.
    ///
    /// # Errors
    /// [`FileFault::NotFound`] if there is no file.
    pub fn prepare_removal(self, directories: &[PathBuf], tag: &str) -> Result<Prepared, ReplaceFault> {
        if self.current.is_none() {
            return Err(FileFault::NotFound { path: self.place.path }.into());
        }
        self.prepared(After::Absent, Arc::default(), directories.to_vec(), tag)
    }

    fn prepared(
        self,
        after: After,
        new_bytes: Arc<Vec<u8>>,
        empty_directories: Vec<PathBuf>,
        tag: &str,
    ) -> Result<Prepared, ReplaceFault> {
        let before = self.current.as_ref().map_or(Before::Absent, |current| Before::File {
            sha256: current.sha256.clone(),
            bytes: current.facts.bytes,
            device: current.facts.dev,
            inode: current.facts.ino,
        });
        let temporary = temporary_name(tag)
            .map_err(|error| FileFault::Io { path: self.place.path.clone(), cause: error.to_string() })?;
        let create_directories = self.place.directories_to_create();
        let path = self.place.path.clone();
        Ok(Prepared {
            replacer: self.replacer,
            files: self.files,
            place: self.place,
            current: self.current,
            new_bytes,
            intent: Intent { path, before, after, temporary, create_directories },
            empty_directories,
            _guard: self.guard,
        })
    }
}

impl Prepared {
    /// What is about to be done: to be made durable before [`Self::perform`].
    #[must_use]
    pub const fn intent(&self) -> &Intent {
        &self.intent
    }
}
