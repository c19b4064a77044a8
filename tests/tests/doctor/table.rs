//! That no line is left out: the doctor's sources are held against this suite.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gatehouse_tests::binaries::repository;

/// A check and how it comes out.
type Outcome = (String, String);

fn sources(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

/// The literals and names at the beginning of a call, as far as there are three.
fn arguments(call: &str) -> Vec<&str> {
    let mut rest = call.trim_start();
    let mut found = Vec::new();
    while found.len() < 3 {
        let end = match rest.strip_prefix('"') {
            Some(text) => text.find('"').map_or(rest.len(), |at| at + 2),
            None => rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()),
        };
        found.push(&rest[..end]);
        match rest[end..].trim_start().strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => break,
        }
    }
    found
}

/// How many places make a line with this outcome.
fn made() -> BTreeMap<Outcome, usize> {
    let mut texts = sources(&repository().join("deploy/src/doctor"));
    texts.push(std::fs::read_to_string(repository().join("deploy/src/command/doctor.rs")).unwrap());
    let mut made = BTreeMap::new();
    for text in texts {
        let text = text.split("#[cfg(test)]").next().unwrap();
        for verdict in ["failed", "warning"] {
            let constructor = format!("Line::{verdict}(");
            for (at, _) in text.match_indices(&constructor) {
                let check = match arguments(&text[at + constructor.len()..])[0] {
                    "CHECK" => {
                        text[..at].rsplit("const CHECK: &str = ").next().unwrap().split(';').next().unwrap()
                    }
                    literal => literal,
                };
                *made.entry((check.trim_matches('"').to_owned(), verdict.to_owned())).or_insert(0) += 1;
            }
        }
    }
    made
}

/// With which words this suite expects an outcome. Where a table gives the verdict, both are meant.
fn provoked() -> BTreeMap<Outcome, BTreeSet<String>> {
    let mut provoked: BTreeMap<Outcome, BTreeSet<String>> = BTreeMap::new();
    for text in sources(&repository().join("tests/tests/doctor")) {
        for call in text.split(".expect(").skip(1) {
            let [check, verdict, words] = arguments(call)[..] else { continue };
            if words == "\"\"" {
                continue;
            }
            let verdicts = match verdict {
                "verdict" => vec!["failed", "warning"],
                literal => vec![literal.trim_matches('"')],
            };
            for verdict in verdicts {
                let outcome = (check.trim_matches('"').to_owned(), verdict.to_owned());
                provoked.entry(outcome).or_default().insert(words.to_owned());
            }
        }
    }
    provoked
}

#[test]
fn every_line_that_warns_or_fails_is_brought_about_by_a_test_of_this_suite() {
    let (made, provoked) = (made(), provoked());
    let without: Vec<_> = made
        .iter()
        .map(|(outcome, places)| (outcome, places, provoked.get(outcome).map_or(0, BTreeSet::len)))
        .filter(|(_, places, tests)| tests < places)
        .collect();
    assert!(without.is_empty(), "(check, verdict), places that say it, tests of it: {without:?}");

    let known: BTreeSet<&str> = made.keys().map(|(check, _)| check.as_str()).collect();
    // It only names who was here.
    let all: BTreeSet<&str> =
        gatehouse::doctor::CHECKS.into_iter().filter(|check| *check != "clients").collect();
    assert_eq!(known, all);
}
