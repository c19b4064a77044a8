//! What a command finds in its environment: a table, with a reason for each line.
//!
//! It starts empty. Nothing of the executor's environment comes along (tokens, agents' sockets, loaders' variables) but
//! the places where tools are installed.

use std::collections::BTreeMap;
use std::ffi::OsString;

use gatehouse_sandbox::launch::{SCRATCH, SCRATCH_HOME};

use crate::config::CommandSettings;

/// A variable with its reason.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name, or the beginning of several (with `*`).
    pub name: &'static str,
    /// Why it is there.
    pub reason: &'static str,
}

struct Set {
    name: &'static str,
    value: &'static str,
    #[allow(dead_code, reason = "for whoever reads the table")]
    reason: &'static str,
}

const fn set(name: &'static str, value: &'static str, reason: &'static str) -> Set {
    Set { name, value, reason }
}

/// Every command has these. `/tmp` is the session's scratch, the only place that can be written.
const ALWAYS: &[Set] = &[
    set("HOME", SCRATCH_HOME, "the real one can be neither written nor, in part, read"),
    set("TMPDIR", SCRATCH, "temporary files"),
    set("XDG_CACHE_HOME", "/tmp/home/.cache", "caches"),
    set("XDG_CONFIG_HOME", "/tmp/home/.config", "tools that write their settings at the first run"),
    set("XDG_DATA_HOME", "/tmp/home/.local/share", "tools that keep data"),
    set("XDG_STATE_HOME", "/tmp/home/.local/state", "tools that keep state"),
    set("XDG_RUNTIME_DIR", SCRATCH, "the real one holds other programs' sockets"),
    set("LANG", "C.UTF-8", "text is UTF-8, messages are English"),
    set("TERM", "dumb", "there is no terminal"),
    set("NO_COLOR", "1", "colour codes are noise to the reader"),
    set("PAGER", "cat", "a pager would wait for a key"),
    set("CARGO_TARGET_DIR", "/tmp/target", "cargo builds a read-only checkout"),
    set("CARGO_NET_OFFLINE", "true", "there is no network; cargo says so at once"),
    set("CARGO_TERM_COLOR", "never", "colour codes are noise to the reader"),
    set("CARGO_INCREMENTAL", "0", "half the scratch"),
    set("GIT_CONFIG_NOSYSTEM", "1", "git must not be led to programs by the machine's settings"),
    set("GIT_OPTIONAL_LOCKS", "0", "git status would like to write the index"),
    set("GIT_PAGER", "cat", "a pager would wait for a key"),
    set("GIT_TERMINAL_PROMPT", "0", "nobody could answer"),
    set("GIT_NO_LAZY_FETCH", "1", "there is no network to fetch objects from"),
    set("npm_config_cache", "/tmp/npm", "npm's cache and logs"),
    set("npm_config_update_notifier", "false", "there is no network"),
    set("npm_config_offline", "true", "there is no network; npm says so at once"),
    set("YARN_CACHE_FOLDER", "/tmp/yarn", "yarn's cache"),
    set("COREPACK_ENABLE_NETWORK", "0", "there is no network"),
    set("PYTHONPYCACHEPREFIX", "/tmp/pycache", "compiled files do not go beside the sources"),
    set("PYTEST_ADDOPTS", "-o cache_dir=/tmp/pytest", "pytest's cache does not go beside the tests"),
    set("MYPY_CACHE_DIR", "/tmp/mypy", "mypy's cache does not go beside the sources"),
    set("RUFF_CACHE_DIR", "/tmp/ruff", "ruff's cache does not go beside the sources"),
    set("COVERAGE_FILE", "/tmp/coverage", "coverage's data does not go beside the sources"),
    set("HYPOTHESIS_STORAGE_DIRECTORY", "/tmp/hypothesis", "hypothesis' examples do not go beside the tests"),
    set("GOCACHE", "/tmp/go-build", "go's build cache"),
    set("GOTMPDIR", SCRATCH, "go's temporary files"),
    set("GOPROXY", "off", "there is no network; go says so at once"),
    set("GOTOOLCHAIN", "local", "go would fetch another version of itself"),
    set("GOTELEMETRY", "off", "go would write beside its settings"),
    set("GRADLE_USER_HOME", "/tmp/gradle", "gradle's caches"),
    set("CCACHE_DIR", "/tmp/ccache", "ccache's cache"),
    set("DOTNET_CLI_HOME", "/tmp/dotnet", "dotnet's state"),
    set("DOTNET_CLI_TELEMETRY_OPTOUT", "1", "there is no network"),
];

