//! The rules of the house, checked on the repository itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gatehouse_proto::codes::{ActionCode, ErrorCode};
use gatehouse_tests::binaries::repository;

/// Longer files are split by topic.
const LONGEST_FILE: usize = 500;

/// All files of the repository with one of these extensions, build folders left out.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![repository().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_str().unwrap_or_default();
            if entry.file_type().unwrap().is_dir() {
                let foreign = name.starts_with("target") || matches!(name, ".git" | "node_modules");
                folders.extend((!foreign).then_some(path));
            } else if path
                .extension()
                .and_then(|ext| ext.to_str())
                .is_some_and(|ext| extensions.contains(&ext))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap().display().to_string()
}

#[test]
fn no_file_is_longer_than_the_limit() {
    let lines = |path: &PathBuf| text(path).lines().count();
    let long: Vec<_> = files(&["rs", "proto", "sql", "mjs", "py"])
        .into_iter()
        .filter(|path| lines(path) > LONGEST_FILE)
        .map(|path| format!("{}: {} lines", shown(&path), lines(&path)))
        .collect();
    assert!(long.is_empty(), "longer than {LONGEST_FILE} lines: {long:?}");
}

#[test]
fn no_module_is_named_after_nothing() {
    let empty_words = ["core", "common", "util", "utils", "helper", "helpers", "misc", "shared", "stuff"];
    let named = |path: &PathBuf| {
        let inside = path.strip_prefix(repository()).unwrap().with_extension("");
        inside.iter().any(|part| empty_words.contains(&part.to_str().unwrap_or_default()))
    };
    let found: Vec<_> = files(&["rs"]).into_iter().filter(named).map(|path| shown(&path)).collect();
    assert!(found.is_empty(), "names that say nothing: {found:?}");
}

#[test]
fn only_the_sandbox_may_hold_unsafe_code() {
    for manifest in manifests() {
        let folder = manifest.parent().unwrap();
        if folder.ends_with("sandbox") {
            continue;
        }
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root));
        for root in roots.iter().filter(|root| root.exists()) {
            assert!(text(root).contains("#![forbid(unsafe_code)]"), "{} does not forbid it", shown(root));
        }
    }
}

#[test]
fn nothing_is_put_off_or_left_out_silently() {
    // Written so that this file does not hold what it looks for.
    let marks = [
        ["to", "do!("],
        ["unimple", "mented!("],
        ["db", "g!("],
        ["#[ig", "nore"],
        ["TO", "DO"],
        ["FIX", "ME"],
    ];
    for path in files(&["rs", "proto", "md"]) {
        let text = text(&path);
        for mark in marks.map(|parts| parts.concat()) {
            assert!(!text.contains(&mark), "{}: {mark}", shown(&path));
        }
    }
}

#[test]
fn every_exception_to_a_lint_has_its_reason() {
    for path in files(&["rs"]) {
        let text = text(&path);
        for (at, _) in text.match_indices("[allow(").chain(text.match_indices("[expect(")) {
            if !matches!(text.as_bytes()[at.saturating_sub(1)], b'#' | b'!') {
                continue;
            }
            let end = at + text[at..].find(")]").unwrap_or_default();
            assert!(text[at..end].contains("reason"), "{}: {}", shown(&path), &text[at..end]);
        }
    }
}

#[test]
fn the_repository_stands_by_itself() {
    let outside = ["../", "shared"].concat();
    for path in files(&["rs", "md", "toml", "proto", "sql", "json", "yml", "mjs", "py"]) {
        assert!(!text(&path).contains(&outside), "{} names {outside}", shown(&path));
    }
}

fn manifests() -> Vec<PathBuf> {
    files(&["toml"])
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml") && path.parent() != Some(repository()))
        .collect()
}

/// The crates from elsewhere that a manifest names.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && !line.is_empty() && !line.starts_with('#') {
            let name: String =
                line.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
            found.insert(name);
        }
    }
    found.retain(|name| {
        !name.is_empty()
            && !name.starts_with("gatehouse")
            && !matches!(name.as_str(), "executor-svc" | "mcp-front" | "runner-shim")
    });
    found
}

#[test]
fn every_direct_dependency_has_its_reason_and_every_reason_its_dependency() {
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for manifest in manifests() {
        for name in dependencies(&text(&manifest)) {
            used.entry(name).or_default().push(shown(&manifest));
        }
    }
    let document = text(&repository().join("docs/dependencies.md"));
    let mut reasons = BTreeMap::new();
    for row in document.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let name = cells.next().unwrap().trim_matches('`').to_owned();
        reasons.insert(name, cells.next().unwrap_or_default().to_owned());
    }
    for (name, users) in &used {
        let reason = reasons.get(name).map(String::as_str).unwrap_or_default();
        assert!(reason.len() > 15, "docs/dependencies.md gives no reason for {name}, which {users:?} use");
    }
    let stale: Vec<_> = reasons.keys().filter(|name| !used.contains_key(*name)).collect();
    assert!(stale.is_empty(), "docs/dependencies.md explains what nobody uses: {stale:?}");
}

/// The codes that have a section of their own below a heading of docs/errors.md.
fn sections(document: &str, heading: &str) -> BTreeSet<String> {
    let part = document.split("\n## ").find(|part| part.starts_with(heading)).unwrap_or_default();
    let titles = part.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    titles.map(str::to_owned).collect()
}

#[test]
fn every_code_has_its_section_in_the_documentation_and_the_other_way_round() {
    let document = text(&repository().join("docs/errors.md"));
    let errors: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    let actions: BTreeSet<_> = ActionCode::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    assert_eq!(sections(&document, "Tool errors"), errors);
    assert_eq!(sections(&document, "Action codes"), actions);
    let launch = sections(&document, "Launch errors");
    let (used, all) = launch_codes();
    assert!(used.is_subset(&launch), "without a section: {:?}", used.difference(&launch));
    assert!(launch.is_subset(&all), "sections of codes that no source has: {:?}", launch.difference(&all));
}

/// What the executor's and the shim's sources have: literals that are launch codes by their form, and all literals.
fn launch_codes() -> (BTreeSet<String>, BTreeSet<String>) {
    let fields = ["claude_session_id", "claude_code_version", "claude_binary", "run_id", "run_ordinal"];
    let folders = ["executor-svc/src", "runner-shim/src"].map(|folder| repository().join(folder));
    let sources =
        files(&["rs"]).into_iter().filter(|path| folders.iter().any(|folder| path.starts_with(folder)));
    let mut all = BTreeSet::new();
    for path in sources.filter(|path| !path.iter().any(|part| part == "tests" || part == "tests.rs")) {
        all.extend(text(&path).split('"').map(str::to_owned));
    }
    let is_code = |literal: &&String| {
        let rest =
            literal.strip_prefix("claude_").or_else(|| literal.strip_prefix("run_")).unwrap_or_default();
        !rest.is_empty()
            && rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
            && !fields.contains(&literal.as_str())
    };
    (all.iter().filter(is_code).cloned().collect(), all)
}

#[test]
fn the_make_targets_that_the_documents_name_exist() {
    let makefile = text(&repository().join("Makefile"));
    for document in files(&["md"]) {
        for (at, _) in text(&document).match_indices("`make ") {
            let document_text = text(&document);
            let rest = &document_text[at + "`make ".len()..];
            let target: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            assert!(makefile.contains(&format!("\n{target}:")), "{}: make {target}", shown(&document));
        }
    }
}
