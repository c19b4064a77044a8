//! Skills: instructions of the user's that ChatGPT is given with a session.
//!
//! * [`Skills::freeze`] decides which of the skills that a start asks for the session may carry, and gives their
//!   instructions as they are at that moment. What was frozen is all that later runs know: neither file nor allowlist is
//!   looked at again.
//! * A skill comes in by a pin on the allowlist ([`Allowlist`]) and by nothing else: its id, and the hash of its whole
//!   normalised text. One that has no pin is not even looked for.
//! * Of a skill's folder its SKILL.md is read, and nothing else is ever opened: no script, resource, hook or command.

mod allowlist;
mod lookup;

use std::collections::HashSet;
use std::path::Path;

use gatehouse_proto::skill::{InvalidSkillId, MAX_BODIES, MAX_SKILLS, MAX_TEXT, NotUtf8, SkillId, SkillText};
use serde::{Deserialize, Serialize};

pub use allowlist::{Allowlist, EntryFault};
use lookup::Folders;

use crate::config::SkillSettings;
use crate::files::BeneathFault;

/// A skill that a start asks for.
#[derive(Clone, PartialEq, Eq)]
pub struct SkillAsk {
    /// Its id as the caller wrote it.
    pub skill_id: String,
    /// Its whole SKILL.md; without it, it is looked up.
    pub content: Option<String>,
}

impl std::fmt::Debug for SkillAsk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SkillAsk({:?}, {:?} bytes)", self.skill_id, self.content.as_ref().map(String::len))
    }
}

/// What everybody may know of a skill that a session carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SkillFacts {
    /// Its id.
    pub skill_id: SkillId,
    /// SHA-256 of its whole normalised text.
    pub content_sha256: String,
    /// The size of its instructions, in bytes.
    pub bytes: u64,
}

/// A skill that a session may carry, with its instructions, which are for ChatGPT alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Skill {
    /// What everybody may know.
    pub facts: SkillFacts,
    /// The instructions.
    pub body: String,
}

impl std::fmt::Debug for Skill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.facts.fmt(f)
    }
}

/// Why a session may not start with these skills.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillRefusal {
    /// More than [`MAX_SKILLS`].
    #[error("has {0} skills; at most {MAX_SKILLS} are allowed")]
    TooMany(usize),
    /// Something is wrong with the call itself.
    #[error("{}", told(.0))]
    Malformed(Vec<SkillFault>),
    /// The allowlist cannot be gone by, so no skill is allowed.
    #[error("the allowlist of skills ({origin}) is malformed, so no session starts with skills: {}", allowlist::told(.faults))]
    AllowlistMalformed {
        /// Where the allowlist stands.
        origin: &'static str,
        /// What is wrong with it.
        faults: Vec<EntryFault>,
    },
    /// Skills that the user does not allow, or that are not what the user allowed.
    #[error("{}", told(.0))]
    NotAllowed(Vec<SkillFault>),
    /// More than [`MAX_BODIES`] bytes of instructions.
    #[error("the instructions of the skills have {together} bytes together; at most {MAX_BODIES} are allowed ({})", sizes(.each))]
    TooLarge {
        /// How many bytes.
        together: u64,
        /// Each skill.
        each: Vec<SkillFacts>,
    },
}

/// What is wrong with one of the skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFault {
    /// Its place in the call, from 0.
    pub index: usize,
    /// Its id; if it is none, the beginning of what was written, escaped.
    pub skill_id: String,
    /// What is wrong.
    pub problem: Problem,
}

impl SkillFault {
    fn new(index: usize, ask: &SkillAsk, problem: Problem) -> Self {
        let skill_id = match ask.skill_id.parse::<SkillId>() {
            Ok(id) => id.into(),
            Err(InvalidSkillId) => {
                let beginning: String = ask.skill_id.chars().take(SHOWN).collect();
                beginning.escape_default().to_string()
            }
        };
        Self { index, skill_id, problem }
    }
}

