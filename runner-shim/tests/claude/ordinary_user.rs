//! The suite as an ordinary user.
#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user that owns nothing here. The number need not have a name.
const USER: u32 = 1000;

/// What takes long and says nothing about users: prompts, and waits.
const LEFT_OUT: [&str; 3] = ["prompts::", "a_watchdog_that_fires", "a_long_call_is_kept_alive"];

/// Runs the other tests once more, without any privilege.
#[test]
fn the_suite_holds_for_an_ordinary_user_as_well() {
    if !nix::unistd::geteuid().is_root() {
        // This is that run.
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--test-threads", "2"]).args(LEFT_OUT.iter().flat_map(|name| ["--skip", name]));
    let output = command.uid(USER).gid(USER).env("HOME", "/nonexistent").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test hostile::") && text.contains("test confined::"), "{text}");
}
