//! After a crash: what became of a write, and removing what it left.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Replacer;
use super::current::hash;
use super::fault::ReplaceFault;
use super::intent::{After, Before, Intent};
use super::lock::PathGuard;
use super::place::Place;
use super::swap::{self, writers};
use super::temporary::as_name;
use crate::files::session::SessionFiles;
use crate::files::sys;

/// What reconciling found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// What became of the write.
    pub verdict: Verdict,
    /// Those of the intent's directories to create that exist now, outermost first.
    pub directories: Vec<PathBuf>,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The file is what it was before.
    NotApplied,
    /// The file is what it should become.
    Applied,
    /// It is neither, or nobody can tell.
    Uncertain {
        /// What is known, in a sentence.
        why: String,
    },
}

/// The temporary file of an interrupted write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// There is none any more.
    Nothing,
    /// It holds what another process wrote, and is left alone.
    Foreign,
}

/// Nobody else works on the path when the executor starts; at other times not for long.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn reconcile(replacer: &Replacer, files: &SessionFiles, intent: &Intent) -> Reconciled {
    let verdict = settle(replacer, files, intent).unwrap_or_else(|fault| Verdict::Uncertain {
        why: match fault {
            ReplaceFault::Uncertain { why, .. } => why,
            other => other.to_string(),
        },
    });
    let exists = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    Reconciled { verdict, directories: intent.create_directories.iter().filter(exists).cloned().collect() }
}

fn settle(replacer: &Replacer, files: &SessionFiles, intent: &Intent) -> Result<Verdict, ReplaceFault> {
    let (place, temporary, _guard) = hold(replacer, files, intent)?;
    if place.missing.is_empty() {
        Remains { replacer, place: &place, intent, temporary }.clear()?;
    }
    Ok(verdict(&Seen::look(&place, &place.name)?, intent))
}

/// Removes a temporary file that holds nothing of anybody else, and puts nothing back.
pub(super) fn clear_left(
    replacer: &Replacer,
    files: &SessionFiles,
    intent: &Intent,
) -> Result<Left, ReplaceFault> {
    let (place, temporary, _guard) = hold(replacer, files, intent)?;
    if !place.missing.is_empty() {
        return Ok(Left::Nothing);
    }
    Remains { replacer, place: &place, intent, temporary }.clear_ours()
}

/// The write's place, held against other actions, and the name of its temporary file.
fn hold(
    replacer: &Replacer,
    files: &SessionFiles,
    intent: &Intent,
) -> Result<(Place, CString, PathGuard), ReplaceFault> {
    let uncertain = |why: &str| ReplaceFault::Uncertain { path: intent.path.clone(), why: why.to_owned() };
    let temporary =
        as_name(&intent.temporary).ok_or_else(|| uncertain("the name of its temporary file is not one"))?;
    let key = Place::find(files, &intent.path)?.key();
    let guard = replacer
        .locks
        .hold(key, Instant::now() + PATIENCE)
        .ok_or_else(|| ReplaceFault::Busy { path: intent.path.clone() })?;
    Ok((Place::find(files, &intent.path)?, temporary, guard))
}

/// The rule: equal to before is not applied, equal to after is applied, anything else is uncertain.
fn verdict(seen: &Seen, intent: &Intent) -> Verdict {
    match seen {
        Seen::Nothing if intent.before == Before::Absent => Verdict::NotApplied,
        Seen::Nothing if intent.after == After::Absent => Verdict::Applied,
        Seen::File { sha256, .. } if intent.after.sha256() == Some(sha256) => Verdict::Applied,
        Seen::File { sha256, .. } if intent.before.sha256() == Some(sha256) => Verdict::NotApplied,
        Seen::Nothing => Verdict::Uncertain { why: "the file is gone".to_owned() },
        Seen::File { sha256, .. } => Verdict::Uncertain {
            why: format!(
                "the file is neither what it was nor what it should become: its SHA-256 is {sha256}"
            ),
        },
        Seen::Other(kind) => Verdict::Uncertain { why: format!("it is {kind} now") },
    }
}

