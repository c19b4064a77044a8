//! The scan of all output for what must never leave the gateway.
//!
//! Long secrets and paths are looked for everywhere, byte for byte. Process ids and ports are short numbers that may
//! stand in a file's content by chance; they are looked for as whole words, and not inside receipts.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Child;

use gatehouse::chatgpt::{Brain, State};
use serde_json::Value;

use crate::processes;
use crate::record::{Piece, Way};

/// What a test knows that nobody outside may learn.
#[derive(Debug, Default)]
pub struct Secrets {
    /// Tokens, keys, environment values: nowhere at all.
    tokens: BTreeSet<String>,
    /// Recovery tokens: in the answer to start only.
    recovery_tokens: BTreeSet<String>,
    /// Leases: over MCP only.
    leases: BTreeSet<String>,
    /// Internal directories.
    paths: BTreeSet<String>,
    /// Process ids and ports.
    numbers: BTreeSet<u32>,
    /// Whether the test itself named directories and process ids in its calls, so that answers may repeat them.
    internals_were_named: bool,
}

impl Secrets {
    /// What belongs to the gateway as a whole.
    pub(crate) fn learn_gateway(
        &mut self,
        top: &Path,
        canary: &str,
        executor: Option<&Child>,
        front: Option<&Child>,
    ) {
        self.tokens.insert(canary.to_owned());
        self.paths.insert(top.display().to_string());
        self.numbers.extend(executor.into_iter().chain(front).map(Child::id));
        self.numbers.extend(processes::of_directory(top));
        self.learn_secret_files(&top.join("s"));
    }

    /// Short 0600 files at the top of the state directory are secrets: the front's key, the recovery secret.
    fn learn_secret_files(&mut self, state_dir: &Path) {
        for entry in std::fs::read_dir(state_dir).into_iter().flatten().flatten() {
            let small =
                entry.metadata().is_ok_and(|found| found.is_file() && (16..=256).contains(&found.len()));
            if !small {
                continue;
            }
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            self.tokens.insert(hex::encode(&bytes));
            if let Ok(text) = String::from_utf8(bytes) {
                self.tokens
                    .extend(text.split_whitespace().filter(|word| word.len() >= 16).map(str::to_owned));
            }
        }
    }

    /// A secret of the test's own: nowhere at all.
    pub(crate) fn keep(&mut self, secret: &str) {
        self.tokens.insert(secret.to_owned());
    }

    /// Answers may repeat what the test itself has named.
    pub(crate) const fn name_internals(&mut self) {
        self.internals_were_named = true;
    }

    /// What belongs to a session with a live process.
    pub(crate) fn learn_session(&mut self, brain: &Brain, runtime_dir: &Path) {
        self.recovery_tokens.insert(brain.recovery_token().to_owned());
        self.learn_state(brain.state(), runtime_dir);
    }

    /// The same from what a call answered, the recovery token if it is in there.
    pub(crate) fn learn_state(&mut self, state: &State, runtime_dir: &Path) {
        self.leases.insert(state.lease_id().to_owned());
        self.recovery_tokens.extend(state.recovery_token().map(str::to_owned));
        self.learn_run(state.claude_session_id(), runtime_dir);
    }

    /// What belongs to the processes that serve a Claude session now.
    pub(crate) fn learn_run(&mut self, claude_session_id: &str, runtime_dir: &Path) {
        self.numbers.extend(processes::shims_of(runtime_dir));
        let Some(claude) = processes::claude_of(claude_session_id) else { return };
        self.numbers.insert(claude);
        for (name, value) in processes::environment(claude) {
            match name.as_str() {
                "ANTHROPIC_API_KEY" => drop(self.tokens.insert(value)),
                "ANTHROPIC_BASE_URL" => self.numbers.extend(port_of(&value)),
                "HOME" | "CLAUDE_CONFIG_DIR" | "CLAUDE_CODE_TMPDIR" => drop(self.paths.insert(value)),
                _ => {}
            }
        }
    }
}

fn port_of(url: &str) -> Option<u32> {
    url.rsplit_once(':')?.1.trim_end_matches('/').parse().ok()
}

