//! Claude Code and the shim run confined, or not at all.

use std::os::unix::fs::PermissionsExt;

use gatehouse_proto::v1;

use crate::shim::{Setting, beside};

/// Puts a launcher of the test's own beside a shim of its own: a shell script, which leads to the real one.
pub(crate) fn launcher(setting: &mut Setting, script: &str) {
    let shim = setting.relay().set_up();
    let real = beside(std::path::Path::new(env!("CARGO_BIN_EXE_runner-shim")), "sandbox-launch");
    let path = shim.with_file_name("sandbox-launch");
    std::fs::remove_file(&path).unwrap();
    let script = script.replace("LAUNCH", real.to_str().unwrap());
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The end of a run that must not come to a turn.
async fn failure(setting: &Setting) -> v1::RunFailed {
    let mut shim = setting.start();
    let failed = shim.executor.failed().await;
    shim.gone().await;
    shim.executor.with(|ledger| assert!(ledger.turns.is_empty(), "a turn was opened"));
    failed
}

#[tokio::test]
async fn the_layers_are_told_before_the_first_turn_and_not_before_they_are_in_force() {
    let shim = Setting::new().start();
    let turn = shim.executor.turn(0).await;
    let told = shim.executor.with(|ledger| ledger.enforced_by.clone());
    let [before, after] = &told[..] else { panic!("{told:?}") };
    assert!(before.is_empty());
    for layer in ["userns", "pidns", "netns", "minimal_root", "capabilities", "landlock", "seccomp"] {
        assert!(after.iter().any(|told| told == layer), "{layer} in {after:?}");
    }
    shim.executor.reply(&turn, "done", &[]);
    shim.executor.finished().await;
    assert!(shim.log().contains("confined"), "{}", shim.log());
}

#[tokio::test]
async fn a_layer_that_cannot_be_had_ends_the_run_with_its_name_the_call_and_the_remedy() {
    for (expected_version, without) in [("2.1.247", "the check of the version"), ("", "the run")] {
        let mut setting = Setting::new();
        setting.plan.expected_version = expected_version.to_owned();
        // Parts of /proc are covered, as in a container: no other /proc can be mounted then.
        launcher(
            &mut setting,
            "exec unshare -Urm sh -c 'mount -t tmpfs none /proc/fs && exec LAUNCH \"$@\"' sh \"$@\"",
        );
        let failed = failure(&setting).await;
        assert_eq!(failed.code, "sandbox_unavailable", "{without}: {}", failed.message);
        for part in ["layer proc", "mount proc", "systempaths=unconfined"] {
            assert!(failed.message.contains(part), "{part} not in {}", failed.message);
        }
    }
}

#[tokio::test]
async fn a_shim_that_cannot_confine_itself_ends_claude_code_and_says_why() {
    let mut setting = Setting::new();
    setting.plan.expected_version.clear();
    let (there, away) = (setting.runtime_dir().join("runner"), setting.runtime_dir().join("away"));
    // The directory that it is to keep is gone by then; the connection that it has goes on.
    let script = format!("/bin/mv {} {} && exec LAUNCH \"$@\"", there.display(), away.display());
    launcher(&mut setting, &script);
    let failed = failure(&setting).await;
    assert_eq!(failed.code, "sandbox_unavailable", "{}", failed.message);
    for part in ["the runner cannot confine itself", "layer minimal_root", "realpath", "No such file"] {
        assert!(failed.message.contains(part), "{part} not in {}", failed.message);
    }
    let needle = setting.plan.claude_session_id.as_bytes();
    let lines = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let left = lines.filter(|line| line.windows(needle.len()).any(|part| part == needle)).count();
    assert_eq!(left, 0, "Claude Code lives on");
}

#[tokio::test]
async fn a_script_in_claude_codes_place_is_not_run() {
    let setting = Setting::new();
    let (script, mark) = (setting.top.path().join("script"), setting.top.path().join("mark"));
    std::fs::write(&script, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut setting = setting;
    setting.plan.claude_binary = script.to_str().unwrap().to_owned();
    let failed = failure(&setting).await;
    assert_eq!(failed.code, "claude_not_started");
    assert!(failed.message.contains("is not a 64-bit ELF program"), "{}", failed.message);
    assert!(!mark.exists());
}
