//! `gatehouse install` and `uninstall` on a disk that stands for the system, and what clap makes of the command line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gatehouse_tests::binaries::binary;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A user of this machine, with a name that needs care in every kind of file.
struct User {
    top: tempfile::TempDir,
}

const NAME: &str = "Jörg 100% $HOME <&>";

impl User {
    fn new() -> Self {
        Self { top: tempfile::tempdir().unwrap() }
    }

    fn home(&self) -> PathBuf {
        Path::new("/home").join(NAME)
    }

    fn root(&self) -> PathBuf {
        self.top.path().join("root")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary("gatehouse"));
        command.args(arguments).env_clear().env("HOME", self.home()).env("PATH", "/usr/bin:/odd dir/%h:/bin");
        command.env("OPENAI_API_KEY", "sk-secret").env("HTTPS_PROXY", "http://secret@proxy");
        command.args(["--runtime-dir", "/run/user/7/gatehouse"]).output().unwrap()
    }

    fn install(&self, more: &[&str]) -> Output {
        let root = self.root();
        self.run(&[&["install", "--as-root", "--root", root.to_str().unwrap()], more].concat())
    }

    /// Every file below the root, with its content.
    fn files(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![self.root()];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    waiting.push(path);
                } else {
                    let name = path.strip_prefix(self.root()).unwrap().display().to_string();
                    found.insert(name, std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        found
    }
}

