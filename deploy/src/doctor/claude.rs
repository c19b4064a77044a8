//! Claude Code: which one, and its version.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::Line;
use crate::settings::ClaudeSettings;

/// How long it may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The program that would be started.
    pub binary: Option<PathBuf>,
    /// Where it was looked for.
    pub candidates: Vec<PathBuf>,
    /// What it says its version is, or why it says nothing.
    pub version: Result<String, String>,
    /// The version that Gatehouse is verified with.
    pub verified: String,
    /// Whether another may be started.
    pub others_allowed: bool,
}

/// Looks.
pub async fn gather(settings: &ClaudeSettings) -> Facts {
    let version = match &settings.binary {
        Some(binary) => version_of(binary).await,
        None => Err("there is none".to_owned()),
    };
    Facts {
        binary: settings.binary.clone(),
        candidates: settings.candidates.clone(),
        version,
        verified: settings.verified_version.clone(),
        others_allowed: settings.allow_unverified_version,
    }
}

/// In a HOME of its own: it shall not read the user's settings for this, and leave nothing.
async fn version_of(binary: &Path) -> Result<String, String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut command = Command::new(binary);
    command.arg("--version").env_clear().env("HOME", home.path()).env("CLAUDE_CONFIG_DIR", home.path());
    command.env("DISABLE_AUTOUPDATER", "1").current_dir(home.path()).stdin(Stdio::null()).kill_on_drop(true);
    let asked = tokio::time::timeout(PATIENCE, command.output()).await;
    let output =
        asked.map_err(|_| "it did not tell in time".to_owned())?.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.split_whitespace().next() {
        Some(word) if output.status.success() => Ok(word.chars().take(40).collect()),
        _ => Err(format!("it ended with {}", output.status)),
    }
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    let verified = &facts.verified;
    let install = format!(
        "Install it: npm install -g @anthropic-ai/claude-code@{verified}, or name one with CLAUDE_BIN or claude.binary."
    );
    let Some(binary) = &facts.binary else {
        let places: Vec<_> = facts.candidates.iter().map(|path| path.display().to_string()).collect();
        let found = format!("no native Claude Code at {}", places.join(", "));
        return vec![Line::failed("claude_code", found, install)];
    };
    let found = Line::ok("claude_code", binary.display().to_string());
    let version = match &facts.version {
        Ok(version) if version == verified => {
            Line::ok("claude_version", format!("{version}, the one that Gatehouse is verified with"))
        }
        Ok(version) if facts.others_allowed => Line::warning(
            "claude_version",
            format!("{version}; Gatehouse is verified with {verified}"),
            "It is started, for claude.allow_unverified_version is set. If sessions misbehave, go back to the verified one.",
        ),
        Ok(version) => Line::failed(
            "claude_version",
            format!("{version} is refused; Gatehouse is verified with {verified}"),
            format!("{install} Or set claude.allow_unverified_version = true."),
        ),
        Err(why) => {
            Line::failed("claude_version", format!("it cannot be asked for its version: {why}"), install)
        }
    };
    vec![found, version]
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{Failed, Ok as Fine, Warning};
    use super::*;

    #[test]
    fn the_verified_version_alone_is_in_order() {
        let facts = |version: Result<&str, &str>, others_allowed| Facts {
            binary: Some("/c".into()),
            candidates: vec!["/c".into()],
            version: version.map(str::to_owned).map_err(str::to_owned),
            verified: "2.1.247".into(),
            others_allowed,
        };
        for (version, allowed, verdict) in [
            (Ok("2.1.247"), false, Fine),
            (Ok("2.1.248"), false, Failed),
            (Ok("2.1.248"), true, Warning),
            (Err("it ended"), true, Failed),
        ] {
            assert_eq!(judge(&facts(version, allowed))[1].verdict, verdict, "{version:?}");
        }
        let none = judge(&Facts { binary: None, ..facts(Err("none"), false) });
        assert_eq!((none.len(), none[0].check, none[0].verdict), (1, "claude_code", Failed));
    }
}
