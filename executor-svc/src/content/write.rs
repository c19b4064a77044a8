//! Bringing contents to the disk before anybody names them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use gatehouse_proto::digest::sha256_hex;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::{ContentFault, Inner, NEW, make_private, sync};

/// A content on its way.
struct Coming<'a> {
    bytes: &'a [u8],
    /// Where it is written. Removed when this is dropped, unless it has its name by then.
    temporary: Temporary,
    place: PathBuf,
    /// A damaged one has the name: it gives way.
    replaces: bool,
}

struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Inner {
    /// Writes those that are not there. When it returns, all are on the disk.
    pub(super) fn write_missing(&self, contents: Vec<(&str, &[u8])>) -> Result<(), ContentFault> {
        let contents: BTreeMap<&str, &[u8]> = contents.into_iter().collect();
        let mut coming = Vec::new();
        for (sha256, bytes) in &contents {
            let place = self.place(sha256)?;
            match kept(&place, sha256)? {
                Kept::Whole => {}
                found => {
                    self.state().durable.remove(*sha256);
                    coming.push(self.coming(bytes, place, matches!(found, Kept::Damaged))?);
                }
            }
        }
        let needed = coming.iter().map(|content| content.bytes.len() as u64).sum();
        self.reserve(needed)?;
        let mut named = Vec::new();
        let result = self.bring(&coming, &mut named).and_then(|()| self.make_durable(contents.keys()));
        // A damaged content that gave way was counted before.
        let added: u64 = named.iter().filter(|new| !new.replaces).map(|new| new.bytes.len() as u64).sum();
        self.give_back(needed - added);
        if result.is_err() {
            self.take_back(&named);
        }
        result
    }

    /// Writes contents and folders to the disk, also those that were there: who put them may not have come so far yet.
    /// All at once, after they have their names, so that the disk is waited for once. A loss of power before that can
    /// leave a name with other bytes; no ledger has it, and it is replaced when the same content comes again.
    fn make_durable<'a>(&self, names: impl Iterator<Item = &'a &'a str>) -> Result<(), ContentFault> {
        let mut paths = Vec::new();
        let waiting: Vec<&str> = {
            let state = self.state();
            names.copied().filter(|sha256| !state.durable.contains(*sha256)).collect()
        };
        for sha256 in &waiting {
            let place = self.place(sha256)?;
            let shard = place.parent().map(Path::to_owned);
            // Names come in order, so equal folders follow each other.
            paths.extend(shard.filter(|shard| !paths.contains(shard)));
            paths.push(place);
        }
        side_by_side(&paths, |path| sync(path))?;
        self.state().remember(waiting.into_iter().map(str::to_owned));
        Ok(())
    }

    /// After a failed write to the disk the system may show bytes that are not there: what is new goes again.
    fn take_back(&self, named: &[&Coming<'_>]) {
        for content in named {
            let _ = fs::remove_file(&content.place);
        }
        let mut state = self.state();
        state.used = None;
        state.durable.clear();
    }

    fn coming<'a>(
        &self,
        bytes: &'a [u8],
        place: PathBuf,
        replaces: bool,
    ) -> Result<Coming<'a>, ContentFault> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce)
            .map_err(|error| ContentFault::Io { path: place.clone(), cause: error.to_string() })?;
        let temporary = Temporary(self.dir.join(NEW).join(hex::encode(nonce)));
        Ok(Coming { bytes, temporary, place, replaces })
    }

    fn reserve(&self, needed: u64) -> Result<(), ContentFault> {
        let mut state = self.state();
        let used = self.used(&mut state)?;
        let taken = used + state.coming;
        if needed > 0 && taken.saturating_add(needed) > self.limit {
            return Err(ContentFault::Full { limit: self.limit, used: taken, needed });
        }
        state.used = Some(used + needed);
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        let mut state = self.state();
        state.used = state.used.map(|used| used.saturating_sub(bytes));
    }

    /// Writes contents and gives them their names; `named` has those that got theirs here.
    fn bring<'a>(
        &self,
        coming: &'a [Coming<'a>],
        named: &mut Vec<&'a Coming<'a>>,
    ) -> Result<(), ContentFault> {
        for content in coming {
            let path = &content.temporary.0;
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(|error| ContentFault::io(path, &error))?;
            file.write_all(content.bytes).map_err(|error| ContentFault::io(path, &error))?;
            self.make_shard(&content.place)?;
            if name(content)? {
                named.push(content);
            }
        }
        Ok(())
    }

    fn make_shard(&self, place: &Path) -> Result<(), ContentFault> {
        let Some(shard) = place.parent().filter(|shard| !shard.is_dir()) else { return Ok(()) };
        make_private(shard).map_err(|error| ContentFault::io(shard, &error))?;
        sync(&self.dir)
    }
}

/// What stands under a content's name.
enum Kept {
    Nothing,
    Whole,
    Damaged,
}

fn kept(place: &Path, sha256: &str) -> Result<Kept, ContentFault> {
    match fs::read(place) {
        Ok(bytes) if sha256_hex(&bytes) == sha256 => Ok(Kept::Whole),
        Ok(_) => Ok(Kept::Damaged),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Kept::Nothing),
        Err(error) => Err(ContentFault::io(place, &error)),
    }
}

/// Gives a content its name; false if somebody else did so first, with the same content.
fn name(content: &Coming<'_>) -> Result<bool, ContentFault> {
    let (from, to) = (&content.temporary.0, &content.place);
    let flags = if content.replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    let named = match rustix::fs::renameat_with(CWD, from, CWD, to, flags) {
        Err(Errno::EXIST) => return Ok(false),
        // A file system that cannot: at worst the same content is counted twice until the next start.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(from, to),
        result => result.map_err(std::io::Error::from),
    };
    named.map(|()| true).map_err(|error| ContentFault::io(to, &error))
}

/// Does the same to all of them at the same time: a disk makes several waiting writes durable in one go.
fn side_by_side<T: Sync>(
    all: &[T],
    act: impl Fn(&T) -> Result<(), ContentFault> + Sync,
) -> Result<(), ContentFault> {
    // A thread costs more than the disk saves on a file and its folder.
    if all.len() <= 2 {
        return all.iter().try_for_each(act);
    }
    let Some((last, others)) = all.split_last() else { return Ok(()) };
    std::thread::scope(|threads| {
        let mut results = Vec::new();
        let mut started = Vec::new();
        for one in others {
            match std::thread::Builder::new().spawn_scoped(threads, || act(one)) {
                Ok(thread) => started.push(thread),
                // No more threads: then one after the other.
                Err(_) => results.push(act(one)),
            }
        }
        results.push(act(last));
        let ended = || ContentFault::Io { path: PathBuf::new(), cause: "a thread ended early".to_owned() };
        results.extend(started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(ended()))));
        results.into_iter().collect()
    })
}
