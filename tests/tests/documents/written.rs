//! What is written in the documents: which there are, and the commands in their blocks.

use std::path::{Path, PathBuf};

use gatehouse_tests::binaries::repository;

/// How the documents call the command line.
pub const GATEHOUSE: &str = "target/debug/gatehouse ";

/// The documents that people read, with their text.
pub fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in [repository().to_owned(), repository().join("docs")] {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|ext| ext == "md")));
    }
    found.sort();
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

pub fn shown(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap().display().to_string()
}

/// A command of a document.
pub struct Written {
    pub command: String,
    pub document: String,
}

/// What kind of block a line stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Shell,
    Other,
}

/// The lines of all blocks that are marked as shell, and in other blocks those that begin with a prompt.
pub fn commands() -> Vec<Written> {
    let mut found = Vec::new();
    for (path, text) in documents() {
        let mut block = Block::None;
        for line in text.lines().map(str::trim_start) {
            let command = match (block, line.strip_prefix("```")) {
                (Block::None, Some("sh" | "bash" | "shell")) => {
                    block = Block::Shell;
                    None
                }
                (Block::None, Some(_)) => {
                    block = Block::Other;
                    None
                }
                (_, Some(_)) => {
                    block = Block::None;
                    None
                }
                (Block::Shell, None) if !line.is_empty() && !line.starts_with('#') => Some(line),
                (Block::Other, None) => line.strip_prefix("$ "),
                (Block::Shell | Block::None, None) => None,
            };
            if let Some(command) = command {
                let command = match command.strip_prefix("gatehouse ") {
                    Some(rest) => format!("{GATEHOUSE}{rest}"),
                    None => command.to_owned(),
                };
                found.push(Written { command, document: shown(&path) });
            }
        }
        assert_eq!(block, Block::None, "{}: a block does not end", shown(&path));
    }
    found
}
