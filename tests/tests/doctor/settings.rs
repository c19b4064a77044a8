//! Settings, directories, private files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use gatehouse_tests::up::Up;

use crate::Patient;

fn open(patient: &Patient, name: &str, mode: u32) {
    fs::set_permissions(patient.at(name), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_mistake_in_the_configuration_is_told_first_and_alone() {
    let patient = Patient::new().configured("[limits]\nlease_second = 60\n");
    let found = patient.doctor(&[]);
    found.expect("configuration", "failed", "lease_seconds");
    assert_eq!(found.verdict("executor"), "-");
}

#[test]
fn what_others_could_read_or_write_is_told_with_the_command_that_mends_it() {
    let patient = Patient::new();
    let _up = Up::start(&patient.place, None);
    patient.doctor(&[]).expect("private_directories", "ok", "");
    open(&patient, "s", 0o755);
    open(&patient, "s/ledger.db", 0o644);
    let found = patient.doctor(&[]);
    found.expect("private_directories", "failed", "chmod 700");
    found.expect("private_directories", "failed", "chmod 600");

    patient.doctor(&[]).expect("key_file", "ok", "0600");
    open(&patient, "s/front.key", 0o640);
    patient.doctor(&[]).expect("key_file", "failed", "mode 0640");
    open(&patient, "s/front.key", 0o600);
    fs::hard_link(patient.at("s/front.key"), patient.at("other")).unwrap();
    patient.doctor(&[]).expect("key_file", "failed", "2 names");

    patient.doctor(&[]).expect("configuration_file", "ok", "");
    open(&patient, "config.toml", 0o666);
    patient.doctor(&[]).expect("configuration_file", "warning", "chmod go-w");
}

#[test]
fn where_no_gateway_was_there_is_no_key() {
    Patient::new().doctor(&[]).expect("key_file", "failed", "is not there");
}

#[test]
fn a_place_that_is_another_users_or_another_kind_is_told_with_the_way_out() {
    let patient = Patient::new();
    fs::create_dir(patient.at("s")).unwrap();
    open(&patient, "s", 0o700);
    fs::write(patient.at("s/content"), "no directory").unwrap();
    let found = patient.doctor(&[]);
    found.expect("private_directories", "failed", "s/content is something else than it should be");
    found.expect("private_directories", "failed", "mv '");

    // Root can give a place away; whoever is not root has one that is root's.
    let (patient, owner) = if nix::unistd::geteuid().is_root() {
        let patient = Patient::new();
        fs::create_dir(patient.at("s")).unwrap();
        std::os::unix::fs::chown(patient.at("s"), Some(1000), None).unwrap();
        (patient, 1000)
    } else {
        (Patient::new().configured("[front]\nkey_file = \"/etc/passwd\"\n"), 0)
    };
    let found = patient.doctor(&[]);
    let check = if owner == 0 { "key_file" } else { "private_directories" };
    found.expect(check, "failed", &format!("belongs to user {owner}"));
}
