//! What the front has seen of its clients, kept in a small file: the front has no disk, and this has to outlive both.
//!
//! It is no part of the ledger: nothing is decided by it, and losing it costs a line of `gatehouse doctor`.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gatehouse_proto::v1::{Contact, Moment};
use serde::{Deserialize, Serialize};

/// How many clients are remembered.
const CLIENTS: usize = 8;
/// How long the words of a note may be, in characters.
const WORDS: usize = 80;

/// The latest contact.
#[derive(Debug)]
pub struct ContactBook {
    path: PathBuf,
    known: Mutex<Contact>,
}

/// A [`Moment`] in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    what: String,
    at_ms: u64,
}

/// A [`Contact`] in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct File {
    request: Option<Noted>,
    refusal: Option<Noted>,
    unanswered: Option<Noted>,
    listed: Option<Noted>,
    tools_sha256: String,
    clients: Vec<Noted>,
}

impl ContactBook {
    /// What is known from before; an empty book if the file is missing or cannot be read.
    #[must_use]
    pub fn open(state_dir: &Path) -> Self {
        let path = state_dir.join("contact.json");
        let file: File = std::fs::read(&path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        Self { path, known: Mutex::new(from_file(file)) }
    }

    /// What is known.
    #[must_use]
    pub fn known(&self) -> Contact {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds what a front tells. It blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be written; what is known in memory is right all the same.
    pub fn add(&self, told: Contact) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        merge(&mut known, told);
        write(&self.path, &to_file(&known))
    }
}

/// The later of each. A front that was started anew knows less than the one before.
fn merge(known: &mut Contact, told: Contact) {
    let newer = |known: &mut Option<Moment>, told: Option<Moment>| {
        if told.as_ref().is_some_and(|told| known.as_ref().is_none_or(|known| told.at_ms >= known.at_ms)) {
            *known = told.as_ref().map(bounded);
        }
    };
    newer(&mut known.request, told.request);
    newer(&mut known.refusal, told.refusal);
    newer(&mut known.unanswered, told.unanswered);
    newer(&mut known.listed, told.listed);
    if !told.tools_sha256.is_empty() {
        known.tools_sha256 = cut(&told.tools_sha256);
    }
    for client in told.clients.iter().map(bounded) {
        known.clients.retain(|other| other.what != client.what || other.at_ms > client.at_ms);
        if known.clients.iter().all(|other| other.what != client.what) {
            known.clients.push(client);
        }
    }
    known.clients.sort_by_key(|client| std::cmp::Reverse(client.at_ms));
    known.clients.truncate(CLIENTS);
}

fn bounded(moment: &Moment) -> Moment {
    Moment { what: cut(&moment.what), at_ms: moment.at_ms }
}

fn cut(words: &str) -> String {
    words.chars().filter(|c| !c.is_control()).take(WORDS).collect()
}

fn to_file(known: &Contact) -> File {
    let noted = |moment: &Moment| Noted { what: moment.what.clone(), at_ms: moment.at_ms };
    File {
        request: known.request.as_ref().map(noted),
        refusal: known.refusal.as_ref().map(noted),
        unanswered: known.unanswered.as_ref().map(noted),
        listed: known.listed.as_ref().map(noted),
        tools_sha256: known.tools_sha256.clone(),
        clients: known.clients.iter().map(noted).collect(),
    }
}

fn from_file(file: File) -> Contact {
    let moment = |noted: Noted| Moment { what: noted.what, at_ms: noted.at_ms };
    Contact {
        request: file.request.map(moment),
        refusal: file.refusal.map(moment),
        unanswered: file.unanswered.map(moment),
        listed: file.listed.map(moment),
        tools_sha256: file.tools_sha256,
        clients: file.clients.into_iter().map(moment).collect(),
    }
}

fn write(path: &Path, file: &File) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut out = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    out.write_all(&serde_json::to_vec(file)?)?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(what: &str, at_ms: u64) -> Moment {
        Moment { what: what.to_owned(), at_ms }
    }

    #[test]
    fn the_later_of_each_is_kept_and_outlives_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let book = ContactBook::open(dir.path());
        let first = Contact {
            request: Some(at("tools/list", 5)),
            refusal: Some(at("lease_mismatch", 4)),
            listed: Some(at("ab", 5)),
            tools_sha256: "ab".into(),
            clients: vec![at("one", 1)],
            ..Contact::default()
        };
        book.add(first).unwrap();
        // A front that was started anew has seen nothing of that.
        book.add(Contact { request: Some(at("ping", 7)), ..Contact::default() }).unwrap();
        book.add(Contact { clients: vec![at("two", 3), at("one", 2)], ..Contact::default() }).unwrap();
        let known = ContactBook::open(dir.path()).known();
        assert_eq!(known.request, Some(at("ping", 7)));
        assert_eq!((known.refusal, known.listed), (Some(at("lease_mismatch", 4)), Some(at("ab", 5))));
        assert_eq!(known.clients, [at("two", 3), at("one", 2)]);
    }

    #[test]
    fn names_of_clients_are_bounded_in_length_and_number() {
        let dir = tempfile::tempdir().unwrap();
        let book = ContactBook::open(dir.path());
        let clients = (0..20).map(|n| at(&format!("{n}\u{1b}[31m{}", "x".repeat(500)), n)).collect();
        book.add(Contact { clients, ..Contact::default() }).unwrap();
        let known = book.known().clients;
        assert_eq!(known.len(), CLIENTS);
        assert!(
            known
                .iter()
                .all(|client| client.what.chars().count() == WORDS && !client.what.contains('\u{1b}'))
        );
    }

    #[test]
    fn a_file_that_is_no_contact_is_an_empty_book() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("contact.json"), "{").unwrap();
        assert_eq!(ContactBook::open(dir.path()).known(), Contact::default());
    }
}
