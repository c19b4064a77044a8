//! The bytes of files before and after each write, by their SHA-256, so that every write can be shown and undone.
//!
//! A small content ([`SMALL`]) is a row of the ledger, committed by the very transaction that names it
//! ([`Keeping::record`]). A larger one is a file of its own (0600) in one of 256 folders (0700), named by its hash; it is
//! on the disk, name and all, before that transaction. So the ledger never names what is not there. The same content is
//! kept once. Every read is checked against the name.

mod fault;
mod keeping;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gatehouse_proto::digest::sha256_hex;

pub use fault::ContentFault;
pub use keeping::{Keeping, SMALL, Whole};

use crate::ledger::{LedgerError, Readers, blobs};
use rusqlite::Connection;

/// The store. One for the whole executor; cheap to clone.
#[derive(Debug, Clone)]
pub struct ContentStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    limit: u64,
    /// The ledger, which has the small ones.
    ledger: Option<Readers>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many bytes are kept, as soon as somebody has counted.
    used: Option<u64>,
    /// How many bytes are to be committed to the ledger.
    coming: u64,
    /// How many hold on to a content.
    held: HashMap<String, usize>,
    /// Contents that this process has seen onto the disk, name and all: what a file was before a write is mostly what it was
    /// after the one before. At most [`MOST_DURABLE`].
    durable: HashSet<String>,
}

/// A content that is kept. As long as this lives, pruning leaves it alone: hold it until the ledger names it.
#[derive(Debug)]
pub struct Kept {
    inner: Arc<Inner>,
    sha256: String,
}

/// A content, as [`ContentStore::list`] finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its SHA-256, in lower-case hexadecimal.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// What [`ContentStore::remove`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is gone, and gave back so many bytes.
    Removed(u64),
    /// It was not there.
    Absent,
    /// Somebody is about to name it.
    Held,
}

/// How many contents are remembered as being on the disk.
const MOST_DURABLE: usize = 16 * 1024;

/// The folder in which contents are written before they get their names.
const NEW: &str = "new";

impl ContentStore {
    /// Opens the store in a folder, which is made if it is missing, for at most so many bytes. What an earlier process
    /// had begun to write is removed. Until it is told of a ledger, every content is a file.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(dir: &Path, limit_bytes: u64) -> Result<Self, ContentFault> {
        let new = dir.join(NEW);
        make_private(&new).map_err(|error| ContentFault::io(&new, &error))?;
        for entry in fs::read_dir(&new).map_err(|error| ContentFault::io(&new, &error))?.flatten() {
            fs::remove_file(entry.path()).map_err(|error| ContentFault::io(&entry.path(), &error))?;
        }
        let inner = Inner { dir: dir.to_owned(), limit: limit_bytes, ledger: None, state: Mutex::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The store in a folder as it is, for looking: nothing is made or removed.
    #[must_use]
    pub fn as_it_is(dir: &Path, limit_bytes: u64) -> Self {
        let inner = Inner { dir: dir.to_owned(), limit: limit_bytes, ledger: None, state: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// The same store with small contents in the ledger.
    #[must_use]
    pub fn with_ledger(self, ledger: Readers) -> Self {
        let (dir, limit) = (self.inner.dir.clone(), self.inner.limit);
        Self { inner: Arc::new(Inner { dir, limit, ledger: Some(ledger), state: Mutex::default() }) }
    }

    /// Keeps a content as a file. It blocks on the disk.
    ///
    /// # Errors
    /// As [`Self::put_all`].
    pub fn put(&self, bytes: &[u8]) -> Result<Kept, ContentFault> {
        let kept = self.put_all(&[bytes])?.pop();
        kept.ok_or_else(|| ContentFault::Missing { sha256: sha256_hex(bytes) })
    }

    /// Keeps several contents as files, in the time that one takes. They are on the disk when this returns.
    ///
    /// # Errors
    /// [`ContentFault::Full`] if the configured size would be passed, [`ContentFault::NoSpace`] if the disk is full; then
    /// none of the new ones is kept.
    pub fn put_all(&self, contents: &[&[u8]]) -> Result<Vec<Kept>, ContentFault> {
        let kept: Vec<Kept> = contents.iter().map(|bytes| self.hold(sha256_hex(bytes))).collect();
        let named: Vec<(&str, &[u8])> =
            kept.iter().map(|kept| kept.sha256.as_str()).zip(contents.iter().copied()).collect();
        self.inner.write_missing(named)?;
        Ok(kept)
    }

    fn hold(&self, sha256: String) -> Kept {
        *self.inner.state().held.entry(sha256.clone()).or_default() += 1;
        Kept { inner: Arc::clone(&self.inner), sha256 }
    }

    /// A content, checked.
    ///
    /// # Errors
    /// [`ContentFault::Missing`], or [`ContentFault::Damaged`] if its bytes are not what its name says.
    pub fn get(&self, sha256: &str) -> Result<Vec<u8>, ContentFault> {
        let bytes = match self.inner.small(sha256)? {
            Some(bytes) => bytes,
            None => self.inner.large(sha256)?,
        };
        if sha256_hex(&bytes) == sha256 {
            Ok(bytes)
        } else {
            Err(ContentFault::Damaged { sha256: sha256.to_owned() })
        }
    }

    /// Whether a content is kept; its bytes are not looked at.
    #[must_use]
    pub fn contains(&self, sha256: &str) -> bool {
        let in_ledger = || self.inner.small_size(sha256).is_ok_and(|size| size.is_some());
        self.inner.place(sha256).is_ok_and(|path| path.is_file()) || in_ledger()
    }

    /// Every content, in the order of the hashes.
    ///
    /// # Errors
    /// When a folder or the ledger cannot be read.
    pub fn list(&self) -> Result<Vec<Content>, ContentFault> {
        self.inner.list()
    }

    /// How many bytes are kept.
    ///
    /// # Errors
    /// When a folder or the ledger cannot be read.
    pub fn used_bytes(&self) -> Result<u64, ContentFault> {
        self.inner.used(&mut self.inner.state())
    }

    /// How many bytes may be kept.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.inner.limit
    }

    /// Removes a content, for pruning, in a transaction of the ledger: the caller has made sure that nothing names it. If
    /// the transaction fails, [`Self::recount`] has to be called.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, tx: &Connection, sha256: &str) -> Result<Removal, ContentFault> {
        let path = self.inner.place(sha256)?;
        let mut state = self.inner.state();
        if state.held.contains_key(sha256) {
            return Ok(Removal::Held);
        }
        state.durable.remove(sha256);
        let small = match self.inner.ledger {
            Some(_) => blobs::remove(tx, &key(sha256)?)?,
            None => None,
        };
        let large =
            fs::symlink_metadata(&path).and_then(|found| fs::remove_file(&path).map(|()| found.len()));
        let large = match large {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(ContentFault::io(&path, &error)),
        };
        let gone = small.unwrap_or(0) + large.unwrap_or(0);
        state.used = state.used.map(|used| used.saturating_sub(gone));
        // What is kept twice is one content.
        Ok(small.or(large).map_or(Removal::Absent, Removal::Removed))
    }

    /// Forgets how many bytes are kept: they are counted when it matters.
    pub fn recount(&self) {
        let mut state = self.inner.state();
        state.used = None;
        state.durable.clear();
    }
}

impl Kept {
    /// The content's SHA-256, in lower-case hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        if let Some(count) = state.held.get_mut(&self.sha256) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.sha256);
            }
        }
    }
}

