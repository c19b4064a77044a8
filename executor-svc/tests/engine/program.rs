//! Programs that a test makes for itself.

/// Makes a file a program. By another process: while this one has it open for writing, a child that another test is just starting
/// has it open as well for a moment, and what somebody may write cannot be executed.
pub fn make_program(path: impl AsRef<std::path::Path>) {
    let copy = "cp \"$0\" \"$0.copy\" && chmod 755 \"$0.copy\" && mv -f \"$0.copy\" \"$0\"";
    let made = std::process::Command::new("/bin/sh").args(["-c", copy]).arg(path.as_ref()).status();
    assert!(made.unwrap().success());
}
