//! The profiles as text.

use std::path::Path;

use super::super::evaluator::{OPERATIONS, Query, Target};
use super::sample;

/// The profiles as they were last reviewed. `UPDATE_PROFILES=1` writes them anew, for the next review.
#[test]
fn the_profiles_are_the_ones_that_were_reviewed() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/seatbelt");
    for policy in sample::POLICIES {
        let profile = sample::profile(policy);
        let parameters: String =
            profile.parameters.iter().map(|(name, path)| format!("; {name}={}\n", path.display())).collect();
        let text = format!("{parameters}\n{}", profile.text);
        let file = dir.join(format!("{}.sb", policy.name()));
        if std::env::var_os("UPDATE_PROFILES").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "{}", file.display());
    }
}

#[test]
fn every_rule_is_conditional_but_for_a_few() {
    for policy in sample::POLICIES {
        for rule in sample::understood(&sample::profile(policy)).rules {
            let known = ["process-fork", "file-read-metadata"];
            let may_stand_alone =
                !rule.allow || rule.operations.iter().all(|name| known.contains(&name.as_str()));
            assert!(!rule.filters.is_empty() || may_stand_alone, "{rule:?}");
        }
    }
}

#[test]
fn every_block_has_its_reason_and_every_star_is_known() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("policy/seatbelt");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for block in text.split("\n\n").filter(|block| block.contains("(allow") || block.contains("(deny")) {
            let reason = block.starts_with("; ")
                || block.contains("(ipc-posix-name-regex")
                || block.contains("PORT_*");
            assert!(reason, "{block}");
            assert!(block.matches("_*").count() <= 1, "{block}");
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen}");
    for policy in sample::POLICIES {
        assert!(!sample::profile(policy).text.contains("_*"));
    }
}

#[test]
fn the_number_of_rules_is_bounded() {
    for policy in sample::POLICIES {
        let profile = sample::understood(&sample::profile(policy));
        let filters: usize = profile.rules.iter().map(|rule| rule.filters.len()).sum();
        assert!(profile.rules.len() < 30 && filters < 150, "{policy:?}: {} {filters}", profile.rules.len());
    }
}

/// Services by which a program could leave its sandbox, read secrets or have another program act for it.
#[test]
fn forbidden_services_are_in_no_profile() {
    let words = [
        "SecurityServer",
        "securityd",
        "trustd",
        "ocspd",
        "launchservicesd",
        "lsd",
        "tccd",
        "pasteboard",
        "cfprefsd",
        "appleevents",
        "sysmond",
        "mDNSResponder",
        "no-sandbox",
        "import",
        "(allow default)",
        "network*",
        "(allow sysctl-read)",
        "mach-register",
        "iokit",
        "lsopen",
        "job-creation",
        "(local ip \"localhost:*\")",
    ];
    for policy in sample::POLICIES {
        let text = sample::profile(policy).text;
        // `file*` holds none of these words; names of files that users have are parameters.
        assert!(words.iter().all(|word| !text.contains(word)), "{policy:?}");
    }
}

/// Of everything that can be done to anything, only this is allowed to all, whatever it is done to.
#[test]
fn nothing_is_allowed_by_an_oversight() {
    for policy in sample::POLICIES {
        let profile = sample::understood(&sample::profile(policy));
        for (operation, _) in OPERATIONS {
            let query = Query {
                operation: (*operation).to_owned(),
                path: Some("/somewhere/else".to_owned()),
                name: Some("somebody.else".to_owned()),
                ip: Some(("other".to_owned(), "443".to_owned())),
                target: Some(Target::Others),
                ..Query::default()
            };
            let whole_system =
                ["file-map-executable", "file-read-data", "file-read-metadata", "file-read-xattr"]
                    .into_iter()
                    .chain(["process-exec", "process-exec-interpreter", "process-fork", "syscall-unix"]);
            let expected: Vec<&str> = match policy.name() {
                "command" | "git" => whole_system.collect(),
                "claude" => vec!["file-read-metadata", "process-fork", "syscall-unix"],
                _ => vec!["file-read-metadata", "syscall-unix"],
            };
            assert_eq!(profile.allows(&query), Ok(expected.contains(operation)), "{policy:?} {operation}");
        }
    }
}
