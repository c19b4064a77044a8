//! `gatehouse doctor`: every line that can be printed, brought about once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod calls;
mod executor;
mod front;
mod programs;
mod settings;
mod surroundings;
mod table;
mod versions;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use gatehouse_tests::binaries::binary;
use gatehouse_tests::claude;
use gatehouse_tests::up::{Place, Up};
use serde_json::Value;

/// A place for a gateway, and the surroundings that the doctor is to find.
struct Patient {
    place: Place,
    variables: Vec<(String, String)>,
}

/// What the doctor said.
struct Findings {
    said: Value,
    code: i32,
}

impl Patient {
    fn new() -> Self {
        let place = Place::fresh();
        for directory in ["h/bin", "h/.config"] {
            std::fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        Self { place, variables: Vec::new() }
    }

    /// A path below its place.
    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Adds lines to its configuration.
    fn configured(self, lines: &str) -> Self {
        std::fs::write(self.at("config.toml"), lines).unwrap();
        self
    }

    /// Sets a variable for the doctor.
    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// A command in its surroundings: a HOME of its own, and nothing of this shell's but PATH.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("gatehouse"));
        let path = format!("{}:{}", self.at("h/bin").display(), std::env::var("PATH").unwrap());
        command.args(arguments).env_clear().env("PATH", path).env("HOME", self.at("h"));
        command.env("USER", "nobody-of-this-name").envs(self.variables.iter().cloned());
        for (flag, name) in [("--config", "config.toml"), ("--state-dir", "s"), ("--runtime-dir", "r")] {
            command.arg(flag).arg(self.at(name));
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn doctor(&self, more: &[&str]) -> Findings {
        let output = self.run(&[&["doctor", "--json"], more].concat());
        let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            panic!(
                "no JSON: {}\n{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        });
        Findings { said, code: output.status.code().unwrap() }
    }
}

impl Findings {
    /// The verdict of a check, and its words; `-` if there is no such line.
    fn line(&self, check: &str) -> (String, String) {
        let line = self.said["checks"].as_array().unwrap().iter().find(|line| line["check"] == check);
        let Some(line) = line else { return ("-".to_owned(), String::new()) };
        let word = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        assert_eq!(word("what_to_do").is_empty(), word("verdict") == "ok", "{line}");
        (word("verdict"), format!("{} | {}", word("found"), word("what_to_do")))
    }

    fn verdict(&self, check: &str) -> String {
        self.line(check).0
    }

    /// Asserts a verdict, and words that must stand there.
    fn expect(&self, check: &str, verdict: &str, words: &str) {
        let (found, text) = self.line(check);
        assert_eq!(found, verdict, "{check}: {text}");
        assert!(text.contains(words), "{check}: {text}");
        assert_eq!(self.code, i32::from(self.said["ok"] == false));
        if verdict == "failed" {
            assert_eq!(self.said["ok"], false);
        }
    }
}

#[test]
fn a_gateway_in_order_passes_every_check() {
    let Some(claude) = claude() else { return };
    let patient = Patient::new().with("CLAUDE_BIN", claude.display().to_string());
    let _up = Up::start(&patient.place, Some(&claude));
    let found = patient.doctor(&[]);
    let failed: Vec<_> = found.said["checks"]
        .as_array()
        .unwrap()
        .iter() // Another test starts two of its kind meanwhile.
        .filter(|line| line["verdict"] == "failed" && line["check"] != "tunnel_running")
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    let seen: BTreeSet<&str> =
        found.said["checks"].as_array().unwrap().iter().map(|line| line["check"].as_str().unwrap()).collect();
    // What an installation alone has; no services are installed here.
    let absent = ["service_environment", "linger"];
    let all: BTreeSet<&str> =
        gatehouse::doctor::CHECKS.into_iter().filter(|check| !absent.contains(check)).collect();
    assert_eq!(seen, all);
    for check in
        ["claude_version", "sandbox_layers", "sandbox_canaries", "front_key", "front_protocol", "ledger"]
    {
        assert_eq!(found.verdict(check), "ok", "{check}");
    }
    assert_eq!(found.said["last_call"]["place"], "never_reached", "the doctor itself is no client");

    let screen = patient.run(&["doctor"]);
    let text = String::from_utf8(screen.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains("ok       claude_version") && text.contains("The last call"), "{text}");
}