/// What a call may set beside these. Whoever writes the call also writes the command line, so this keeps out mistakes
/// (a `PATH` that hides a program, a loader's variable) rather than attacks, which the sandbox bounds.
pub const SAFE_VARIABLES: &[Variable] = &[
    Variable { name: "RUST_BACKTRACE", reason: "how much a panic tells" },
    Variable { name: "RUST_LOG", reason: "what a program logs" },
    Variable { name: "RUST_TEST_*", reason: "how tests run" },
    Variable { name: "RUST_MIN_STACK", reason: "how tests run" },
    Variable { name: "RUSTFLAGS", reason: "how it is built" },
    Variable { name: "RUSTDOCFLAGS", reason: "how it is built" },
    Variable { name: "CARGO_PROFILE_*", reason: "how it is built" },
    Variable { name: "CARGO_BUILD_JOBS", reason: "how much at a time" },
    Variable { name: "PROPTEST_*", reason: "how many cases" },
    Variable { name: "INSTA_*", reason: "how snapshots are compared" },
    Variable { name: "NODE_ENV", reason: "which settings a program uses" },
    Variable { name: "NODE_OPTIONS", reason: "memory and warnings of node" },
    Variable { name: "NODE_PATH", reason: "where modules are" },
    Variable { name: "DEBUG", reason: "what a program logs" },
    Variable { name: "PYTHONPATH", reason: "where modules are" },
    Variable { name: "PYTHONHASHSEED", reason: "order of sets" },
    Variable { name: "PYTHONWARNINGS", reason: "what Python warns of" },
    Variable { name: "PYTHONUNBUFFERED", reason: "order of the output" },
    Variable { name: "DJANGO_SETTINGS_MODULE", reason: "which settings a program uses" },
    Variable { name: "GOFLAGS", reason: "how it is built" },
    Variable { name: "GOARCH", reason: "what it is built for" },
    Variable { name: "GOOS", reason: "what it is built for" },
    Variable { name: "GOMAXPROCS", reason: "how much at a time" },
    Variable { name: "CGO_ENABLED", reason: "how it is built" },
    Variable { name: "CC", reason: "which compiler" },
    Variable { name: "CXX", reason: "which compiler" },
    Variable { name: "CFLAGS", reason: "how it is built" },
    Variable { name: "CXXFLAGS", reason: "how it is built" },
    Variable { name: "LDFLAGS", reason: "how it is built" },
    Variable { name: "MAKEFLAGS", reason: "how much at a time" },
    Variable { name: "JAVA_TOOL_OPTIONS", reason: "memory of Java" },
    Variable { name: "LANG", reason: "language and order" },
    Variable { name: "LC_*", reason: "language and order" },
    Variable { name: "TZ", reason: "time zone" },
    Variable { name: "CI", reason: "how tests behave" },
    Variable { name: "COLUMNS", reason: "width of tables" },
    Variable { name: "LINES", reason: "height of tables" },
    Variable { name: "FORCE_COLOR", reason: "colour" },
    Variable { name: "NO_COLOR", reason: "colour" },
    Variable { name: "SOURCE_DATE_EPOCH", reason: "builds that can be repeated" },
    Variable { name: "LOG_LEVEL", reason: "what a program logs" },
    Variable { name: "VERBOSE", reason: "what a program logs" },
    Variable { name: "APP_ENV", reason: "which settings a program uses" },
    Variable { name: "RAILS_ENV", reason: "which settings a program uses" },
    Variable { name: "RACK_ENV", reason: "which settings a program uses" },
    Variable { name: "MIX_ENV", reason: "which settings a program uses" },
    Variable { name: "TEST_*", reason: "how tests run" },
    Variable { name: "PYTEST_*", reason: "how tests run" },
    Variable { name: "JEST_*", reason: "how tests run" },
    Variable { name: "VITEST_*", reason: "how tests run" },
    Variable { name: "GIT_DIR", reason: "another repository" },
    Variable { name: "GIT_WORK_TREE", reason: "another repository" },
];

/// Whether a call may set this variable.
#[must_use]
pub fn is_safe(name: &str) -> bool {
    SAFE_VARIABLES.iter().any(|variable| match variable.name.strip_suffix('*') {
        Some(start) => name.starts_with(start) && name.len() > start.len(),
        None => name == variable.name,
    })
}

/// The whole environment of a command.
pub(super) fn of(
    settings: &CommandSettings,
    asked: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, OsString> {
    let mut all: BTreeMap<String, OsString> =
        ALWAYS.iter().map(|line| (line.name.to_owned(), line.value.into())).collect();
    // Directories that hold a colon cannot be part of it.
    all.insert("PATH".to_owned(), std::env::join_paths(&settings.path).unwrap_or_default());
    all.extend(settings.tools.iter().map(|(name, place)| (name.clone(), place.clone().into_os_string())));
    all.extend(asked.into_iter().flatten().map(|(name, value)| (name.clone(), value.into())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_reason_and_is_there_once() {
        let mut seen = std::collections::BTreeSet::new();
        for line in ALWAYS {
            assert!(!line.reason.is_empty() && seen.insert(line.name), "{}", line.name);
        }
        let mut seen = std::collections::BTreeSet::new();
        for line in SAFE_VARIABLES {
            assert!(!line.reason.is_empty() && seen.insert(line.name), "{}", line.name);
        }
    }

    #[test]
    fn what_leads_programs_astray_cannot_be_set() {
        for name in [
            "PATH",
            "HOME",
            "TMPDIR",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "CARGO_HOME",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "BASH_ENV",
            "ENV",
            "TEST_",
            "LC",
            "",
        ] {
            assert!(!is_safe(name), "{name}");
        }
        for name in ["RUST_LOG", "LC_ALL", "TEST_DATABASE", "CI"] {
            assert!(is_safe(name), "{name}");
        }
    }

    #[test]
    fn a_call_may_change_what_it_may_set_and_the_rest_stays() {
        let settings =
            CommandSettings { path: vec!["/usr/bin".into(), "/bin".into()], ..CommandSettings::default() };
        let asked = BTreeMap::from([("LANG".to_owned(), "de_DE.UTF-8".to_owned())]);
        let all = of(&settings, Some(&asked));
        assert_eq!(
            (all["LANG"].to_str(), all["PATH"].to_str()),
            (Some("de_DE.UTF-8"), Some("/usr/bin:/bin"))
        );
        assert_eq!(all["HOME"], "/tmp/home");
    }
}
