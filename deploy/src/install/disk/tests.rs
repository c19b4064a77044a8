use std::os::unix::fs::PermissionsExt;

use super::super::Manager;
use super::*;

fn plan(content: &str) -> Plan {
    let file = |name: &str| PlannedFile {
        path: Path::new("/home/u/.config/systemd/user").join(name),
        content: content.to_owned(),
    };
    Plan {
        manager: Manager::Systemd,
        files: vec![file("a.service"), file("b.service")],
        directories: Vec::new(),
        listen: "127.0.0.1:1".to_owned(),
        environment: [("PATH".to_owned(), "/bin".to_owned())].into(),
    }
}

struct World {
    top: tempfile::TempDir,
    disk: Disk,
}

fn world() -> World {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir_all(top.path().join("home/u")).unwrap();
    let disk = Disk::new(Some(top.path().to_owned()), "/home/u/.local/state/gatehouse".into());
    World { top, disk }
}

impl World {
    fn at(&self, name: &str) -> PathBuf {
        self.top.path().join("home/u/.config/systemd/user").join(name)
    }
}

#[test]
fn a_second_installation_changes_nothing_and_a_new_one_updates() {
    let world = world();
    let made = world.disk.install(&plan("one"), false).unwrap();
    assert!(matches!(made[..], [Change::Made(_), Change::Made(_)]), "{made:?}");
    assert_eq!(world.at("a.service").metadata().unwrap().permissions().mode() & 0o777, 0o644);
    let again = world.disk.install(&plan("one"), false).unwrap();
    assert!(matches!(again[..], [Change::Unchanged(_), Change::Unchanged(_)]), "{again:?}");
    let updated = world.disk.install(&plan("two"), false).unwrap();
    assert!(matches!(updated[..], [Change::Updated(_), Change::Updated(_)]), "{updated:?}");
    assert_eq!(fs::read_to_string(world.at("b.service")).unwrap(), "two");
    assert_eq!(world.disk.record().unwrap().unwrap().files[0].sha256, [sha256_hex(b"two")]);
}

#[test]
fn removing_leaves_the_disk_as_it_was_but_for_the_state() {
    let world = world();
    world.disk.install(&plan("one"), false).unwrap();
    fs::write(world.top.path().join("home/u/.local/state/gatehouse/ledger.db"), "x").unwrap();
    let record = world.disk.record().unwrap().unwrap();
    let gone = world.disk.uninstall(&record).unwrap();
    assert!(matches!(gone[..], [Change::Removed(_), Change::Removed(_)]), "{gone:?}");
    assert!(!world.top.path().join("home/u/.config").exists(), "the directories that were made are gone too");
    assert!(world.top.path().join("home/u/.local/state/gatehouse/ledger.db").exists());
    assert_eq!(world.disk.record().unwrap(), None);
}

#[test]
fn directories_with_something_else_in_them_and_directories_of_others_stay() {
    let world = world();
    fs::create_dir_all(world.top.path().join("home/u/.config")).unwrap();
    world.disk.install(&plan("one"), false).unwrap();
    fs::write(world.at("other.service"), "x").unwrap();
    world.disk.uninstall(&world.disk.record().unwrap().unwrap()).unwrap();
    assert!(world.at("other.service").exists() && !world.at("a.service").exists());
    fs::remove_file(world.at("other.service")).unwrap();
}

#[test]
fn a_file_of_somebody_else_stops_everything_before_anything_is_written() {
    let world = world();
    fs::create_dir_all(world.at("")).unwrap();
    fs::write(world.at("b.service"), "mine").unwrap();
    let refused = world.disk.install(&plan("one"), false).unwrap_err();
    assert!(refused.message.contains("b.service"), "{refused}");
    assert!(!world.at("a.service").exists() && world.disk.record().unwrap().is_none());
    world.disk.install(&plan("one"), true).unwrap();
    assert_eq!(fs::read_to_string(world.at("b.service")).unwrap(), "one");
}

#[test]
fn a_file_that_was_changed_since_stays_and_is_told_and_one_that_is_gone_is_no_fault() {
    let world = world();
    world.disk.install(&plan("one"), false).unwrap();
    fs::write(world.at("a.service"), "edited").unwrap();
    fs::remove_file(world.at("b.service")).unwrap();
    let record = world.disk.record().unwrap().unwrap();
    let changes = world.disk.uninstall(&record).unwrap();
    assert_eq!(changes, [Change::Kept(world.at("a.service")), Change::Absent(world.at("b.service"))]);
    assert!(world.disk.record().unwrap().is_some(), "there is something left to uninstall");
}

#[test]
fn what_a_crash_left_half_replaced_is_still_ours() {
    let world = world();
    world.disk.install(&plan("one"), false).unwrap();
    // As if the process had died after the record and the first file.
    let mut record = world.disk.record().unwrap().unwrap();
    for made in &mut record.files {
        made.sha256.insert(0, sha256_hex(b"two"));
    }
    world.disk.write_record(&record).unwrap();
    fs::write(world.at("a.service"), "two").unwrap();
    let changes = world.disk.install(&plan("two"), false).unwrap();
    assert!(matches!(changes[..], [Change::Unchanged(_), Change::Updated(_)]), "{changes:?}");
}
