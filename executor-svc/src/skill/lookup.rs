//! Where a skill that came without its text is found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gatehouse_proto::skill::{MAX_TEXT, SkillId};

use super::Problem;
use crate::config::PROJECT;
use crate::files::read_beneath;

/// The one file of a skill that is ever read.
const FILE: &str = "SKILL.md";

/// The folders that hold skills.
#[derive(Debug)]
pub(super) struct Folders {
    by_prefix: BTreeMap<String, PathBuf>,
}

impl Folders {
    pub(super) const fn new(by_prefix: BTreeMap<String, PathBuf>) -> Self {
        Self { by_prefix }
    }

    /// The bytes of a skill's SKILL.md.
    ///
    /// A folder of the user's own may be a link itself; below it none is followed. In a project, which somebody else may
    /// have made, none is followed at all, and a file that has further names is not taken: telling its hash would tell of
    /// a file elsewhere.
    pub(super) fn read(&self, id: &SkillId, project: &Path) -> Result<Vec<u8>, Problem> {
        let limit = MAX_TEXT as u64;
        if id.prefix() == PROJECT {
            let file = read_beneath(project, &[".claude", "skills", id.name(), FILE], limit)?;
            return if file.links > 1 { Err(Problem::HardLinks(file.links)) } else { Ok(file.bytes) };
        }
        let folder =
            self.by_prefix.get(id.prefix()).ok_or_else(|| Problem::NoFolder(id.prefix().to_owned()))?;
        Ok(read_beneath(folder, &[id.name(), FILE], limit)?.bytes)
    }
}
