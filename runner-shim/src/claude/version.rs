//! `claude --version`, under the same launcher and with no network at all.

use std::process::Stdio;
use std::time::Duration;

use gatehouse_sandbox::launch::{Confined, Confinement, LaunchError, Launcher, Streams};
use tokio::io::AsyncReadExt;

use super::{StartFailure, command};
use crate::plan::{Plan, VersionCheck};

/// It takes some 10 ms; a machine that is busy, longer.
const LIMIT: Duration = Duration::from_secs(30);

/// Compares with what the plan expects, if it expects any and has not seen this file before.
///
/// # Errors
/// When it cannot be started, does not answer in time, or is another version.
pub(super) async fn check(launcher: &Launcher, plan: &Plan, reach: &Confinement) -> Result<(), StartFailure> {
    let Some(expected) =
        plan.expected_version.as_ref().filter(|_| plan.version_check == VersionCheck::BeforeLaunch)
    else {
        return Ok(());
    };
    let streams = Streams { stdin: Stdio::null(), stdout: Stdio::piped(), stderr: Stdio::null() };
    let confined = launcher.start_confined(&command::version(plan), reach, streams).await?;
    let said = tokio::time::timeout(LIMIT, answer(confined)).await;
    let said = said.map_err(|_| StartFailure::Launch(LaunchError::Silent))?;
    let found = first_word(&said);
    if found == expected {
        Ok(())
    } else {
        Err(StartFailure::Version { found: found.to_owned(), expected: expected.clone() })
    }
}

async fn answer(mut confined: Confined) -> String {
    let mut text = Vec::new();
    if let Some(stdout) = confined.child.stdout.take() {
        let _ = stdout.take(4096).read_to_end(&mut text).await;
    }
    let _ = confined.child.wait().await;
    String::from_utf8_lossy(&text).into_owned()
}

/// `2.1.247 (Claude Code)` -> `2.1.247`; bounded, as it is told.
fn first_word(text: &str) -> &str {
    let word = text.split_whitespace().next().unwrap_or("unknown");
    word.get(..word.floor_char_boundary(40)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_first_word_of_the_answer() {
        assert_eq!(first_word("2.1.247 (Claude Code)\n"), "2.1.247");
        assert_eq!(first_word(" \n"), "unknown");
        assert_eq!(first_word(&"é".repeat(100)).len(), 40);
    }
}
