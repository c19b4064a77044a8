use std::collections::BTreeMap;

use super::*;

fn profile(rules: &str) -> Result<Profile, Broken> {
    let parameters = BTreeMap::from([("P".to_owned(), "/p".to_owned())]);
    Profile::read(&format!("(version 1) (deny default) ; a comment\n{rules}"), &parameters)
}

fn reads(rules: &str, path: &str) -> bool {
    let query = Query { operation: "file-read-data".into(), path: Some(path.into()), ..Query::default() };
    profile(rules).unwrap().allows(&query).unwrap()
}

#[test]
fn the_last_rule_that_fits_decides_and_else_the_default() {
    let rules = "(allow file-read* (subpath \"/a\")) (deny file* (literal \"/a/b\")) (allow file-read-data (regex #\"^/a/b$\"))";
    for (path, expected) in [("/a", true), ("/a/b", true), ("/ab", false), ("/c", false)] {
        assert_eq!(reads(rules, path), expected, "{path}");
    }
    assert!(!reads("(allow file-read* (subpath \"/a\")) (deny file* (subpath \"/a\"))", "/a/x"));
    assert!(reads("(allow file-read-data)", "/anything"));
}

#[test]
fn filters_are_joined_as_they_say() {
    assert!(reads("(allow file-read* (subpath (param \"P\")))", "/p/x"));
    assert!(!reads("(allow file-read* (require-all (subpath \"/a\") (literal \"/b\")))", "/a"));
    assert!(reads(
        "(allow file-read* (require-all (subpath \"/a\") (require-not (literal \"/a/b\"))))",
        "/a/c"
    ));
    assert!(!reads(
        "(allow file-read* (require-all (subpath \"/a\") (require-not (literal \"/a/b\"))))",
        "/a/b"
    ));
    assert!(reads("(allow file-read* (require-any (literal \"/x\") (literal \"/a\")))", "/a"));
    assert!(!reads("(allow file-read* (require-all (vnode-type DIRECTORY) (literal \"/a\")))", "/a"));
}

#[test]
fn what_is_not_known_is_an_error() {
    for (rules, error) in [
        ("(allow file-levitate)", "unknown operation"),
        ("(allow network*)", "unknown operation"),
        ("(allow file-read* (moon-phase FULL))", "filter"),
        ("(allow file-read* (literal \"relative\"))", "filter"),
        ("(allow file-read* (literal \"/a/\"))", "filter"),
        ("(allow file-read* (literal (param \"Q\")))", "no parameter"),
        ("(allow file-read* (literal (string-append \"/a\" \"/b\")))", "filter"),
        ("(deny file-read* (require-not (literal \"/a\")))", "filter"),
        ("(allow file-read* (global-name \"x\"))", "filter"),
        ("(allow network-outbound (remote ip \"1.1.1.1:80\"))", "filter"),
        ("(allow network-outbound (remote ip \"*:80\"))", "filter"),
        ("(allow network-outbound (local ip \"localhost:80\"))", "filter"),
        ("(allow process-exec* (literal \"/a\") (with no-sandbox))", "filter"),
        ("(allow)", "not a rule"),
        ("(import \"system.sb\")", "not a rule"),
        ("(allow file-read*", "not an expression"),
        ("(allow file-read* (literal \"/a\\\"\"))", "not an expression"),
        ("(allow file-read* 'x)", "not an expression"),
        ("allow", "not a rule"),
    ] {
        let found = profile(rules).map(drop).unwrap_err().to_string();
        assert!(found.contains(error), "{rules}: {found}");
    }
    assert!(Profile::read("(version 1)", &BTreeMap::new()).is_err(), "no default");
    let group = Query { operation: "file-read*".into(), ..Query::default() };
    assert!(profile("").unwrap().allows(&group).is_err(), "nobody makes a group of operations");
}

#[test]
fn calls_are_refused_only_by_name() {
    let allowed = |rules: &str, name: &str| {
        let query = Query { operation: "syscall-unix".into(), name: Some(name.into()), ..Query::default() };
        profile(rules).unwrap().allows(&query).unwrap()
    };
    assert!(allowed("", "SYS_setsid"));
    assert!(!allowed("(deny syscall-unix (syscall-number SYS_setsid))", "SYS_setsid"));
}
