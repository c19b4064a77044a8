//! What is hidden from a session's commands: looked for on the disk, and remembered for a little.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gatehouse_sandbox::policy::{ProtectedPaths, Survey, SurveyBounds};

/// For how long a survey holds. What comes to lie below the root in between is seen by commands for that long.
const HOLDS: Duration = Duration::from_secs(20);
/// A walk that took a while holds for so many times its own length, so that walks never take most of the time.
const HOLDS_TIMES: u32 = 20;
/// How many roots are remembered.
const MOST_ROOTS: usize = 64;

/// What of a session's root is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenCount {
    /// How many protected paths below the root are hidden.
    pub below_root: usize,
    /// The look at the root was cut short: there may be protected files that the command could read.
    pub cut: bool,
}

#[derive(Debug, Default)]
pub(super) struct Surveys {
    kept: Mutex<HashMap<PathBuf, Surveyed>>,
}

#[derive(Debug, Clone)]
struct Surveyed {
    survey: Arc<Survey>,
    until: Instant,
}

impl Surveys {
    /// What is to be hidden from commands in this root. Walks the disk, so it blocks.
    pub(super) fn of(&self, root: &Path, protected: &ProtectedPaths) -> Arc<Survey> {
        let begun = Instant::now();
        if let Some(known) = self.lock().get(root).filter(|known| begun < known.until) {
            return known.survey.clone();
        }
        let survey = Arc::new(protected.survey(root, SurveyBounds::default()));
        let holds = HOLDS.max(begun.elapsed() * HOLDS_TIMES);
        let mut kept = self.lock();
        if kept.len() >= MOST_ROOTS {
            kept.retain(|_, known| begun < known.until);
        }
        if kept.len() < MOST_ROOTS {
            kept.insert(root.to_owned(), Surveyed { survey: survey.clone(), until: Instant::now() + holds });
        }
        survey
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Surveyed>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
