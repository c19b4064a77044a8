use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

const HOME: &str = "/data/people/ada";

fn list(os: Os) -> ProtectedList {
    ProtectedList::built_in(os).unwrap()
}

fn paths(os: Os) -> ProtectedPaths {
    ProtectedPaths::new(list(os), &[PathBuf::from(HOME)])
}

/// A path that a line of the list means, for a given home.
fn sample(rule: &str, home: &str) -> PathBuf {
    let filled = rule.replace("[0-9]", "7").replace('?', "y");
    let filled = match (filled.strip_prefix("~/"), filled.strip_prefix("**/")) {
        (Some(rest), _) => format!("{home}/{}", rest.replace('*', "zz")),
        (_, Some(rest)) => format!("/srv/deep/down/{}", rest.replace('*', "zz")),
        _ => filled.replace('*', "zz"),
    };
    PathBuf::from(filled)
}

#[test]
fn every_line_protects_what_it_names_and_what_is_below_for_every_home() {
    for os in [Os::Linux, Os::MacOs] {
        let paths = paths(os);
        for rule in list(os).rules() {
            for home in [HOME, "/root", "/home/bob", "/Users/Eve"] {
                let path = sample(&rule.path, home);
                assert!(paths.rule_for(&path).is_some(), "{os:?} {} {}", rule.path, path.display());
                assert!(paths.rule_for(&path.join("deeper/still")).is_some(), "{os:?} {}", rule.path);
                let shouted = path.to_str().unwrap().to_uppercase();
                assert!(paths.rule_for(Path::new(&shouted)).is_some(), "{os:?} {shouted}");
            }
        }
    }
}

#[test]
fn every_line_is_needed() {
    for os in [Os::Linux, Os::MacOs] {
        let whole = list(os);
        for (index, rule) in whole.rules().iter().enumerate() {
            let mut without = whole.clone();
            without.rules.remove(index);
            let without = ProtectedPaths::new(without, &[PathBuf::from(HOME)]);
            let path = sample(&rule.path, HOME);
            let other = without.rule_for(&path).map(|r| r.path.clone());
            assert_eq!(other, None, "{os:?}: {} is covered by another line", rule.path);
        }
    }
}

#[test]
fn every_line_has_a_reason_and_its_reason_is_what_a_refusal_says() {
    for os in [Os::Linux, Os::MacOs] {
        let paths = paths(os);
        for rule in list(os).rules() {
            assert!(rule.reason.len() > 3, "{}", rule.path);
            assert_eq!(
                paths.rule_for(&sample(&rule.path, HOME)).map(|r| &r.reason),
                Some(&rule.reason),
                "{}",
                rule.path
            );
        }
    }
}

#[test]
fn ordinary_files_are_not_protected() {
    let paths = paths(Os::Linux);
    for path in [
        "/",
        "/etc/passwd",
        "/etc/hosts",
        "/etc/ssh/sshd_config",
        "/etc/ssh/ssh_host_rsa_key.pub",
        "/home/bob",
        "/home/bob/project/src/main.rs",
        "/home/bob/project/.claude/settings.json",
        "/home/bob/project/.npmrc",
        "/home/bob/project/.env.example",
        "/home/bob/project/.env.production.example",
        "/home/bob/project/.github/workflows/ci.yml",
        "/home/bob/project/core/mod.rs",
        "/home/bob/project/environment.ts",
        "/home/bob/.cargo/registry/src/x/lib.rs",
        "/home/bob/.bashrc",
        "/data/people/bob/.npmrc",
        "/tmp/work/file",
    ] {
        assert_eq!(paths.rule_for(Path::new(path)), None, "{path}");
    }
}

#[test]
fn env_files_are_protected_by_name_everywhere_and_their_templates_are_not() {
    for os in [Os::Linux, Os::MacOs] {
        let paths = paths(os);
        for name in
            [".env", ".ENV", ".env.local", ".env.production", "prod.env", ".envrc", ".env.example.local"]
        {
            assert!(paths.rule_for(&Path::new("/srv/app").join(name)).is_some(), "{name}");
        }
        for name in
            [".env.example", ".env.sample", ".env.template", ".env.dist", ".Env.Example", "example.env"]
        {
            assert_eq!(paths.rule_for(&Path::new("/srv/app").join(name)), None, "{name}");
        }
    }
}