/// What can be wrong with a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Its id is none.
    #[error(transparent)]
    Id(#[from] InvalidSkillId),
    /// It was named before in the same call.
    #[error("is named twice")]
    Twice,
    /// The text that came with the call is too large.
    #[error("has {0} bytes; a SKILL.md has at most {MAX_TEXT}")]
    ContentTooLarge(usize),
    /// The allowlist does not have it.
    #[error("is not on the allowlist")]
    NotListed,
    /// The allowlist pins another text.
    #[error("is not the text that the allowlist pins (pinned {pinned}, found {found})")]
    OtherText {
        /// The pinned hash.
        pinned: String,
        /// The hash of what came or was found.
        found: String,
    },
    /// No folder has skills of this prefix.
    #[error("cannot be looked up: no folder is configured for the prefix `{0}`")]
    NoFolder(String),
    /// Its file is not there, or is none that is read.
    #[error("its SKILL.md was not taken: {0}")]
    File(#[from] BeneathFault),
    /// A file of the project has names elsewhere.
    #[error("its SKILL.md was not taken: it has {0} hard links")]
    HardLinks(u64),
    /// Its file is not text.
    #[error("its SKILL.md {0}")]
    NotUtf8(#[from] NotUtf8),
    /// Nothing but front matter and white space.
    #[error("has no instructions behind its front matter")]
    NoBody,
}

/// How many characters are repeated of what is no id.
const SHOWN: usize = 40;

fn told(faults: &[SkillFault]) -> String {
    let one = |fault: &SkillFault| format!("[{}] ({}) {}", fault.index, fault.skill_id, fault.problem);
    faults.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn sizes(each: &[SkillFacts]) -> String {
    let one = |facts: &SkillFacts| format!("{}: {}", facts.skill_id, facts.bytes);
    each.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The skills of this gateway: which are allowed, and where they are.
#[derive(Debug)]
pub struct Skills {
    allowlist: Allowlist,
    folders: Folders,
}

impl Skills {
    /// Reads the allowlist of the settings. What is wrong with it keeps skills out, and nothing else.
    #[must_use]
    pub fn new(settings: &SkillSettings) -> Self {
        Self { allowlist: Allowlist::read(&settings.allow), folders: Folders::new(settings.folders.clone()) }
    }

    /// The allowlist.
    #[must_use]
    pub const fn allowlist(&self) -> &Allowlist {
        &self.allowlist
    }

    /// The skills that a session in `project` carries from now on, in the order of the call. May wait for a file system.
    ///
    /// # Errors
    /// Why not; every skill at fault is named.
    pub fn freeze(&self, asked: &[SkillAsk], project: &Path) -> Result<Vec<Skill>, SkillRefusal> {
        let ids = well_formed(asked)?;
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        if let Some((origin, faults)) = self.allowlist.faults() {
            return Err(SkillRefusal::AllowlistMalformed { origin, faults: faults.to_vec() });
        }
        let mut allowed = Vec::new();
        let mut faults = Vec::new();
        for (index, (ask, id)) in asked.iter().zip(ids).enumerate() {
            match self.admit(ask, id, project) {
                Ok(skill) => allowed.push(skill),
                Err(problem) => faults.push(SkillFault::new(index, ask, problem)),
            }
        }
        if !faults.is_empty() {
            return Err(SkillRefusal::NotAllowed(faults));
        }
        within_bounds(allowed)
    }

    fn admit(&self, ask: &SkillAsk, id: SkillId, project: &Path) -> Result<Skill, Problem> {
        let pinned = self.allowlist.pin(&id).ok_or(Problem::NotListed)?;
        let text = match &ask.content {
            Some(content) => SkillText::of(content.as_bytes())?,
            None => SkillText::of(&self.folders.read(&id, project)?)?,
        };
        let found = text.sha256();
        if found != pinned {
            return Err(Problem::OtherText { pinned: pinned.to_owned(), found });
        }
        let body = text.body().ok_or(Problem::NoBody)?.to_owned();
        let facts = SkillFacts { skill_id: id, content_sha256: found, bytes: body.len() as u64 };
        Ok(Skill { facts, body })
    }
}

/// What can be told of a call without looking at anything else.
///
/// # Errors
/// [`SkillRefusal::TooMany`], [`SkillRefusal::Malformed`].
pub fn well_formed(asked: &[SkillAsk]) -> Result<Vec<SkillId>, SkillRefusal> {
    if asked.len() > MAX_SKILLS {
        return Err(SkillRefusal::TooMany(asked.len()));
    }
    let mut seen = HashSet::new();
    let mut faults = Vec::new();
    let mut ids = Vec::new();
    for (index, ask) in asked.iter().enumerate() {
        let mut fault = |problem| faults.push(SkillFault::new(index, ask, problem));
        match ask.skill_id.parse::<SkillId>() {
            Err(invalid) => fault(invalid.into()),
            Ok(id) if !seen.insert(id.clone()) => fault(Problem::Twice),
            Ok(id) => ids.push(id),
        }
        let bytes = ask.content.as_ref().map_or(0, String::len);
        if bytes > MAX_TEXT {
            fault(Problem::ContentTooLarge(bytes));
        }
    }
    if faults.is_empty() { Ok(ids) } else { Err(SkillRefusal::Malformed(faults)) }
}

fn within_bounds(allowed: Vec<Skill>) -> Result<Vec<Skill>, SkillRefusal> {
    let together = allowed.iter().map(|skill| skill.facts.bytes).sum();
    if together > MAX_BODIES as u64 {
        let each = allowed.into_iter().map(|skill| skill.facts).collect();
        return Err(SkillRefusal::TooLarge { together, each });
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests;
