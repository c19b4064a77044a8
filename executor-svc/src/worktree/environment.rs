//! What a git of ours finds in its environment and in its settings: tables, with a reason for each line.
//!
//! The environment starts empty. Settings come as variables too (`GIT_CONFIG_COUNT`): they win over every file, whatever
//! that file includes, go to the children that git starts of itself, and take names of any spelling.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

struct Line {
    name: &'static str,
    value: &'static str,
    #[allow(dead_code, reason = "for whoever reads the table")]
    reason: &'static str,
}

const fn line(name: &'static str, value: &'static str, reason: &'static str) -> Line {
    Line { name, value, reason }
}

const VARIABLES: &[Line] = &[
    line("PATH", "/dev/null", "git finds its own parts beside itself; nothing else is to be found by name"),
    line("HOME", "/dev/null", "no settings, attributes or credentials of the user"),
    line("XDG_CONFIG_HOME", "/dev/null", "the same"),
    line("LC_ALL", "C", "some answers are recognised by their words"),
    line("GIT_CONFIG_GLOBAL", "/dev/null", "the user's settings may name programs"),
    line("GIT_CONFIG_SYSTEM", "/dev/null", "so may the machine's"),
    line("GIT_CONFIG_NOSYSTEM", "1", "the same, for a git that does not know the line above"),
    line("GIT_ATTR_NOSYSTEM", "1", "attributes choose filters"),
    line("GIT_NO_LAZY_FETCH", "1", "objects that are not here are not fetched"),
    line("GIT_ALLOW_PROTOCOL", "", "no way of fetching is allowed, not even from a directory"),
    line("GIT_TERMINAL_PROMPT", "0", "nobody could answer"),
    line("GIT_ASKPASS", "", "nobody is asked by a program either"),
    line("GIT_OPTIONAL_LOCKS", "0", "a look does not write the index"),
    line("GIT_LITERAL_PATHSPECS", "1", "a path is a path"),
    line(
        "GIT_COMMITTER_NAME",
        "Gatehouse",
        "the worktree's reflog needs a name, and the user's is not known",
    ),
    line("GIT_COMMITTER_EMAIL", "gatehouse@localhost", "the same"),
];

const SETTINGS: &[Line] = &[
    line("core.hooksPath", "/dev/null", "no hooks"),
    line("core.fsmonitor", "false", "names a program that is asked what changed, or starts a daemon"),
    line("core.attributesFile", "/dev/null", "attributes choose filters"),
    line("core.sshCommand", "", "a program"),
    line("core.gitProxy", "", "a program"),
    line("core.askPass", "", "a program"),
    line("core.pager", "", "a program"),
    line("core.alternateRefsCommand", "", "a program"),
    line("credential.helper", "", "a program; the empty value ends the list"),
    line("protocol.allow", "never", "no way of fetching is allowed"),
    line(
        "submodule.recurse",
        "false",
        "a submodule has settings of its own, which the variables do not reach",
    ),
    line("diff.ignoreSubmodules", "dirty", "to look into a submodule, git would start itself in there"),
    line("status.submoduleSummary", "false", "the same"),
    line("diff.orderFile", "/dev/null", "the file need not be there, and no order is wanted"),
    line("core.ignoreStat", "false", "changes in the new worktree would not be seen"),
    line("core.splitIndex", "false", "the index is one file"),
    line(
        "worktree.useRelativePaths",
        "false",
        "the two halves of a worktree name each other by absolute path",
    ),
    line("gc.auto", "0", "nothing is tidied up on the way"),
    line("maintenance.auto", "false", "the same"),
];

/// The names of a repository's settings, as far as anything here depends on them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// From the output of `git config --list --name-only -z`: section and variable in lower case, what lies between as it
    /// is written.
    pub(super) fn parse(list: &[u8]) -> Self {
        let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Self(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Whether there is a setting of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The first setting by which objects of this repository are left with a remote.
    pub(super) fn promisor(&self) -> Option<&str> {
        let is_promise = |name: &str| {
            name == "extensions.partialclone"
                || parts(name).is_some_and(|(section, _, variable)| {
                    section == "remote" && matches!(variable, "promisor" | "partialclonefilter")
                })
        };
        self.0.iter().map(String::as_str).find(|name| is_promise(name))
    }

    /// The filter drivers that have settings.
    pub(super) fn filters(&self) -> BTreeSet<&str> {
        self.drivers("filter")
    }

    fn drivers(&self, wanted: &str) -> BTreeSet<&str> {
        let of = |name: &'_ String| -> Option<(usize, usize)> {
            let (section, driver, _) = parts(name)?;
            (section == wanted).then_some((section.len() + 1, driver.len()))
        };
        self.0
            .iter()
            .filter_map(|name| of(name).map(|(start, length)| &name[start..start + length]))
            .collect()
    }

    /// Whether every name that a program could hang on is spelled the way git spells it: one that is not UTF-8 could not
    /// be switched off.
    pub(super) fn is_exact(&self) -> bool {
        !self.0.iter().any(|name| name.contains(char::REPLACEMENT_CHARACTER))
    }

    /// What switches off the programs that these settings name.
    fn switched_off(&self) -> Vec<(String, &'static str)> {
        let mut off = Vec::new();
        for driver in self.drivers("filter") {
            off.extend(["clean", "smudge", "process"].map(|which| (format!("filter.{driver}.{which}"), "")));
            // Else git gives up where the filter does nothing.
            off.push((format!("filter.{driver}.required"), "false"));
        }
        off.extend(
            self.drivers("credential").into_iter().map(|url| (format!("credential.{url}.helper"), "")),
        );
        off.extend(self.drivers("hook").into_iter().map(|hook| (format!("hook.{hook}.enabled"), "false")));
        off
    }
}

