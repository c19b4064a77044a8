//! How commands end, and that nothing of them is left.

use std::time::Instant;

use super::*;

#[tokio::test]
async fn an_exit_code_and_a_signal_are_told_apart() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let receipt = commander.sh("echo out; echo err >&2; exit 3").await;
    assert_eq!(end(&receipt), (Some("command_failed"), Some(3), "out\n"));
    assert_eq!((receipt["stderr"].as_str(), receipt["signal"].as_str()), (Some("err\n"), None));
    // The shell's own `kill` is no program that could be refused by name.
    let receipt = commander.sh("kill -SEGV $$").await;
    assert_eq!((receipt["exit_code"].as_i64(), receipt["signal"].as_str()), (None, Some("SIGSEGV")));
    let receipt = commander.sh("exit 137").await;
    assert_eq!((receipt["exit_code"].as_i64(), receipt["signal"].as_str()), (Some(137), None));
}

/// Children of every kind that outlives its parent: detached twice, deaf to SIGTERM, stopped, holding the output.
fn strays(word: &str) -> String {
    format!(
        "for n in 1 2 3 4 5 6 7 8 9 10; do (setsid sh -c 'trap \"\" TERM HUP; sleep {word} & sleep {word}' &) ; done; \
         (sleep {word} & while ! grep -qaz '^{word}$' /proc/$!/cmdline; do :; done; kill -STOP $!); sleep {word} & while [ $(grep -laz '^{word}$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l) -lt 22 ]; do :; done; echo up;"
    )
}

#[tokio::test]
async fn when_the_time_is_up_the_whole_tree_is_gone() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let word = "98765.4321";
    let script = format!("trap '' TERM; {} while :; do sleep {word}; done", strays(word));
    let receipt = commander.run(json!({"argv": ["sh", "-c", script], "timeout_seconds": 3})).await;
    assert_eq!(end(&receipt), (Some("timed_out"), None, "up\n"), "{receipt}");
    assert_eq!((receipt["timed_out"].as_bool(), receipt["signal"].as_str()), (Some(true), Some("SIGKILL")));
    assert_eq!(processes_with(word), 0);
}

#[tokio::test]
async fn a_command_that_listens_to_the_request_ends_with_its_own_words() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let script = "trap 'echo tidied; exit 0' TERM; while :; do sleep 0.05; done";
    let receipt = commander.run(json!({"argv": ["sh", "-c", script], "timeout_seconds": 1})).await;
    assert_eq!(end(&receipt), (Some("timed_out"), Some(0), "tidied\n"), "{receipt}");
}

#[tokio::test]
async fn what_stays_behind_when_the_program_ends_is_ended_with_it() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let begun = Instant::now();
    let word = "98764.4321";
    let receipt = commander.sh(&format!("{} exit 0", strays(word))).await;
    assert_eq!(end(&receipt), (None, Some(0), "up\n"), "{receipt}");
    assert!(begun.elapsed().as_secs() < 60, "nobody waited for who holds the output open");
    assert_eq!(processes_with(word), 0);
}

#[tokio::test]
async fn endless_output_ends_the_command_and_keeps_beginning_and_end() {
    let ground = Ground::new("");
    let mut commander = Commander::new(&ground).await;
    let receipt = commander.sh("echo first; yes 98763.4321").await;
    assert_eq!(receipt["code"], "output_cut", "{receipt}");
    assert!(receipt["stdout"].as_str().unwrap().starts_with("first\n98763.4321\n"));
    assert!(receipt["dropped"]["stdout"].as_u64().unwrap() > 60_000_000, "{}", receipt["dropped"]);
    let receipt = commander.sh("head -c 3000000 /dev/zero").await;
    assert_eq!(receipt["ok"], true, "one endless line is only cut");
    assert_eq!(processes_with("98763.4321"), 0);
}

#[tokio::test]
async fn a_full_scratch_ends_the_command() {
    let ground = Ground::new("[commands]\nscratch_bytes = 8388608\n");
    let mut commander = Commander::new(&ground).await;
    let receipt = commander
        .sh("for n in 1 2 3 4 5 6 7 8; do head -c 4000000 /dev/zero > /tmp/f$n; done; sleep 1000")
        .await;
    assert_eq!(receipt["code"], "disk_full", "{receipt}");
    assert!(receipt["hint"].as_str().unwrap().contains("commands.scratch_bytes"));
}
