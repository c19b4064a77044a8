//! Recovery tokens: made from a secret, known to the ledger only as a hash, guessed at most ten times a minute.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::ids::SessionId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::clock::Timestamp;

/// How many wrong tokens a session may see within [`WINDOW`].
const TRIES: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// Why a secret file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct SecretError {
    path: PathBuf,
    why: String,
}

/// The secret that recovery tokens are made from: 32 random bytes in a 0600 file.
#[derive(Clone)]
pub struct RecoverySecret([u8; 32]);

impl std::fmt::Debug for RecoverySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecoverySecret(…)")
    }
}

impl RecoverySecret {
    /// Reads the secret, or makes it.
    ///
    /// # Errors
    /// When the file is not ours alone, not whole, or cannot be made.
    pub fn load(state_dir: &Path) -> Result<Self, SecretError> {
        let text = private_file(&state_dir.join("recovery.secret"))?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.trim(), &mut bytes).map_err(|error| SecretError {
            path: state_dir.join("recovery.secret"),
            why: error.to_string(),
        })?;
        Ok(Self(bytes))
    }

    /// The session's token.
    #[must_use]
    pub fn token(&self, session: &SessionId) -> String {
        // HMAC takes keys of any length, so this cannot fail; an unusable token is the safe answer if it ever did.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(session.as_str().as_bytes());
        mac.update(b"|1");
        format!("rt_{}", hex::encode(mac.finalize().into_bytes()))
    }

    /// What the ledger keeps of a token.
    #[must_use]
    pub fn hash(token: &str) -> String {
        sha256_hex(token.as_bytes())
    }
}

/// Whether a token is the one that the hash was taken of, in constant time.
fn token_matches(hash: &str, token: &str) -> bool {
    !token.is_empty() && hash.as_bytes().ct_eq(RecoverySecret::hash(token).as_bytes()).into()
}

/// Makes sure that a file of 64 random hexadecimal digits is there, 0600, and gives its text.
///
/// # Errors
/// When the file is not ours alone, or cannot be made or read.
pub fn private_file(path: &Path) -> Result<String, SecretError> {
    let fault = |why: String| SecretError { path: path.to_owned(), why };
    let io = |error: std::io::Error| fault(error.to_string());
    if let Err(error) = path.symlink_metadata() {
        if error.kind() != std::io::ErrorKind::NotFound {
            return Err(io(error));
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| fault(error.to_string()))?;
        make_whole(path, hex::encode(bytes).as_bytes()).map_err(io)?;
    }
    let mut file = std::fs::File::open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?;
    if found.uid() != nix::unistd::geteuid().as_raw() || found.permissions().mode() & 0o077 != 0 {
        return Err(fault("must belong to this user and be readable by nobody else (chmod 600)".to_owned()));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(io)?;
    if text.trim().len() < 32 {
        return Err(fault("is cut short; move it away to have a new one made".to_owned()));
    }
    Ok(text)
}

/// Puts a new file in place, 0600, whole or not at all: one that a crash cut off would bar every later start.
fn make_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    // A link, not a rename: one that somebody else made meanwhile stays.
    match std::fs::hard_link(&unfinished, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => std::fs::remove_file(&unfinished)?,
    }
    match path.parent() {
        Some(directory) => std::fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// What a guess at a session's token came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// It was the token.
    Right,
    /// It was not, and counts.
    Wrong,
    /// Too many wrong ones came lately; this one was not looked at.
    Locked,
}

/// Wrong tokens, lately, by session.
#[derive(Debug, Default)]
pub struct Tries {
    wrong: Mutex<HashMap<SessionId, Vec<Timestamp>>>,
}

impl Tries {
    /// Judges a token by the hash that the ledger keeps. Looking and counting are one step, so that guesses made at the
    /// same time are no more than guesses made one after the other.
    #[must_use]
    pub fn judge(&self, session: &SessionId, hash: &str, token: &str, now: Timestamp) -> Guess {
        // After the clock was put back, what lies in the future is as good as forgotten.
        let lately = |at: &Timestamp| *at <= now && now.since(*at) < WINDOW;
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.retain(|_, times| {
            times.retain(lately);
            !times.is_empty()
        });
        if wrong.get(session).is_some_and(|times| times.len() >= TRIES) {
            return Guess::Locked;
        }
        if token_matches(hash, token) {
            return Guess::Right;
        }
        wrong.entry(session.clone()).or_default().push(now);
        Guess::Wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_stable_over_restarts_and_differs_between_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (SessionId::mint(), SessionId::mint());
        let first = RecoverySecret::load(dir.path()).unwrap();
        let again = RecoverySecret::load(dir.path()).unwrap();
        assert_eq!(first.token(&a), again.token(&a));
        assert_ne!(first.token(&a), first.token(&b));
        assert!(token_matches(&RecoverySecret::hash(&first.token(&a)), &first.token(&a)));
        assert!(!token_matches(&RecoverySecret::hash(&first.token(&a)), &first.token(&b)));
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recovery.secret");
        RecoverySecret::load(dir.path()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(RecoverySecret::load(dir.path()).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn a_secret_that_a_crash_cut_off_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("recovery.secret.unfinished"), b"0123").unwrap();
        let first = RecoverySecret::load(dir.path()).unwrap();
        let session = SessionId::mint();
        assert_eq!(RecoverySecret::load(dir.path()).unwrap().token(&session), first.token(&session));
        let names: Vec<_> = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["recovery.secret"]);
    }

    #[test]
    fn ten_wrong_tokens_lock_a_session_for_a_minute() {
        let (tries, session) = (Tries::default(), SessionId::mint());
        let at = Timestamp::from_millis(1_000_000);
        let hash = RecoverySecret::hash("right");
        for _ in 0..10 {
            assert_eq!(tries.judge(&session, &hash, "wrong", at), Guess::Wrong);
        }
        assert_eq!(tries.judge(&session, &hash, "right", at), Guess::Locked);
        assert_eq!(tries.judge(&SessionId::mint(), &hash, "right", at), Guess::Right);
        assert_eq!(tries.judge(&session, &hash, "right", at.after(WINDOW)), Guess::Right);
    }

    #[test]
    fn a_clock_that_was_put_back_does_not_lock_a_session_for_longer() {
        let (tries, session) = (Tries::default(), SessionId::mint());
        let hash = RecoverySecret::hash("right");
        let later = Timestamp::from_millis(10_000_000);
        for _ in 0..10 {
            let _ = tries.judge(&session, &hash, "wrong", later);
        }
        assert_eq!(tries.judge(&session, &hash, "right", Timestamp::from_millis(1_000)), Guess::Right);
    }
}