/// Everything found that must not be there, a line each.
#[must_use]
pub fn scan(pieces: &[Piece], secrets: &Secrets) -> Vec<String> {
    let mut found = Vec::new();
    for piece in pieces {
        let mut report = |what: &str, secret: &str| found.push(finding(piece, what, secret));
        let everywhere = secrets.tokens.iter().map(|token| ("a token or environment value", token));
        let hidden = !(secrets.internals_were_named && piece.way != Way::Log);
        let paths = secrets.paths.iter().filter(|_| hidden).map(|path| ("an internal path", path));
        for (what, secret) in everywhere.chain(paths) {
            if piece.text.contains(secret.as_str()) {
                report(what, secret);
            }
        }
        for lease in secrets.leases.iter().filter(|_| piece.way != Way::Mcp) {
            if piece.text.contains(lease.as_str()) {
                report("a lease", lease);
            }
        }
        // Each begins so. Most pieces hold nothing of the kind, and there may be hundreds of sessions.
        let may_hold = piece.text.contains("rt_");
        for token in secrets.recovery_tokens.iter().filter(|token| may_hold && !token.is_empty()) {
            if piece.text.contains(token.as_str()) && !is_start_answer(piece) {
                report("a recovery token", token);
            }
        }
        let numbers = words_outside_receipts(piece).flat_map(|text| numbers_in(&text).collect::<Vec<_>>());
        for number in numbers.filter(|number| hidden && secrets.numbers.contains(number)) {
            report("a process id or port", &number.to_string());
        }
    }
    found.sort();
    found.dedup();
    found
}

fn finding(piece: &Piece, what: &str, secret: &str) -> String {
    let at = piece.text.find(secret).unwrap_or_default();
    let from = piece.text[..at].char_indices().rev().nth(80).map_or(0, |(index, _)| index);
    let around: String = piece.text[from..].chars().take(240).collect();
    format!("{:?}: {what} ({secret}) in …{around}…", piece.way)
}

/// Only the answer to start, or a replay of it, may carry the recovery token, and that as its own field.
fn is_start_answer(piece: &Piece) -> bool {
    let answer: Value = serde_json::from_str(&piece.text).unwrap_or_default();
    piece.way == Way::Mcp && answer["result"]["structuredContent"]["recovery_token"].is_string()
}

/// The texts of a piece in which a process id has no business: of JSON all strings outside receipts and file
/// content, of anything else the whole.
fn words_outside_receipts(piece: &Piece) -> impl Iterator<Item = String> {
    let mut texts = Vec::new();
    match serde_json::from_str::<Value>(&piece.text) {
        Ok(json) => collect_strings(&json, &mut texts),
        // The debug form of a gRPC message carries receipts in one piece with everything else.
        Err(_) if piece.way == Way::Operator => {}
        Err(_) => texts.push(piece.text.clone()),
    }
    texts.into_iter()
}

fn collect_strings(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, texts)),
        Value::Object(map) => {
            let public =
                map.iter().filter(|(name, _)| !matches!(name.as_str(), "receipt" | "input" | "prompt"));
            public.for_each(|(_, item)| collect_strings(item, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The numbers that stand there as words of their own; small ones say nothing.
fn numbers_in(text: &str) -> impl Iterator<Item = u32> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let words = text.split(move |c| !is_part(c));
    words.filter(|word| word.len() >= 4 && !word.starts_with('0')).filter_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(way: Way, text: &str) -> Piece {
        Piece { way, text: text.to_owned() }
    }

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        secrets.tokens.insert("canary-1".into());
        secrets.recovery_tokens.insert("rt_1".into());
        secrets.leases.insert("lease_1".into());
        secrets.paths.insert("/tmp/ghX".into());
        secrets.numbers.insert(41_234);
        secrets
    }

    #[test]
    fn each_kind_of_leak_is_found() {
        for (way, text) in [
            (Way::Log, "x canary-1"),
            (Way::Mcp, "{\"a\":\"/tmp/ghX/s\"}"),
            (Way::Cli, "lease_1"),
            (Way::Mcp, "{\"b\":\"rt_1\"}"),
            (Way::Log, "pid=41234"),
            (Way::Mcp, "{\"message\":\"process 41234 died\"}"),
            (Way::Log, "(41234)"),
        ] {
            assert_eq!(scan(&[piece(way, text)], &secrets()).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_may_stand_there_is_let_be() {
        for (way, text) in [
            (Way::Mcp, "{\"lease_id\":\"lease_1\"}"),
            (Way::Mcp, "{\"result\":{\"structuredContent\":{\"recovery_token\":\"rt_1\"}}}"),
            (Way::Mcp, "{\"receipt\":{\"content\":\"41234\"}}"),
            (Way::Log, "took 0.41234 s, id ns_41234"),
        ] {
            assert_eq!(scan(&[piece(way, text)], &secrets()), Vec::<String>::new(), "{text}");
        }
    }
}
