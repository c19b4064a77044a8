//! `gatehouse worktree`.

use std::io::Write;
use std::path::Path;

use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::v1::{
    GetWorktreePatchRequest, ListWorktreesRequest, RemoveWorktreeRequest, WorktreeView,
};
use serde_json::{Value, json};

use super::view::known;
use crate::cli::{RemoveWorktree, Worktree};
use crate::failure::Failure;
use crate::operator::Operator;
use crate::screen::{Screen, clean};

pub(super) async fn run(operator: Operator, options: Worktree, screen: &mut Screen) -> Result<(), Failure> {
    match options {
        Worktree::List(options) => list(operator, options.json, screen).await,
        Worktree::Remove(options) => remove(operator, options, screen).await,
    }
}

async fn list(mut operator: Operator, as_json: bool, screen: &mut Screen) -> Result<(), Failure> {
    let found = operator.list_worktrees(ListWorktreesRequest {}).await?.into_inner().worktrees;
    if as_json {
        screen.line(Value::Array(found.iter().map(to_json).collect()).to_string())?;
        return Ok(());
    }
    if found.is_empty() {
        screen.line("No worktrees.")?;
        return Ok(());
    }
    let rows: Vec<_> = found.iter().map(row).collect();
    screen.table(&["SESSION", "STATUS", "CHANGES", "AT", "WORKTREE", "OF"], &rows)?;
    Ok(())
}

fn row(worktree: &WorktreeView) -> Vec<String> {
    vec![
        worktree.native_session_id.clone(),
        known(worktree.session_status().name()).to_owned(),
        changes(worktree),
        worktree.head.chars().take(12).collect(),
        clean(&worktree.path, 80),
        clean(&worktree.source_directory, 60),
    ]
}

fn changes(worktree: &WorktreeView) -> String {
    match (worktree.state.as_str(), &worktree.problem) {
        ("changed", _) => format!("{} files", worktree.changed_files),
        (state, Some(problem)) => clean(&format!("{state}: {problem}"), 80),
        (state, None) => clean(state, 20),
    }
}

fn to_json(worktree: &WorktreeView) -> Value {
    json!({
        "native_session_id": worktree.native_session_id,
        "session_status": known(worktree.session_status().name()),
        "path": worktree.path,
        "source_directory": worktree.source_directory,
        "head": worktree.head,
        "state": worktree.state,
        "changed_files": worktree.changed_files,
        "problem": worktree.problem,
    })
}

async fn remove(mut operator: Operator, options: RemoveWorktree, screen: &mut Screen) -> Result<(), Failure> {
    let saved_patch_sha256 = match &options.save_patch {
        Some(file) => Some(save(&mut operator, &options.session, file).await?),
        None => None,
    };
    let ask = RemoveWorktreeRequest { native_session_id: options.session, saved_patch_sha256 };
    let removed = operator.remove_worktree(ask).await?.into_inner();
    let patch = options.save_patch.as_ref().map(|file| file.display().to_string());
    if options.json {
        let mut line = to_json(&removed);
        line["saved_patch"] = json!(patch);
        screen.line(line.to_string())?;
        return Ok(());
    }
    if let Some(patch) = patch {
        screen.line(format!("Saved the changes to {patch}."))?;
    }
    screen.line(format!("Removed {}.", clean(&removed.path, 200)))?;
    Ok(())
}

/// Saves the patch, on the disk before anything is removed, and gives its hash.
async fn save(operator: &mut Operator, session: &str, file: &Path) -> Result<String, Failure> {
    let ask = GetWorktreePatchRequest { native_session_id: session.to_owned() };
    let mut parts = operator.get_worktree_patch(ask).await?.into_inner();
    let mut patch = Vec::new();
    while let Some(part) = parts.message().await? {
        patch.extend(part.bytes);
    }
    let failed = |error: std::io::Error| {
        Failure::failed(format!("{}: {error}", file.display()))
            .hint("Nothing was removed. Name a file that does not exist yet.")
    };
    let mut out = std::fs::OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
    out.write_all(&patch).and_then(|()| out.sync_all()).map_err(failed)?;
    Ok(sha256_hex(&patch))
}