#[test]
fn installing_twice_is_installing_once_and_uninstalling_leaves_the_state_alone() {
    let user = User::new();
    let first = user.install(&[]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let files = user.files();
    let units = format!("home/{NAME}/.config/systemd/user/");
    let names: Vec<_> = files.keys().filter(|name| name.starts_with(&units)).collect();
    assert_eq!(names.len(), 2, "{files:?}");
    let executor = &files[&format!("{units}gatehouse-executor.service")];
    assert!(executor.contains("\"/home/Jörg 100%% $$HOME <&>/.local/state/gatehouse\""), "{executor}");
    assert!(executor.contains("Environment=\"PATH=/usr/bin:/odd dir/%%h:/bin\""), "{executor}");
    for text in files.values() {
        assert!(!text.contains("sk-secret") && !text.contains("secret@proxy"), "{text}");
    }

    let again = user.install(&[]);
    assert_eq!(text(&again.stdout).matches("unchanged").count(), 2, "{}", text(&again.stdout));
    assert_eq!(user.files(), files);
    let moved = user.install(&["--listen", "127.0.0.1:9999"]);
    assert!(text(&moved.stdout).contains("updated"), "{}", text(&moved.stdout));

    let state = user.root().join(user.home().strip_prefix("/").unwrap()).join(".local/state/gatehouse");
    std::fs::write(state.join("ledger.db"), "precious").unwrap();
    let root = user.root();
    let gone = user.run(&["uninstall", "--root", root.to_str().unwrap()]);
    assert!(gone.status.success(), "{}", text(&gone.stderr));
    let left = user.files();
    assert_eq!(left.into_values().collect::<Vec<_>>(), ["precious"]);
    let nothing = user.run(&["uninstall", "--root", root.to_str().unwrap()]);
    assert_eq!(nothing.status.code(), Some(1), "there is nothing left to uninstall");
}

#[test]
fn a_unit_that_was_edited_is_neither_overwritten_nor_removed() {
    let user = User::new();
    user.install(&[]);
    let unit = user.root().join(user.home().strip_prefix("/").unwrap());
    let unit = unit.join(".config/systemd/user/gatehouse-front.service");
    std::fs::write(&unit, "edited").unwrap();
    let refused = user.install(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    let root = user.root();
    let kept = user.run(&["uninstall", "--root", root.to_str().unwrap()]);
    assert_eq!(kept.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&unit).unwrap(), "edited");
    assert!(user.install(&["--force"]).status.success());
    assert!(user.run(&["uninstall", "--root", root.to_str().unwrap()]).status.success());
    assert!(!unit.exists());
}

#[test]
fn a_dry_run_prints_the_files_and_writes_nothing() {
    let user = User::new();
    for (manager, mark) in [("systemd", "KillMode=process"), ("launchd", "<key>AbandonProcessGroup</key>")] {
        let shown = user.run(&["install", "--as-root", "--dry-run", "--manager", manager]);
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        assert!(text(&shown.stdout).contains(mark), "{}", text(&shown.stdout));
    }
    assert!(!user.home().exists() && user.files().is_empty());
}

#[test]
fn launch_agents_have_their_logs_where_a_person_looks_for_them() {
    let user = User::new();
    let made = user.install(&["--manager", "launchd"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let files = user.files();
    let agents = format!("home/{NAME}/Library/LaunchAgents/");
    let front = &files[&format!("{agents}dev.gatehouse.front.plist")];
    assert!(
        front.contains("/home/Jörg 100% $HOME &lt;&amp;&gt;/Library/Logs/gatehouse/front.log"),
        "{front}"
    );
    let logs = user.root().join(user.home().strip_prefix("/").unwrap()).join("Library/Logs/gatehouse");
    assert!(logs.is_dir(), "launchd makes no directories");
}

/// What `--flag PATH` names, in the order of the arguments.
fn paths<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let flags = arguments
        .windows(2)
        .filter(|pair| ["--config", "--state-dir", "--runtime-dir", "--key-file"].contains(&pair[0]));
    flags.map(|pair| pair[1]).collect()
}

#[test]
fn launch_agents_say_to_launchd_what_it_has_to_know() {
    let user = User::new();
    assert!(user.install(&["--manager", "launchd"]).status.success());
    let home = user.home();
    for (service, program) in [("executor", "executor-svc"), ("front", "mcp-front")] {
        let name = format!("dev.gatehouse.{service}");
        let file = user.root().join(home.strip_prefix("/").unwrap()).join("Library/LaunchAgents");
        let list = plist::Value::from_file(file.join(format!("{name}.plist"))).unwrap();
        let list = list.as_dictionary().unwrap();
        let text = |key: &str| list[key].as_string().unwrap();
        assert_eq!(text("Label"), name);
        let words: Vec<_> = list["ProgramArguments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_string().unwrap())
            .collect();
        assert_eq!(
            Path::new(words[0]),
            binary(program).canonicalize().unwrap(),
            "launchd looks nowhere else"
        );
        let paths = paths(&words);
        assert!(!paths.is_empty() && paths.iter().all(|path| path.starts_with('/')), "{words:?}");
        assert_eq!(text("StandardOutPath"), "/dev/null");
        let log = home.join(format!("Library/Logs/gatehouse/{service}.log"));
        assert_eq!(Path::new(text("StandardErrorPath")), log);
        let yes = |key: &str| list[key].as_boolean() == Some(true);
        assert!(yes("RunAtLoad") && yes("AbandonProcessGroup"), "{list:?}");
        let again = list["KeepAlive"].as_dictionary().unwrap();
        assert_eq!(again["SuccessfulExit"].as_boolean(), Some(false), "ended by itself is ended for good");
        assert_eq!(list["ThrottleInterval"].as_signed_integer(), Some(5));
    }
}

#[test]
fn root_has_to_say_that_root_is_meant_and_a_service_has_a_port_of_its_own() {
    let user = User::new();
    if nix::unistd::geteuid().is_root() {
        let shown = user.run(&["install", "--dry-run"]);
        assert!(shown.status.success(), "looking is for everybody: {}", text(&shown.stderr));
        let refused = user.run(&["install", "--no-start"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("--as-root"));
    }
    assert_eq!(user.install(&["--listen", "127.0.0.1:0"]).status.code(), Some(2));
    assert!(user.files().is_empty());
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let user = User::new();
    for shell in ["bash", "zsh", "fish"] {
        let made = user.run(&["completions", shell]);
        assert!(made.status.success() && text(&made.stdout).contains("doctor"), "{shell}");
    }
    let pages = user.top.path().join("man");
    assert!(user.run(&["man", pages.to_str().unwrap()]).status.success());
    for page in ["gatehouse.1", "gatehouse-doctor.1", "gatehouse-install.1", "gatehouse-undo.1"] {
        let page =
            std::fs::read_to_string(pages.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(page.contains(".TH"), "{page}");
    }
    assert_eq!(user.run(&["completions", "frobnicate"]).status.code(), Some(2));
}
