//! The list of probes, as it stands in its file, and what must hold for every line of it.

use std::collections::BTreeSet;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    pub line: u32,
    pub what: String,
    #[serde(default)]
    pub policy: Policy,
    #[serde(default)]
    pub attempt: Vec<String>,
    #[serde(default)]
    pub linux: Vec<String>,
    #[serde(default)]
    pub macos: Vec<String>,
    #[serde(default)]
    pub control: Control,
    pub no_control: Option<String>,
    #[serde(default)]
    tests: Vec<String>,
    #[serde(default)]
    seatbelt: Vec<toml::Table>,
    linux_only: Option<String>,
    macos_only: Option<String>,
    no_seatbelt: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    #[default]
    Command,
    Git,
    Claude,
    #[serde(rename = "self")]
    Itself,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    #[default]
    Anybody,
    Root,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    probe: Vec<Probe>,
}

pub fn probes() -> Vec<Probe> {
    toml::from_str::<File>(include_str!("../data/probes.toml")).unwrap().probe
}

/// The sources of the suites, which a test's name leads to.
const SOURCES: [(&str, &str); 14] = [
    ("git", include_str!("git.rs")),
    ("life", include_str!("life.rs")),
    ("network", include_str!("network.rs")),
    ("tools", include_str!("tools.rs")),
    ("linux::claude", include_str!("../linux/claude.rs")),
    ("linux::escapes", include_str!("../linux/escapes.rs")),
    ("linux::files", include_str!("../linux/files.rs")),
    ("linux::hostile_git", include_str!("../linux/hostile_git.rs")),
    ("linux::kernel", include_str!("../linux/kernel.rs")),
    ("linux::masks", include_str!("../linux/masks.rs")),
    ("linux::network", include_str!("../linux/network.rs")),
    ("linux::processes", include_str!("../linux/processes.rs")),
    ("linux::required", include_str!("../linux/required.rs")),
    ("linux::self_confinement", include_str!("../linux/self_confinement.rs")),
];

/// Whether there is a test of that name, with the attribute that makes it one.
fn exists(test: &str) -> bool {
    let Some((module, name)) = test.rsplit_once("::") else { return false };
    let Some((_, source)) = SOURCES.iter().find(|(known, _)| *known == module) else { return false };
    let declared = [format!("test]\nasync fn {name}("), format!("test]\nfn {name}(")];
    declared.iter().any(|text| source.contains(text))
}

#[test]
fn every_line_makes_a_real_attempt_on_linux_or_says_why_not() {
    for probe in probes() {
        let tried = (!probe.attempt.is_empty() && !probe.linux.is_empty()) || !probe.tests.is_empty();
        assert!(tried != probe.macos_only.is_some(), "{}: {}", probe.line, probe.what);
        for test in &probe.tests {
            assert!(exists(test), "{}: {} names {test}, which does not exist", probe.line, probe.what);
        }
    }
}

#[test]
fn every_line_means_something_on_a_mac_or_says_why_not() {
    for probe in probes() {
        let at = format!("{}: {}", probe.line, probe.what);
        assert!(probe.seatbelt.is_empty() == probe.no_seatbelt.is_some(), "{at}");
        let attempted = !probe.attempt.is_empty();
        assert!(!attempted || probe.macos.is_empty() == probe.linux_only.is_some(), "{at}");
        assert!(attempted || (probe.macos.is_empty() && probe.linux.is_empty()), "{at}");
        let reasons = [&probe.no_control, &probe.linux_only, &probe.macos_only, &probe.no_seatbelt];
        assert!(reasons.into_iter().flatten().all(|reason| reason.len() > 5), "{at}");
    }
}

#[test]
fn the_lines_are_numbered_without_a_gap() {
    let numbers: BTreeSet<u32> = probes().iter().map(|probe| probe.line).collect();
    assert_eq!(numbers, (1..=68).collect());
}
