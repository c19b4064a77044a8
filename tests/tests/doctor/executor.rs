//! The executor, its ledger, what it keeps, and the disk.

use std::os::unix::fs::FileExt;
use std::process::Command;

use gatehouse_tests::processes;
#[cfg(target_os = "linux")]
use gatehouse_tests::skip;
use gatehouse_tests::up::Up;
use nix::sys::signal::Signal;

use crate::Patient;

#[test]
fn a_gateway_that_does_not_run_is_missed() {
    let found = Patient::new().doctor(&["--listen", "127.0.0.1:1"]);
    found.expect("executor", "failed", "gatehouse up");
    assert_eq!(found.verdict("ledger"), "-", "nobody is there to be asked");
}

#[test]
fn an_executor_that_hangs_does_not_hang_the_doctor() {
    let patient = Patient::new();
    let up = Up::start(&patient.place, None);
    let executor = up.child("executor-svc").expect("it runs");
    processes::signal(executor, Signal::SIGSTOP);
    let found = patient.doctor(&[]);
    processes::signal(executor, Signal::SIGCONT);
    found.expect("executor", "failed", "one is there and says nothing");
    found.expect("front_ready", "failed", "does not reach its executor");
    patient.doctor(&[]).expect("executor", "ok", "");
}

/// Runs a gateway once, so that there is a ledger with entries, and lets `damage` have its file.
fn damaged(damage: impl FnOnce(&std::fs::File, Vec<u8>)) -> Patient {
    let patient = Patient::new();
    let mut up = Up::start(&patient.place, Some("/nonexistent/claude".as_ref()));
    let start = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "native_session_start", "arguments": {"prompt": "Hello.", "working_directory": "/usr",
        "idempotency_key": "a-key-of-this-test-0001", "wait_seconds": 5}}});
    crate::calls::post(&up.endpoint(), &start);
    up.signal(Signal::SIGTERM);
    assert_eq!(up.ended().code(), Some(0));
    // What is still in the log of changes goes into the file first.
    let file = patient.at("s/ledger.db");
    let moved = Command::new("sqlite3").arg(&file).arg("PRAGMA wal_checkpoint(TRUNCATE)").output();
    if moved.is_err() {
        let log = std::fs::metadata(patient.at("s/ledger.db-wal")).map_or(0, |found| found.len());
        assert_eq!(log, 0, "without sqlite3 this test needs an executor that empties its log at the end");
    }
    let bytes = std::fs::read(&file).unwrap();
    damage(&std::fs::File::options().write(true).open(&file).unwrap(), bytes);
    patient
}

#[test]
fn a_journal_entry_that_was_changed_is_told_by_its_place() {
    let patient = damaged(|file, bytes| {
        let word = b"session.created";
        let places: Vec<_> =
            (0..bytes.len() - word.len()).filter(|&at| bytes[at..].starts_with(word)).collect();
        assert!(!places.is_empty(), "an entry says so");
        for at in places {
            file.write_all_at(b"session.creaTed", at as u64).unwrap();
        }
    });
    let _up = Up::start(&patient.place, None);
    patient.doctor(&[]).expect("ledger", "failed", "journal entry 1");
}

#[test]
fn a_damaged_file_is_told_in_the_words_of_the_database() {
    let patient = damaged(|file, _| {
        // The number of free pages, of which there are none.
        file.write_all_at(&7_u32.to_be_bytes(), 36).unwrap();
    });
    let _up = Up::start(&patient.place, None);
    patient.doctor(&[]).expect("ledger", "failed", "the file is damaged");
}

#[test]
fn a_ledger_that_cannot_be_read_any_more_is_told_in_the_executors_words() {
    let patient = Patient::new();
    let mut up = Up::start(&patient.place, None);
    up.signal(Signal::SIGTERM);
    assert_eq!(up.ended().code(), Some(0));
    let _up = Up::start(&patient.place, None);
    // All but the header, under the executor's feet; what it has not read yet it will not be able to.
    for name in ["s/ledger.db", "s/ledger.db-wal"] {
        let Ok(file) = std::fs::File::options().write(true).open(patient.at(name)) else { continue };
        let length = file.metadata().unwrap().len();
        file.write_all_at(&vec![0xff; usize::try_from(length).unwrap().saturating_sub(100)], 100).unwrap();
    }
    patient.doctor(&[]).expect("ledger", "failed", "it cannot be looked at");
}

#[test]
fn a_store_that_is_nearly_full_warns_and_a_full_one_fails() {
    for (bytes, verdict) in [(900_000, "warning"), (1_100_000, "failed")] {
        let patient = Patient::new().configured("[writing]\ncontent_bytes = 1048576\n");
        let name = "ab".repeat(32);
        std::fs::create_dir_all(patient.at("s/content/ab")).unwrap();
        for directory in ["s", "s/content", "s/content/ab"] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(patient.at(directory), mode).unwrap();
        }
        std::fs::write(patient.at("s/content/ab").join(name), vec![0; bytes]).unwrap();
        let _up = Up::start(&patient.place, None);
        patient.doctor(&[]).expect("content_store", verdict, "gatehouse prune");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_disk_warns_and_a_full_one_fails() {
    for (size, verdict) in [("500m", "warning"), ("50m", "failed")] {
        let patient = Patient::new();
        std::fs::create_dir(patient.at("s")).unwrap();
        let doctor = patient.command(&["doctor", "--json"]);
        let mut words = vec![doctor.get_program().to_owned()];
        words.extend(doctor.get_args().map(std::ffi::OsStr::to_owned));
        let script =
            format!("mount -t tmpfs -o size={size} none {} && exec \"$@\"", patient.at("s").display());
        let mut small = Command::new("unshare");
        small.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", &script, "sh"]).args(words);
        let output = small.env("HOME", patient.at("h")).output().unwrap();
        if output.stdout.is_empty() && skip("userns") {
            return;
        }
        let said = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        let found = crate::Findings { said, code: output.status.code().unwrap() };
        found.expect("disk_space", verdict, "Make room");
    }
}
