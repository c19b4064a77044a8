//! The file that is there.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::fault::ReplaceFault;
use super::place::Place;
use crate::files::fault::FileFault;
use crate::files::session::SessionFiles;
use crate::files::sys::{self, Facts};
use rustix::fs::FileType;
use rustix::io::Errno;

/// The regular file that stands in a place, open for reading.
#[derive(Debug)]
pub(super) struct Current {
    pub file: File,
    pub facts: Facts,
    pub sha256: String,
    pub bytes: Arc<Vec<u8>>,
}

impl Current {
    /// Opens what stands in the place, judges whether it may be written, and reads it; `None` if nothing stands there.
    pub(super) fn read(
        files: &SessionFiles,
        place: &Place,
        max_bytes: u64,
    ) -> Result<Option<Self>, ReplaceFault> {
        let Some((file, facts)) = open(files, place)? else { return Ok(None) };
        let mut current = Self { file, facts, sha256: String::new(), bytes: Arc::default() };
        let bytes = match current.read_whole(place, max_bytes) {
            Err(ReplaceFault::File(FileFault::Changed { .. })) => {
                current.facts =
                    sys::stat(&current.file).map_err(|errno| ReplaceFault::of(errno, &place.path))?;
                current.read_whole(place, max_bytes)?
            }
            result => result?,
        };
        current.sha256 = gatehouse_proto::digest::sha256_hex(&bytes);
        current.bytes = Arc::new(bytes);
        Ok(Some(current))
    }

    fn read_whole(&self, place: &Place, limit: u64) -> Result<Vec<u8>, ReplaceFault> {
        let path = || place.path.clone();
        if self.facts.bytes > limit {
            return Err(ReplaceFault::TooLarge { path: path(), bytes: self.facts.bytes, limit });
        }
        let size = usize::try_from(self.facts.bytes).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(size.saturating_add(1));
        // One byte more than it has: a file that grows is seen, and one that grows without end does not fill memory.
        let mut reader = ReadFromStart { file: &self.file, at: 0 }.take(self.facts.bytes + 1);
        reader.read_to_end(&mut bytes).map_err(|error| ReplaceFault::of_io(&error, &place.path))?;
        if bytes.len() as u64 == self.facts.bytes && self.is_untouched() {
            Ok(bytes)
        } else {
            Err(FileFault::Changed { path: path() }.into())
        }
    }

    /// Whether neither bytes nor metadata were changed since it was opened, as far as its inode tells.
    pub(super) fn is_untouched(&self) -> bool {
        sys::stat(&self.file).is_ok_and(|now| now == self.facts)
    }

    /// Whether what belongs to it besides its times is the same in these facts.
    pub(super) fn is_alike(&self, now: &Facts) -> bool {
        let essence = |facts: &Facts| {
            (facts.identity(), facts.is_file(), facts.links, facts.bytes, facts.mode, facts.uid, facts.gid)
        };
        essence(now) == essence(&self.facts)
    }

    /// Whether the bytes are still those that were read.
    pub(super) fn has_same_bytes(&self) -> bool {
        has_bytes(&self.file, &self.bytes)
    }
}

/// Reads a file from its start without moving the position that all holders of the descriptor have in common.
struct ReadFromStart<'a> {
    file: &'a File,
    at: u64,
}

impl std::io::Read for ReadFromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let got = self.file.read_at(buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

const BLOCK: usize = 256 * 1024;

/// Whether a file has exactly these bytes.
pub(super) fn has_bytes(file: &File, expected: &[u8]) -> bool {
    // One byte more than it should have: what was appended is seen.
    let mut block = vec![0; BLOCK.min(expected.len().saturating_add(1))];
    let (mut reader, mut rest) = (ReadFromStart { file, at: 0 }, expected);
    loop {
        match reader.read(&mut block) {
            Ok(0) => return rest.is_empty(),
            Ok(got) => match rest.strip_prefix(&block[..got]) {
                Some(after) => rest = after,
                None => return false,
            },
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// SHA-256 of a file's bytes, from the start.
pub(super) fn hash(file: &File) -> std::io::Result<String> {
    let mut reader = ReadFromStart { file, at: 0 };
    let size = file.metadata()?.len();
    let mut block = vec![0; usize::try_from(size).map_or(BLOCK, |size| BLOCK.min(size.saturating_add(1)))];
    let mut hasher = Sha256::new();
    loop {
        match reader.read(&mut block) {
            Ok(0) => return Ok(hex::encode(hasher.finalize())),
            Ok(got) => hasher.update(&block[..got]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Opens the regular file in a place, after it was judged as an object.
fn open(files: &SessionFiles, place: &Place) -> Result<Option<(File, Facts)>, ReplaceFault> {
    let path = &place.path;
    match place.facts_of(&place.name)? {
        None => return Ok(None),
        Some(facts) if facts.kind == FileType::Symlink => {
            return Err(files.explain(Errno::LOOP, path).into());
        }
        // Not opened on any system; the refusal of a protected place comes first all the same.
        Some(facts) if !facts.is_file() => return Err(wrong_kind(path, &facts)),
        Some(_) => {}
    }
    let handle = match sys::find_child(&place.directory, &place.name) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno @ Errno::LOOP) => return Err(files.explain(errno, path).into()),
        Err(errno) => return Err(ReplaceFault::of(errno, path)),
    };
    let mounts = sys::mounts().map_err(|error| ReplaceFault::of_io(&error, path))?;
    let found = files.judge_found(handle, path, mounts)?;
    if !found.facts.is_file() {
        return Err(wrong_kind(path, &found.facts));
    }
    if found.facts.links > 1 {
        return Err(ReplaceFault::HardLink { path: path.clone(), links: found.facts.links });
    }
    judge_writable(place, &found.handle, &found.facts)?;
    let fd = sys::reopen(&found.handle).map_err(|errno| ReplaceFault::of(errno, path))?;
    Ok(Some((fd.into(), found.facts)))
}

fn wrong_kind(path: &std::path::Path, facts: &Facts) -> ReplaceFault {
    FileFault::WrongKind { path: path.to_owned(), found: facts.kind_name(), wanted: "a regular file" }.into()
}

/// A file that cannot be written is not replaced either. For the superuser, whom no permission stops, the bits and
/// marks of the file decide.
fn judge_writable(place: &Place, handle: &sys::Handle, facts: &Facts) -> Result<(), ReplaceFault> {
    if facts.locked {
        return Err(place.read_only("is marked as immutable or append-only"));
    }
    if facts.mode & 0o222 == 0 {
        return Err(place.read_only("is write-protected: nobody has permission to write it"));
    }
    sys::may_write(&place.directory, Some((&place.name, handle))).map_err(|errno| match errno {
        Errno::ACCESS | Errno::PERM => place.read_only("cannot be written by Gatehouse's user"),
        other => ReplaceFault::of(other, &place.path),
    })
}
