//! The one secret that is another's: the credential of the subagents' provider.
//!
//! It lies in a file that is the user's alone, and is read when a request is made. Here it can be looked at in one place
//! only ([`Credential::reveal`]); it is in no message, log, ledger or argument, and its memory is wiped.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc;
use zeroize::Zeroizing;

/// The largest credential file, in bytes.
const MAX_BYTES: u64 = 4096;
/// The shortest credential: anything less was cut off.
const MIN_BYTES: usize = 8;

/// Why the credential cannot be used. Names neither the file nor anything of its content.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// It cannot be opened or read.
    #[error("the credential file cannot be read: {}", .0.kind())]
    Io(#[from] std::io::Error),
    /// A directory, a device, a link, or anything else that holds no bytes of its own.
    #[error("the credential file is no regular file")]
    NotAFile,
    /// Somebody else could have read or written it.
    #[error("the credential file must belong to this user and be readable by nobody else (chmod 600)")]
    NotPrivate,
    /// Empty, or much too large.
    #[error(
        "the credential file must hold one credential of {MIN_BYTES} to {MAX_BYTES} bytes and nothing else"
    )]
    Size,
    /// Not one line of printable ASCII.
    #[error("the credential must be one line of printable ASCII without spaces")]
    Form,
}

/// The credential. It is wiped when it is dropped, and never shown.
pub struct Credential(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(…)")
    }
}

impl Credential {
    /// Reads it. What is judged is the opened file, not its name. It may block.
    ///
    /// # Errors
    /// When the file is not the user's alone, or does not hold one credential.
    pub fn read(path: &Path) -> Result<Self, CredentialError> {
        // A FIFO must not block, and a link must not lead elsewhere.
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path);
        let file = match opened {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(CredentialError::NotAFile),
            opened => opened?,
        };
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(CredentialError::NotAFile);
        }
        if found.uid() != nix::unistd::geteuid().as_raw() || found.mode() & 0o077 != 0 {
            return Err(CredentialError::NotPrivate);
        }
        if found.len() == 0 || found.len() > MAX_BYTES {
            return Err(CredentialError::Size);
        }
        // Room for all of it from the beginning: a buffer that grows leaves copies behind.
        let room = usize::try_from(MAX_BYTES).unwrap_or(0) + 1;
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Result<Self, CredentialError> {
        let text = bytes.trim_ascii();
        if !(MIN_BYTES..=usize::try_from(MAX_BYTES).unwrap_or(0)).contains(&text.len()) {
            return Err(CredentialError::Size);
        }
        if !text.iter().all(u8::is_ascii_graphic) {
            return Err(CredentialError::Form);
        }
        Ok(Self(Zeroizing::new(text.to_vec())))
    }

    /// The credential itself: for the header of the one request that it is read for.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// Takes it, and whatever looks like a part of it, out of a text that a stranger wrote.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let own = String::from_utf8_lossy(&self.0);
        let is_part = |word: &str| {
            let looks_like_one = word.contains("sk-") || word.contains("***");
            looks_like_one || parts(&own).any(|part| word.contains(part))
        };
        let cleaned: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let words = cleaned.split(' ').map(|word| if is_part(word) { "<redacted>" } else { word });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Every part of it that is long enough to say something.
fn parts(own: &str) -> impl Iterator<Item = &str> {
    let last = own.len().saturating_sub(MIN_BYTES);
    (0..=last).filter_map(|at| own.get(at..at + MIN_BYTES))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn a_private_file_with_one_line_is_read_without_the_line_end() {
        for mode in [0o600, 0o400] {
            let (_dir, path) = file(b"sk-0123456789abcdef\n", mode);
            assert_eq!(Credential::read(&path).unwrap().reveal(), b"sk-0123456789abcdef");
        }
    }

    #[test]
    fn a_file_that_others_can_read_or_write_is_refused() {
        for mode in [0o640, 0o604, 0o620, 0o601] {
            let (_dir, path) = file(b"sk-0123456789abcdef", mode);
            assert!(matches!(Credential::read(&path), Err(CredentialError::NotPrivate)), "{mode:o}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let (dir, path) = file(b"sk-0123456789abcdef", 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        for odd in [&link, &fifo, &dir.path().to_owned()] {
            let found = Credential::read(odd);
            assert!(matches!(found, Err(CredentialError::NotAFile)), "{odd:?}: {found:?}");
        }
        assert!(matches!(Credential::read(&dir.path().join("none")), Err(CredentialError::Io(_))));
    }

    #[test]
    fn what_is_not_one_credential_is_refused() {
        for (content, size) in [
            (&b""[..], true),
            (b"\n\n", true),
            (b"short", true),
            (b"two words-0123", false),
            (b"0123456789\x80", false),
        ] {
            let (_dir, path) = file(content, 0o600);
            let found = Credential::read(&path);
            let as_expected = if size {
                matches!(found, Err(CredentialError::Size))
            } else {
                matches!(found, Err(CredentialError::Form))
            };
            assert!(as_expected, "{content:?}: {found:?}");
        }
        let (_dir, path) = file(&vec![b'x'; 4097], 0o600);
        assert!(matches!(Credential::read(&path), Err(CredentialError::Size)));
    }

    #[test]
    fn it_shows_in_no_debug_output() {
        let credential = Credential::of(b"sk-0123456789abcdef").unwrap();
        assert_eq!(format!("{credential:?}"), "Credential(…)");
    }

    proptest! {
        #[test]
        fn no_text_keeps_eight_characters_of_it(before in ".{0,20}", after in ".{0,20}", from in 0..12usize) {
            let own = "0123456789abcdefghij";
            let credential = Credential::of(own.as_bytes()).unwrap();
            let text = format!("{before}{}{after}", &own[from..from + 8]);
            let redacted = credential.redact(&text);
            prop_assert!(parts(own).all(|part| !redacted.contains(part)), "{redacted}");
        }
    }

    #[test]
    fn words_of_an_error_stay_and_what_looks_like_a_key_goes() {
        let credential = Credential::of(b"abcdefghijklmnop").unwrap();
        let text = "Authentication Fails, Your api key: ****mnop is invalid\nsee sk-other";
        assert_eq!(
            credential.redact(text),
            "Authentication Fails, Your api key: <redacted> is invalid see <redacted>"
        );
    }
}
