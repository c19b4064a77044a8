//! The suite as an ordinary user.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user that owns nothing here. The number need not have a name.
const USER: u32 = 1000;

/// Runs every other test once more, without any privilege.
#[test]
fn the_whole_suite_holds_for_an_ordinary_user_as_well() {
    if !nix::unistd::geteuid().is_root() {
        // This is that run.
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--test-threads", "2"])
        .uid(USER)
        .gid(USER)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}
