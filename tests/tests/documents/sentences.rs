//! Commands that stand in a sentence.

use std::path::PathBuf;
use std::process::Command;

use gatehouse_tests::binaries::{folder, repository};

use super::written::{documents, shown};

/// The code spans of a text that are commands, blocks left out.
fn spans(text: &str) -> Vec<String> {
    let mut inside = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    let spans = lines.flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned));
    spans.map(|span| span.replace("\\|", "|")).filter(|span| span.contains(' ')).collect()
}

/// What a program says of itself.
fn help(program: &str, words: &[&str]) -> String {
    let output = Command::new(folder().join(program)).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that a program has the subcommand and every flag of a line.
fn assert_understood(program: &str, line: &str, place: &str) {
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let (mut text, mut known) = (help(program, &[]), Vec::new());
    for word in &words {
        let listed = text.lines().any(|line| line.trim_start().split(' ').next() == Some(*word));
        if word.starts_with('-') || !listed {
            break;
        }
        known.push(*word);
        text = help(program, &known);
    }
    assert!(words[0].starts_with('-') || !known.is_empty(), "{place}: there is no `{line}`");
    for flag in words.iter().filter(|word| word.starts_with('-')) {
        let flag = flag.trim_end_matches([',', '.']);
        assert!(text.contains(flag), "{place}: `{line}`: {flag} is unknown to {program} {known:?}");
    }
}

/// The folders of the packages, by name.
fn package(name: &str) -> PathBuf {
    let line = format!("name = \"{name}\"");
    let folders = std::fs::read_dir(repository()).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |folder: &PathBuf| {
        std::fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|text| text.lines().any(|found| found == line))
    };
    folders.into_iter().find(is_it).unwrap_or_else(|| panic!("no package {name}"))
}

/// Asserts that Cargo would find what a line names.
fn assert_in_workspace(line: &str, place: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let after = |flag: &str| words.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1]);
    let Some(package) = after("-p").map(package) else { return };
    for (flag, folder) in [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")] {
        let Some(name) = after(flag) else { continue };
        let folder = package.join(folder);
        let there =
            folder.join(format!("{name}.rs")).is_file() || folder.join(name).join("main.rs").is_file();
        assert!(there, "{place}: `{line}`: no {flag} {name}");
    }
}

#[test]
fn commands_that_stand_in_a_sentence_are_commands_that_there_are() {
    let makefile = std::fs::read_to_string(repository().join("Makefile")).unwrap();
    let mut number = 0;
    for (path, text) in documents() {
        let place = shown(&path);
        for span in spans(&text) {
            number += 1;
            match span.split_once(' ') {
                Some(("gatehouse" | "target/debug/gatehouse", _)) => {
                    assert_understood("gatehouse", &span, &place);
                }
                Some((program @ ("executor-svc" | "mcp-front"), _)) => {
                    assert_understood(program, &span, &place);
                }
                Some(("make", targets)) => {
                    for target in targets.split(' ').filter(|word| !word.contains('=')) {
                        let rule = format!("\n{target}:");
                        assert!(makefile.contains(&rule), "{place}: no target for `make {target}`");
                    }
                }
                Some(("cargo", _)) => assert_in_workspace(&span, &place),
                _ => number -= 1,
            }
        }
    }
    assert!(number > 80, "the documents name many commands, not {number}");
}
