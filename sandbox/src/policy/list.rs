//! The list as it stands in its file.

use std::path::Path;

use serde::Deserialize;

use super::pattern::{Anchor, Component, Pattern, PatternError};

/// The systems there are lists for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
}

impl Os {
    /// The system this was built for.
    #[must_use]
    pub const fn current() -> Self {
        if cfg!(target_os = "macos") { Self::MacOs } else { Self::Linux }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Linux => include_str!("../../policy/linux.toml"),
            Self::MacOs => include_str!("../../policy/macos.toml"),
        }
    }
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The path as it is written in the list.
    pub path: String,
    /// Why it is there.
    pub reason: String,
    pub(super) pattern: Pattern,
}

impl Rule {
    /// A line from elsewhere: configuration, or Gatehouse's own places.
    ///
    /// # Errors
    /// When `path` has none of the forms of the list.
    pub fn new(path: &str, reason: &str) -> Result<Self, PatternError> {
        Ok(Self { path: path.to_owned(), reason: reason.to_owned(), pattern: Pattern::parse(path)? })
    }
}

impl Rule {
    /// A line for one absolute path, in which no character means anything but itself.
    #[must_use]
    pub fn exact(path: &Path, reason: &str) -> Self {
        let lossy = path.to_string_lossy();
        let components = lossy.split('/').filter(|part| !part.is_empty()).map(Component::literal).collect();
        let pattern = Pattern { anchor: Anchor::Root, components };
        Self { path: lossy.clone().into_owned(), reason: reason.to_owned(), pattern }
    }
}

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// Not TOML of the expected form.
    #[error("the list of protected paths: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A line that is not a pattern.
    #[error("the list of protected paths: {0}")]
    Pattern(#[from] PatternError),
    /// A list of another system.
    #[error("the list of protected paths is for another system")]
    WrongSystem,
}

/// The list of one system.
#[derive(Debug, Clone)]
pub struct ProtectedList {
    pub(super) os: Os,
    pub(super) rules: Vec<Rule>,
    pub(super) except: Vec<Component>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    os: Os,
    protected: Vec<PathLine>,
    except: Vec<NameLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathLine {
    path: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameLine {
    name: String,
    #[serde(rename = "reason")]
    _reason: String,
}

impl ProtectedList {
    /// The list that comes with Gatehouse.
    ///
    /// # Errors
    /// When it is broken, which a test rules out.
    pub fn built_in(os: Os) -> Result<Self, ListError> {
        let file: File = toml::from_str(os.text())?;
        if file.os != os {
            return Err(ListError::WrongSystem);
        }
        let rules = file
            .protected
            .iter()
            .map(|line| Rule::new(&line.path, &line.reason))
            .collect::<Result<_, _>>()?;
        Ok(Self { os, rules, except: file.except.iter().map(|line| Component::new(&line.name)).collect() })
    }

    /// Its lines.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// One more line.
    pub fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }
}
