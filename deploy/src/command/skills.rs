//! `gatehouse skills`: asks no gateway; what a skill's hash is depends on its file alone.

use std::io::Read;
use std::path::Path;

use gatehouse_proto::skill::{MAX_TEXT, SkillId, SkillText};
use serde_json::json;

use crate::cli::{HashSkill, Skills};
use crate::failure::Failure;
use crate::screen::Screen;

/// Stands where an id is still to be put; no gateway takes it for one.
const BLANK: &str = "PREFIX:NAME";

pub(super) fn run(options: Skills, screen: &mut Screen) -> Result<(), Failure> {
    let Skills::Hash(HashSkill { file, id, json }) = options;
    let text = read(&file)?;
    let Some(body) = text.body() else {
        return Err(Failure::failed(format!(
            "{} has no instructions behind its front matter",
            file.display()
        ))
        .hint("A skill is its instructions: there is nothing to pin."));
    };
    let home = std::env::var_os("HOME");
    let id = id.or_else(|| id_by_place(&file, home.as_deref().map(Path::new)));
    let shown = id.as_ref().map_or(BLANK, SkillId::as_str);
    let entry = json!({ "skill_id": shown, "content_sha256": text.sha256() });
    if json {
        screen.line(entry.to_string())?;
        return Ok(());
    }
    screen.line(format!("{} bytes of instructions. The entry of the allowlist:", body.len()))?;
    screen.line("")?;
    screen.line("in CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON=[…]")?;
    screen.line(format!("  {entry}"))?;
    screen.line("in the configuration file, below [skills], allow = […]")?;
    // Neither an id nor a hash has a character that TOML writes in another way.
    screen.line(format!("  {{ skill_id = \"{shown}\", content_sha256 = \"{}\" }}", text.sha256()))?;
    if id.is_none() {
        screen.line("")?;
        screen.line(format!("Put the skill's id in the place of {BLANK}, or name it with --id."))?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<SkillText, Failure> {
    let shown = file.display();
    let failed = |error: std::io::Error| Failure::failed(format!("{shown}: {error}"));
    let mut bytes = Vec::new();
    let limit = MAX_TEXT as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(file)
            .and_then(|opened| opened.take(limit).read_to_end(&mut bytes))
            .map_err(failed)?;
    }
    if bytes.len() > MAX_TEXT {
        return Err(Failure::failed(format!("{shown} has more than {MAX_TEXT} bytes"))
            .hint("A SKILL.md of this size is refused by the gateway."));
    }
    SkillText::of(&bytes).map_err(|error| Failure::failed(format!("{shown} {error}")))
}

/// The id that the gateway would look for at this place.
fn id_by_place(file: &Path, home: Option<&Path>) -> Option<SkillId> {
    let file = std::path::absolute(file).ok()?;
    if file.file_name()? != "SKILL.md" {
        return None;
    }
    let folder = file.parent()?;
    let skills = folder.parent()?;
    let prefix = if home.is_some_and(|home| skills == home.join(".claude/skills")) {
        "personal"
    } else if skills.ends_with(".claude/skills") {
        "project"
    } else {
        return None;
    };
    format!("{prefix}:{}", folder.file_name()?.to_str()?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_follows_from_the_place_where_the_gateway_would_look() {
        let found = |file: &str| id_by_place(Path::new(file), Some(Path::new("/home/u")));
        let id = |text: &str| Some(text.parse::<SkillId>().unwrap());
        assert_eq!(found("/home/u/.claude/skills/review/SKILL.md"), id("personal:review"));
        assert_eq!(found("/srv/p/.claude/skills/review/SKILL.md"), id("project:review"));
        for file in ["/srv/p/review/SKILL.md", "/home/u/.claude/skills/a b/SKILL.md", "/SKILL.md", "-", "/x"]
        {
            assert_eq!(found(file), None, "{file}");
        }
    }
}
