//! The steps of a write by name, so that a test can stop the world between any two of them.

use std::fmt::Debug;
use std::sync::Arc;

use rustix::io::Errno;

/// What is about to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The contents were given to the ledger, with the intent, and nothing is committed yet.
    KeepContents,
    /// The intent is durable, and the contents are; nothing on disk has changed.
    Begin,
    /// Directories on the way are made, one by one.
    MakeDirectories,
    /// The temporary file is made.
    MakeTemporary,
    /// The new bytes go into it.
    WriteTemporary,
    /// The second half of them does.
    WriteSecondHalf,
    /// It gets its metadata and is written to the disk.
    SyncTemporary,
    /// The names are swapped, or a new one is given.
    Swap,
    /// What was swapped out is looked at.
    Verify,
    /// The directory is written to the disk.
    SyncDirectory,
    /// What was swapped out is looked at once more, and removed.
    RemoveOld,
    /// It was not what was expected, and is put back.
    PutBack,
    /// All is done but to say so.
    Finish,
}

impl Step {
    /// Every step, in the order of a replacement.
    pub const ALL: [Self; 13] = [
        Self::KeepContents,
        Self::Begin,
        Self::MakeDirectories,
        Self::MakeTemporary,
        Self::WriteTemporary,
        Self::WriteSecondHalf,
        Self::SyncTemporary,
        Self::Swap,
        Self::Verify,
        Self::SyncDirectory,
        Self::RemoveOld,
        Self::PutBack,
        Self::Finish,
    ];

    /// The step's name in `GATEHOUSE_FAIL_AT`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeepContents => "keep_contents",
            Self::Begin => "begin",
            Self::MakeDirectories => "make_directories",
            Self::MakeTemporary => "make_temporary",
            Self::WriteTemporary => "write_temporary",
            Self::WriteSecondHalf => "write_second_half",
            Self::SyncTemporary => "sync_temporary",
            Self::Swap => "swap",
            Self::Verify => "verify",
            Self::PutBack => "put_back",
            Self::RemoveOld => "remove_old",
            Self::SyncDirectory => "sync_directory",
            Self::Finish => "finish",
        }
    }

    /// The step of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == text)
    }
}

/// Is told of every step just before it is taken, and may make it fail with an error of the system's.
pub trait StepWatch: Debug + Send + Sync {
    /// The step is about to be taken.
    ///
    /// # Errors
    /// The error with which it is to fail.
    fn before(&self, step: Step) -> Result<(), Errno>;

    /// Whether the system may be asked who has a file open for writing. A watch that says no shows how it goes on
    /// systems that do not tell.
    fn asks_for_writers(&self) -> bool {
        true
    }
}

/// Lets every step happen.
#[derive(Debug, Clone, Copy)]
struct Unwatched;

impl StepWatch for Unwatched {
    fn before(&self, _: Step) -> Result<(), Errno> {
        Ok(())
    }
}

/// Who watches a replacement when nobody was named: in debug builds the kill point that the environment asks for,
/// otherwise nobody.
pub(super) fn default_watch() -> Arc<dyn StepWatch> {
    #[cfg(debug_assertions)]
    if let Some(kill) = kill_point::KillPoint::from_environment() {
        return Arc::new(kill);
    }
    Arc::new(Unwatched)
}

#[cfg(debug_assertions)]
mod kill_point {
    use std::sync::atomic::{AtomicU64, Ordering};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::{Errno, Step, StepWatch};

    /// Ends the process without a chance to tidy up, as a crash would. `GATEHOUSE_FAIL_AT=swap` does so before the
    /// first swap, `swap:3` before the third.
    #[derive(Debug)]
    pub(super) struct KillPoint {
        step: Step,
        left: AtomicU64,
    }

    impl KillPoint {
        pub(super) fn from_environment() -> Option<Self> {
            Self::parse(&std::env::var("GATEHOUSE_FAIL_AT").ok()?)
        }

        pub(super) fn parse(text: &str) -> Option<Self> {
            let (name, count) = text.split_once(':').unwrap_or((text, "1"));
            let left = count.parse().ok().filter(|count| *count > 0)?;
            Some(Self { step: Step::parse(name)?, left: AtomicU64::new(left) })
        }
    }

    impl StepWatch for KillPoint {
        fn before(&self, step: Step) -> Result<(), Errno> {
            if step == self.step && self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                // Nothing runs after this line unless the signal could not be sent.
                let _ = kill(Pid::this(), Signal::SIGKILL);
            }
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_kill_point_is_a_step_and_perhaps_a_count() {
            assert_eq!(KillPoint::parse("swap").unwrap().step, Step::Swap);
            let third = KillPoint::parse("remove_old:3").unwrap();
            assert_eq!((third.step, third.left.into_inner()), (Step::RemoveOld, 3));
            for wrong in ["", "swap:0", "swap:x", "elsewhere"] {
                assert!(KillPoint::parse(wrong).is_none(), "{wrong}");
            }
            for step in Step::ALL {
                assert_eq!(Step::parse(step.as_str()), Some(step));
            }
        }
    }
}