/// Section, what lies between, and variable.
fn parts(name: &str) -> Option<(&str, &str, &str)> {
    let (section, rest) = name.split_once('.')?;
    let (between, variable) = rest.rsplit_once('.')?;
    Some((section, between, variable))
}

/// The whole environment of a git.
pub(super) fn of(names: &Names, excludes: Option<&Path>) -> BTreeMap<String, OsString> {
    let mut all: BTreeMap<String, OsString> =
        VARIABLES.iter().map(|line| (line.name.to_owned(), line.value.into())).collect();
    let mut settings: Vec<(String, OsString)> =
        SETTINGS.iter().map(|line| (line.name.to_owned(), line.value.into())).collect();
    settings.extend(names.switched_off().into_iter().map(|(name, value)| (name, value.into())));
    // What the repository itself says about this goes before what the user has for all.
    if let Some(file) = excludes.filter(|_| !names.has("core.excludesfile")) {
        settings.push(("core.excludesFile".to_owned(), file.into()));
    }
    all.insert("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string().into());
    for (number, (name, value)) in settings.into_iter().enumerate() {
        all.insert(format!("GIT_CONFIG_KEY_{number}"), name.into());
        all.insert(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(all: &BTreeMap<String, OsString>) -> BTreeMap<String, String> {
        let text = |name: String| all[&name].to_str().unwrap().to_owned();
        let count: usize = text("GIT_CONFIG_COUNT".to_owned()).parse().unwrap();
        (0..count)
            .map(|at| (text(format!("GIT_CONFIG_KEY_{at}")), text(format!("GIT_CONFIG_VALUE_{at}"))))
            .collect()
    }

    #[test]
    fn every_line_has_its_reason_and_is_there_once() {
        for table in [VARIABLES, SETTINGS] {
            let mut seen = BTreeSet::new();
            for line in table {
                assert!(!line.reason.is_empty() && seen.insert(line.name), "{}", line.name);
            }
        }
    }

    #[test]
    fn each_filter_is_switched_off_whatever_its_name() {
        let names =
            Names::parse(b"filter.lfs.process\0filter.A.b =\n\xc3\xa9.clean\0filter.required\0core.bare\0");
        assert_eq!(names.filters(), BTreeSet::from(["A.b =\n\u{e9}", "lfs"]));
        let all = settings(&of(&names, None));
        for name in ["lfs", "A.b =\n\u{e9}"] {
            for which in ["clean", "smudge", "process"] {
                assert_eq!(all[&format!("filter.{name}.{which}")], "");
            }
            assert_eq!(all[&format!("filter.{name}.required")], "false");
        }
    }

    #[test]
    fn credential_helpers_and_configured_hooks_are_switched_off() {
        let all = settings(&of(
            &Names::parse(b"credential.https://x.y/z.helper\0hook.lint.command\0credential.helper\0"),
            None,
        ));
        assert_eq!(all["credential.https://x.y/z.helper"], "");
        assert_eq!(all["credential.helper"], "");
        assert_eq!(all["hook.lint.enabled"], "false");
    }

    #[test]
    fn promises_are_found_under_each_of_their_names() {
        for list in [
            &b"extensions.partialclone\0"[..],
            b"core.bare\0remote.origin.promisor\0",
            b"remote.a.b.partialclonefilter\0",
        ] {
            assert!(Names::parse(list).promisor().is_some(), "{}", String::from_utf8_lossy(list));
        }
        assert_eq!(Names::parse(b"remote.origin.url\0promisor.remote\0").promisor(), None);
    }

    #[test]
    fn a_name_that_is_no_text_is_told() {
        assert!(!Names::parse(b"filter.\xff.clean\0").is_exact());
        assert!(Names::parse("filter.é.clean\0".as_bytes()).is_exact());
    }

    #[test]
    fn the_users_own_list_of_what_to_ignore_gives_way_to_the_repositorys() {
        let file = Some(Path::new("/home/u/.config/git/ignore"));
        assert_eq!(settings(&of(&Names::default(), file))["core.excludesFile"], "/home/u/.config/git/ignore");
        assert!(
            !settings(&of(&Names::parse(b"core.excludesfile\0"), file)).contains_key("core.excludesFile")
        );
    }
}