/// What stands under a name.
#[derive(Debug)]
enum Seen {
    Nothing,
    File { identity: (u64, u64), sha256: String, file: File },
    Other(&'static str),
}

impl Seen {
    fn look(place: &Place, name: &CStr) -> Result<Self, ReplaceFault> {
        let fault = |errno| ReplaceFault::of(errno, &place.path);
        // Directories that do not exist hold nothing.
        if !place.missing.is_empty() {
            return Ok(Self::Nothing);
        }
        match place.facts_of(name)? {
            None => return Ok(Self::Nothing),
            Some(facts) if !facts.is_file() => return Ok(Self::Other(facts.kind_name())),
            Some(_) => {}
        }
        let handle = sys::find_child(&place.directory, name).map_err(fault)?;
        let facts = sys::stat(&handle.0).map_err(fault)?;
        if !facts.is_file() {
            return Ok(Self::Other(facts.kind_name()));
        }
        let file = File::from(sys::reopen(&handle).map_err(fault)?);
        let sha256 = hash(&file).map_err(|error| ReplaceFault::of_io(&error, &place.path))?;
        Ok(Self::File { identity: facts.identity(), sha256, file })
    }

    fn sha256(&self) -> Option<&str> {
        match self {
            Self::File { sha256, .. } => Some(sha256),
            Self::Nothing | Self::Other(_) => None,
        }
    }

    const fn identity(&self) -> Option<(u64, u64)> {
        match self {
            Self::File { identity, .. } => Some(*identity),
            Self::Nothing | Self::Other(_) => None,
        }
    }
}

/// The temporary file of a write that did not end.
struct Remains<'a> {
    replacer: &'a Replacer,
    place: &'a Place,
    intent: &'a Intent,
    temporary: CString,
}

impl Remains<'_> {
    /// Finishes what the write would have done next: removing its temporary file, or putting back what it had swapped
    /// out of the name and what was not what it expected.
    fn clear(&self) -> Result<(), ReplaceFault> {
        let left = Seen::look(self.place, &self.temporary)?;
        if matches!(left, Seen::Nothing) {
            return Ok(());
        }
        let there = Seen::look(self.place, &self.place.name)?;
        match self.origin(&left, &there) {
            Origin::Ours | Origin::OldAsExpected => self.remove(),
            Origin::OldAndChanged => match there.identity() {
                Some(ours) => {
                    swap::put_back(self.place, &self.temporary, ours, || is_untouched(self.replacer, &there))
                }
                None => swap::put_back_removed(self.place, &self.temporary),
            },
            Origin::Foreign => Err(ReplaceFault::Uncertain {
                path: self.place.path.clone(),
                why: format!(
                    "another process changed it during the write; what that process wrote may be the file {} beside it",
                    self.intent.temporary
                ),
            }),
        }
    }

    fn clear_ours(&self) -> Result<Left, ReplaceFault> {
        let left = Seen::look(self.place, &self.temporary)?;
        if matches!(left, Seen::Nothing) {
            return Ok(Left::Nothing);
        }
        let there = Seen::look(self.place, &self.place.name)?;
        match self.origin(&left, &there) {
            Origin::Ours | Origin::OldAsExpected => self.remove().map(|()| Left::Nothing),
            Origin::OldAndChanged | Origin::Foreign => Ok(Left::Foreign),
        }
    }

    fn remove(&self) -> Result<(), ReplaceFault> {
        swap::remove(self.place, &self.temporary)
            .map_err(|errno| ReplaceFault::of(errno, &self.place.path))?;
        self.place.sync()
    }

    fn origin(&self, left: &Seen, there: &Seen) -> Origin {
        let (before, after) = (self.intent.before.sha256(), self.intent.after.sha256());
        let Seen::File { file, .. } = left else { return Origin::Foreign };
        let is_old = left.identity() == self.intent.before.identity();
        let is_known = left.sha256() == before || (after.is_some() && left.sha256() == after);
        // Swapped already, or taken out of its name: what is left was the file.
        let is_done = match self.intent.after {
            After::Absent => true,
            After::File { .. } => {
                there.sha256() == after && there.identity() != self.intent.before.identity()
            }
        };
        match (is_old, is_known, is_done) {
            (true, true, _) if !writers(self.replacer, file).disturbed() => Origin::OldAsExpected,
            (true, _, true) => Origin::OldAndChanged,
            (true, _, false) => Origin::Foreign,
            (false, true, _) | (false, false, false) => Origin::Ours,
            (false, false, true) => Origin::Foreign,
        }
    }
}

/// Whether nobody writes, or has written since, to a file that was looked at.
fn is_untouched(replacer: &Replacer, seen: &Seen) -> bool {
    match seen {
        Seen::File { file, sha256, .. } => {
            !writers(replacer, file).disturbed() && hash(file).is_ok_and(|now| now == *sha256)
        }
        Seen::Nothing | Seen::Other(_) => false,
    }
}

/// What a temporary file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The new file, perhaps half written: the names were not swapped.
    Ours,
    /// The old file, with the bytes that were expected.
    OldAsExpected,
    /// The old file, and another process wrote to it before the swap.
    OldAndChanged,
    /// Bytes of another process.
    Foreign,
}