impl Inner {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the content of that hash stands.
    fn place(&self, sha256: &str) -> Result<PathBuf, ContentFault> {
        key(sha256).map(|_| self.dir.join(&sha256[..2]).join(sha256))
    }

    /// The bytes of the file of that hash.
    fn large(&self, sha256: &str) -> Result<Vec<u8>, ContentFault> {
        let path = self.place(sha256)?;
        fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => ContentFault::Missing { sha256: sha256.to_owned() },
            _ => ContentFault::io(&path, &error),
        })
    }

    /// Asks the ledger; nothing if there is none.
    fn ask<T>(
        &self,
        look: impl FnOnce(&Connection) -> Result<Option<T>, LedgerError>,
    ) -> Result<Option<T>, ContentFault> {
        match &self.ledger {
            Some(ledger) => Ok(ledger.glance(look)?),
            None => Ok(None),
        }
    }

    /// The bytes that the ledger has of that hash.
    fn small(&self, sha256: &str) -> Result<Option<Vec<u8>>, ContentFault> {
        let key = key(sha256)?;
        self.ask(|ledger| blobs::load(ledger, &key))
    }

    fn small_size(&self, sha256: &str) -> Result<Option<u64>, ContentFault> {
        let key = key(sha256)?;
        self.ask(|ledger| blobs::size(ledger, &key))
    }

    fn list(&self) -> Result<Vec<Content>, ContentFault> {
        let small = self.ask(|ledger| blobs::list(ledger).map(Some))?.unwrap_or_default();
        let small = small.into_iter().map(|(key, bytes)| Content { sha256: hex::encode(key), bytes });
        let mut found: Vec<Content> = self.files()?;
        found.extend(small);
        found.sort_by(|one, other| one.sha256.cmp(&other.sha256));
        found.dedup_by(|one, other| one.sha256 == other.sha256);
        Ok(found)
    }

    /// The contents that are files.
    fn files(&self) -> Result<Vec<Content>, ContentFault> {
        let mut found = Vec::new();
        let entries = |dir: &Path| fs::read_dir(dir).map_err(|error| ContentFault::io(dir, &error));
        for shard in entries(&self.dir)?.flatten().filter(|shard| shard.file_name().len() == 2) {
            for entry in entries(&shard.path())?.flatten() {
                let sha256 = entry.file_name().to_string_lossy().into_owned();
                // Somebody may remove one while we look.
                if let (Ok(_), Ok(metadata)) = (self.place(&sha256), entry.metadata()) {
                    found.push(Content { sha256, bytes: metadata.len() });
                }
            }
        }
        Ok(found)
    }

    fn used(&self, state: &mut State) -> Result<u64, ContentFault> {
        if let Some(used) = state.used {
            return Ok(used);
        }
        let files: u64 = self.files()?.iter().map(|content| content.bytes).sum();
        let used = files + self.ask(|ledger| blobs::total(ledger).map(Some))?.unwrap_or(0);
        state.used = Some(used);
        Ok(used)
    }
}

/// The ledger's key for a content. Only lower-case digits are a hash.
fn key(sha256: &str) -> Result<blobs::Sha256, ContentFault> {
    let mut key = blobs::Sha256::default();
    let is_plain = !sha256.bytes().any(|byte| byte.is_ascii_uppercase());
    match hex::decode_to_slice(sha256, &mut key) {
        Ok(()) if is_plain => Ok(key),
        _ => Err(ContentFault::NoHash),
    }
}

fn make_private(dir: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes a file or a folder to the disk.
fn sync(path: &Path) -> Result<(), ContentFault> {
    File::open(path).and_then(|opened| opened.sync_all()).map_err(|error| ContentFault::io(path, &error))
}
