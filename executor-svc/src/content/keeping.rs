//! Keeping contents for a transaction of the ledger that is about to name them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use rusqlite::Connection;

use super::{ContentFault, ContentStore, Inner, Kept, MOST_DURABLE, State, key};
use crate::ledger::{LedgerError, blobs};

/// Up to so many bytes a content is kept in the ledger: its commit has to reach the disk anyway, and a file of its own
/// costs two more waits for the disk. Beyond it, copying the bytes twice (into the log, and from there into the database)
/// costs more than that.
pub const SMALL: usize = 64 * 1024;

/// A content that is to be kept, with the hash that the caller has of it.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    /// SHA-256 of the bytes, in lower-case hexadecimal.
    pub sha256: &'a str,
    /// The bytes.
    pub bytes: &'a Arc<Vec<u8>>,
}

/// Contents that are kept as soon as the transaction is committed in which [`Self::record`] was called. As long as this
/// lives, pruning leaves them alone.
#[derive(Debug)]
pub struct Keeping {
    inner: Arc<Inner>,
    held: Vec<Kept>,
    small: Vec<Small>,
    /// How many bytes more the ledger was thought to take.
    reserved: u64,
    /// How many it took.
    added: AtomicI64,
    is_committed: AtomicBool,
}

/// A content for the ledger.
#[derive(Debug)]
struct Small {
    key: blobs::Sha256,
    sha256: String,
    bytes: Arc<Vec<u8>>,
}

impl ContentStore {
    /// Keeps contents that the next transaction of the ledger names. Large ones are on the disk when this returns; small
    /// ones are committed by that transaction itself.
    ///
    /// # Errors
    /// As [`Self::put_all`].
    pub fn keep(&self, contents: &[Whole<'_>]) -> Result<Keeping, ContentFault> {
        let held = contents.iter().map(|content| self.hold(content.sha256.to_owned())).collect();
        let is_small = |content: &&Whole<'_>| self.inner.ledger.is_some() && content.bytes.len() <= SMALL;
        let large = contents.iter().filter(|content| !is_small(content));
        let large: Vec<_> = large.map(|content| (content.sha256, content.bytes.as_slice())).collect();
        if !large.is_empty() {
            self.inner.write_missing(large)?;
        }
        let small = contents.iter().filter(is_small);
        let small: BTreeMap<&str, &Arc<Vec<u8>>> =
            small.map(|content| (content.sha256, content.bytes)).collect();
        let small = small.into_iter().map(|(sha256, bytes)| {
            Ok(Small { key: key(sha256)?, sha256: sha256.to_owned(), bytes: Arc::clone(bytes) })
        });
        let small = small.collect::<Result<Vec<_>, ContentFault>>()?;
        let reserved = self.inner.reserve_small(&small)?;
        Ok(Keeping {
            inner: Arc::clone(&self.inner),
            held,
            small,
            reserved,
            added: AtomicI64::new(0),
            is_committed: AtomicBool::new(false),
        })
    }
}

impl Keeping {
    /// Nothing at all.
    #[must_use]
    pub fn nothing(store: &ContentStore) -> Self {
        Self {
            inner: Arc::clone(&store.inner),
            held: Vec::new(),
            small: Vec::new(),
            reserved: 0,
            added: AtomicI64::new(0),
            is_committed: AtomicBool::new(false),
        }
    }

    /// How many contents are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Gives the small ones to the ledger: to be called in the transaction that names them.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn record(&self, tx: &Connection) -> Result<(), LedgerError> {
        let mut added = 0;
        for content in &self.small {
            added += blobs::keep(tx, &content.key, &content.bytes)?;
        }
        self.added.store(added, Ordering::Release);
        Ok(())
    }

    /// That transaction is committed.
    pub fn committed(&self) {
        if self.is_committed.swap(true, Ordering::AcqRel) {
            return;
        }
        let added = self.added.load(Ordering::Acquire);
        let mut state = self.inner.state();
        state.coming = state.coming.saturating_sub(self.reserved);
        state.used = state.used.map(|used| used.saturating_add_signed(added));
        state.remember(self.small.iter().map(|content| content.sha256.clone()));
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if !*self.is_committed.get_mut() {
            let mut state = self.inner.state();
            state.coming = state.coming.saturating_sub(self.reserved);
        }
    }
}

impl State {
    /// Notes that contents are on the disk.
    pub(super) fn remember(&mut self, contents: impl ExactSizeIterator<Item = String>) {
        if self.durable.len() + contents.len() > MOST_DURABLE {
            self.durable.clear();
        }
        self.durable.extend(contents);
    }
}

impl Inner {
    /// Sets bytes aside for those of the contents that the ledger does not have yet.
    fn reserve_small(&self, contents: &[Small]) -> Result<u64, ContentFault> {
        let size = |content: &Small| content.bytes.len() as u64;
        let needed = {
            let mut state = self.state();
            let used = self.used(&mut state)?;
            let new = contents.iter().filter(|content| !state.durable.contains(&content.sha256));
            let needed = new.map(size).sum();
            if self.has_room(&mut state, used, needed) {
                return Ok(needed);
            }
            needed
        };
        // Only now it matters which of them another process, or this one long ago, has given to the ledger.
        let mut missing = 0;
        for content in contents {
            if self.small_size(&content.sha256)?.is_none() {
                missing += size(content);
            }
        }
        let mut state = self.state();
        let used = self.used(&mut state)?;
        if self.has_room(&mut state, used, missing) {
            return Ok(missing);
        }
        Err(ContentFault::Full { limit: self.limit, used: used + state.coming, needed: missing.min(needed) })
    }

    fn has_room(&self, state: &mut State, used: u64, needed: u64) -> bool {
        let fits = needed == 0 || used.saturating_add(state.coming).saturating_add(needed) <= self.limit;
        if fits {
            state.coming += needed;
        }
        fits
    }
}
