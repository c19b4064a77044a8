//! `gatehouse prune`.

use gatehouse_proto::v1::{PruneProgress, PruneRequest};
use serde_json::{Value, json};
use tokio_stream::StreamExt;

use super::progress::Progress;
use crate::cli::Prune;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::{Screen, size};

pub(super) async fn run(mut operator: Operator, options: &Prune, screen: &mut Screen) -> Result<(), Failure> {
    let ask = PruneRequest { older_than_seconds: options.older_than.as_secs(), dry_run: options.dry_run };
    let mut steps = operator.prune(ask).await?.into_inner();
    let mut progress = Progress::new();
    while let Some(step) = steps.next().await {
        let step = step?;
        if step.done {
            drop(progress);
            let line = if options.json {
                as_json(&step, options.dry_run).to_string()
            } else {
                summary(&step, options.dry_run)
            };
            screen.line(line)?;
            return Ok(());
        }
        progress.tell(&format!("{} of {} contents", step.contents_seen, step.contents_planned));
    }
    Err(Failure::failed("the executor ended before the pruning was done")
        .hint("Nothing is harmed; ask again, and it goes on."))
}

fn as_json(step: &PruneProgress, dry_run: bool) -> Value {
    json!({
        "dry_run": dry_run,
        "sessions": step.sessions,
        "contents": step.contents,
        "contents_removed": step.contents_removed,
        "bytes_removed": step.bytes_removed,
        "worktrees_removed": step.worktrees_removed,
        "worktrees_kept": step.worktrees_kept,
    })
}

fn summary(step: &PruneProgress, dry_run: bool) -> String {
    let what = format!(
        "{} of {} contents ({}) of {} sessions",
        step.contents_removed,
        step.contents,
        size(step.bytes_removed),
        step.sessions
    );
    let mut lines = match (dry_run, step.contents_planned) {
        (_, 0) => "There are no contents to remove.".to_owned(),
        (true, _) => format!("Would remove {what}. Their changes could then be neither shown nor undone."),
        (false, _) => format!("Removed {what}."),
    };
    if step.worktrees_removed > 0 {
        let done = if dry_run { "Would remove" } else { "Removed" };
        lines.push_str(&format!("\n{done} {} worktrees without changes.", step.worktrees_removed));
    }
    if step.worktrees_kept > 0 {
        lines.push_str(&format!(
            "\n{} worktrees stay, for something in them would be lost: `gatehouse worktree list`.",
            step.worktrees_kept
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_what_went_and_a_dry_run_what_would() {
        let step = PruneProgress {
            done: true,
            sessions: 2,
            contents: 10,
            contents_planned: 3,
            contents_seen: 3,
            contents_removed: 3,
            bytes_removed: 5000,
            worktrees_removed: 0,
            worktrees_kept: 0,
        };
        assert_eq!(summary(&step, false), "Removed 3 of 10 contents (4 KiB) of 2 sessions.");
        assert!(summary(&step, true).starts_with("Would remove 3 of 10"));
        assert_eq!(summary(&PruneProgress::default(), false), "There are no contents to remove.");
        let worktrees = PruneProgress { worktrees_removed: 1, worktrees_kept: 2, ..PruneProgress::default() };
        assert!(
            summary(&worktrees, true).contains("Would remove 1 worktrees without changes.\n2 worktrees stay")
        );
    }
}
