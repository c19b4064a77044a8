//! Programs of other people that some things need.

use std::process::Stdio;

use tokio::process::Command;

use super::Line;

/// What was found: the first line of each `--version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Node.
    pub node: Option<String>,
    /// Git.
    pub git: Option<String>,
}

/// Looks.
pub async fn gather() -> Facts {
    Facts { node: version_of("node").await, git: version_of("git").await }
}

async fn version_of(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| said.lines().next().unwrap_or_default().to_owned())
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    let node = match &facts.node {
        Some(version) => Line::ok("node", version.clone()),
        None => Line::warning(
            "node",
            "not in PATH",
            "Only needed to install Claude Code with npm, and by your own projects.",
        ),
    };
    let git = match &facts.git {
        Some(version) => Line::ok("git", version.clone()),
        None => {
            Line::warning("git", "not in PATH", "Install it: worktree_write sessions cannot start without.")
        }
    };
    vec![node, git]
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn what_is_missing_is_a_warning() {
        let all = Facts { node: Some("v22".into()), git: Some("git version 2".into()) };
        assert!(judge(&all).iter().all(|line| line.verdict == Verdict::Ok));
        let none = Facts { node: None, git: None };
        assert!(
            judge(&none).iter().all(|line| line.verdict == Verdict::Warning && line.what_to_do.is_some())
        );
    }
}