#[test]
fn an_exception_never_reaches_into_a_protected_directory() {
    let paths = paths(Os::Linux);
    for path in ["/home/bob/.ssh/.env.example", "/home/bob/.config/gh/example.env", "/srv/.env/.env.example"]
    {
        assert!(paths.rule_for(Path::new(path)).is_some(), "{path}");
    }
}

#[test]
fn lines_of_the_configuration_and_gatehouses_own_places_are_added_and_nothing_takes_them_off() {
    let mut list = list(Os::Linux);
    list.add(Rule::new("/srv/private", "configured").unwrap());
    list.add(Rule::new("**/secret-*.yaml", "configured").unwrap());
    let paths = ProtectedPaths::new(list, &[]);
    assert_eq!(paths.rule_for(Path::new("/srv/private/x")).unwrap().reason, "configured");
    assert!(paths.rule_for(Path::new("/a/b/SECRET-1.yaml")).is_some());
    assert!(paths.rule_for(Path::new("/srv/privateer")).is_none());
}

#[test]
fn a_home_at_the_root_protects_nothing_by_accident() {
    let paths = ProtectedPaths::new(list(Os::Linux), &[PathBuf::from("/")]);
    assert_eq!(paths.rule_for(Path::new("/.claude-tools/x")), None);
}

#[test]
fn existing_finds_what_is_there_and_follows_no_link() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".ssh")).unwrap();
    std::fs::create_dir_all(home.path().join(".cargo")).unwrap();
    std::fs::write(home.path().join(".cargo/credentials.toml"), "x").unwrap();
    std::fs::write(home.path().join(".tool_history"), "x").unwrap();
    let paths = ProtectedPaths::new(list(Os::Linux), &[home.path().to_owned()]);
    let found = paths.existing();
    for name in [".ssh", ".cargo/credentials.toml", ".tool_history"] {
        assert!(found.contains(&home.path().join(name)), "{name}: {found:?}");
    }
    assert!(!found.contains(&home.path().join(".gnupg")));
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(".ssh".to_owned()),
        Just(".env".to_owned()),
        Just("home".to_owned()),
        Just(".config".to_owned()),
        Just("etc".to_owned()),
        "[a-zA-Z.é\u{301}]{1,6}"
    ]
    .prop_filter("a name", |name| name != "." && name != "..")
}

proptest! {
    #[test]
    fn protection_is_inherited_and_blind_to_case_and_composition(names in proptest::collection::vec(any_name(), 1..6), more in any_name()) {
        let paths = paths(Os::Linux);
        let path = PathBuf::from(format!("/{}", names.join("/")));
        let protected = paths.rule_for(&path).is_some();
        if protected {
            prop_assert!(paths.rule_for(&path.join(&more)).is_some());
        }
        let upper = PathBuf::from(path.to_str().unwrap().to_uppercase());
        prop_assert_eq!(paths.rule_for(&upper).is_some(), protected);
        let composed: String = unicode_normalization::UnicodeNormalization::nfc(path.to_str().unwrap()).collect();
        prop_assert_eq!(paths.rule_for(Path::new(&composed)).is_some(), protected);
    }

    #[test]
    fn going_down_name_by_name_says_the_same_as_the_whole_path(names in proptest::collection::vec(any_name(), 1..6)) {
        let paths = paths(Os::Linux);
        let path = PathBuf::from(format!("/{}", names.join("/")));
        let parent = paths.position(path.parent().unwrap());
        let step_by_step = match &parent {
            Ok(position) => paths.rule_for_child(position, path.file_name().unwrap()),
            Err(rule) => Some(*rule),
        };
        prop_assert_eq!(step_by_step, paths.rule_for(&path));
    }

    #[test]
    fn any_text_is_a_pattern_or_an_error(text in ".{0,40}", path in "(/[^/\0]{1,8}){1,4}") {
        if let Ok(rule) = Rule::new(&text, "any") {
            let mut list = list(Os::Linux);
            list.add(rule);
            let _ = ProtectedPaths::new(list, &[]).rule_for(Path::new(&path));
        }
    }
}
