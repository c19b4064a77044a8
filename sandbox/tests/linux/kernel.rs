//! The kernel. Every line of every list is tried for real.

use std::collections::BTreeMap;

use gatehouse_sandbox::launch::{Confinement, Network, Policy, program_files};
use serde::Deserialize;

use crate::host::Host;
use crate::probe::{Cause, PROBE, command, inside, inside_of, is_root, outside, refused};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    call: String,
    #[serde(default, rename = "line")]
    _line: usize,
    #[serde(default)]
    args: Vec<i64>,
    #[serde(default = "yes")]
    outside: bool,
    #[serde(default)]
    x86: bool,
}

const fn yes() -> bool {
    true
}

fn attempts(list: &str) -> Vec<(Attempt, Vec<String>)> {
    #[derive(Deserialize)]
    struct Numbers {
        x86_64: Option<i64>,
        aarch64: Option<i64>,
    }
    let mut all: BTreeMap<String, Vec<Attempt>> =
        toml::from_str(include_str!("../data/seccomp-attempts.toml")).unwrap();
    let numbers: BTreeMap<String, Numbers> =
        toml::from_str(include_str!("../../policy/syscalls.toml")).unwrap();
    let native = |call: &str| {
        let known = &numbers[call];
        if cfg!(target_arch = "x86_64") { known.x86_64 } else { known.aarch64 }
    };
    let attempts = all.remove(list).unwrap().into_iter();
    attempts
        .filter_map(|attempt| {
            let number = native(&attempt.call);
            assert!(number.is_some() || attempt.x86, "{}", attempt.call);
            let words = std::iter::once(number?).chain(attempt.args.iter().copied());
            let words =
                std::iter::once("call".to_owned()).chain(words.map(|word| word.to_string())).collect();
            Some((attempt, words))
        })
        .collect()
}

fn expected(call: &str) -> Cause {
    Cause::Errno(if call == "clone3" { "ENOSYS" } else { "EPERM" }.into())
}

/// Root may make every call outside, so what it gets there is not the filter's answer. An ordinary user may not: for it
/// the lists are proven by root's run.
fn control(attempt: &Attempt, words: &[String]) {
    if is_root() && attempt.outside {
        let control = outside(words);
        assert_ne!(control, expected(&attempt.call), "{}", attempt.call);
    }
}

#[tokio::test]
async fn no_command_makes_a_call_that_the_lists_deny() {
    let host = Host::new();
    let confined = command(&host);
    for (attempt, words) in attempts("base").into_iter().chain(attempts("network-none")) {
        assert_eq!(inside(&confined, &words).await, expected(&attempt.call), "{words:?}");
        control(&attempt, &words);
    }
}

#[tokio::test]
async fn nor_does_one_that_has_loopback_to_itself() {
    let host = Host::new();
    let confined = Confinement { network: Network::PrivateLoopback, ..command(&host) };
    for (attempt, words) in attempts("base").into_iter().chain(attempts("network-loopback")) {
        assert_eq!(inside(&confined, &words).await, expected(&attempt.call), "{words:?}");
        control(&attempt, &words);
    }
}

#[tokio::test]
async fn nor_does_claude_code() {
    let programs = program_files(PROBE.as_ref()).unwrap();
    let network = Network::Listeners { ports: vec![4001] };
    let confined = Confinement { programs, network, ..Confinement::default() };
    for (attempt, words) in attempts("base").into_iter().chain(attempts("network-ports")) {
        let cause = inside_of(Policy::Claude, &confined, &words).await;
        assert_eq!(cause, expected(&attempt.call), "{words:?}");
        control(&attempt, &words);
    }
}

#[test]
fn nor_does_a_process_that_has_confined_itself() {
    let host = Host::new();
    let dir = host.text("sockets");
    for (attempt, words) in attempts("base").into_iter().chain(attempts("self")) {
        let words_inside = [vec!["confined".to_owned(), dir.clone()], words.clone()].concat();
        assert_eq!(outside(&words_inside), expected(&attempt.call), "{words:?}");
        control(&attempt, &words);
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn foreign_gates_into_the_kernel_kill() {
    let host = Host::new();
    let confined = command(&host);
    for attempt in ["x32", "old-gate"] {
        assert_eq!(inside(&confined, &[attempt]).await, Cause::Signal(nix::libc::SIGSYS), "{attempt}");
        let control = outside(&[attempt]);
        assert!(!matches!(control, Cause::Signal(_)), "{attempt}: {control:?}");
    }
}

#[tokio::test]
async fn no_namespace_is_left_or_entered_through_proc() {
    let host = Host::new();
    let confined = command(&host);
    let victim = host.victim();
    refused(
        &confined,
        &["stat", &format!("/proc/{victim}/ns/mnt")],
        &["ENOENT"],
        crate::probe::Control::Anybody,
    )
    .await;
    // Of the first process's namespaces not even the names are shown.
    refused(&confined, &["stat", "/proc/1/ns/mnt"], &["EACCES"], crate::probe::Control::Nobody).await;
}
