use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 1_000;

fn store() -> (tempfile::TempDir, ContentStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = ContentStore::open(&dir.path().join("content"), LIMIT).unwrap();
    (dir, store)
}

/// A ledger for a store that has none.
fn nowhere() -> Connection {
    Connection::open_in_memory().unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// What is below `new`: contents that were not finished.
fn unfinished(store: &ContentStore) -> usize {
    fs::read_dir(store.inner.dir.join(NEW)).unwrap().count()
}

#[test]
fn a_content_comes_back_and_is_private() {
    let (_dir, store) = store();
    let kept = store.put_all(&[b"one", b"", b"two"]).unwrap();
    assert_eq!(store.get(kept[0].sha256()).unwrap(), b"one");
    assert_eq!(store.get(kept[1].sha256()).unwrap(), b"");
    assert_eq!(kept[2].sha256(), sha256_hex(b"two"));
    let place = store.inner.place(kept[0].sha256()).unwrap();
    assert_eq!(mode(&place), 0o600);
    for folder in place.ancestors().skip(1).take(2).chain([&*store.inner.dir.join(NEW)]) {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    assert_eq!(unfinished(&store), 0);
}

#[test]
fn the_same_content_is_kept_and_counted_once() {
    let (_dir, store) = store();
    store.put_all(&[b"same", b"same"]).unwrap();
    store.put(b"same").unwrap();
    assert_eq!(store.used_bytes().unwrap(), 4);
    assert_eq!(store.list().unwrap(), [Content { sha256: sha256_hex(b"same"), bytes: 4 }]);
    let again = ContentStore::open(&store.inner.dir, LIMIT).unwrap();
    assert_eq!(again.used_bytes().unwrap(), 4);
}

#[test]
fn beyond_the_limit_nothing_is_kept_and_the_numbers_are_told() {
    let (_dir, store) = store();
    store.put(&[1; 900]).unwrap();
    let full = store.put_all(&[&[2; 50], &[3; 51]]).unwrap_err();
    assert_eq!(full, ContentFault::Full { limit: 1_000, used: 900, needed: 101 });
    assert_eq!(
        (full.code(), store.used_bytes().unwrap()),
        (gatehouse_proto::codes::ActionCode::DiskFull, 900)
    );
    assert_eq!(store.list().unwrap().len(), 1);
    store.put_all(&[&[2; 50], &[3; 50]]).unwrap();
    // What is there already needs no room.
    store.put(&[1; 900]).unwrap();
    assert_eq!(store.remove(&nowhere(), &sha256_hex(&[1; 900])).unwrap(), Removal::Removed(900));
    store.put(&[4; 900]).unwrap();
}

#[test]
fn a_damaged_content_is_seen_when_it_is_read_and_mended_when_it_comes_again() {
    let (_dir, store) = store();
    let kept = store.put(b"content").unwrap();
    let place = store.inner.place(kept.sha256()).unwrap();
    for damage in [&b"Content"[..], b"", b"longer content"] {
        fs::write(&place, damage).unwrap();
        let damaged = store.get(kept.sha256()).unwrap_err();
        assert_eq!(damaged, ContentFault::Damaged { sha256: sha256_hex(b"content") });
        store.put(b"content").unwrap();
        assert_eq!(store.get(kept.sha256()).unwrap(), b"content");
    }
    assert_eq!(store.used_bytes().unwrap(), 7);
}

#[test]
fn what_is_held_is_not_removed() {
    let (_dir, store) = store();
    let first = store.put(b"held").unwrap();
    let second = store.put(b"held").unwrap();
    let sha256 = sha256_hex(b"held");
    assert_eq!(store.remove(&nowhere(), &sha256).unwrap(), Removal::Held);
    drop(first);
    assert_eq!(store.remove(&nowhere(), &sha256).unwrap(), Removal::Held);
    drop(second);
    assert_eq!(store.remove(&nowhere(), &sha256).unwrap(), Removal::Removed(4));
    assert_eq!(store.remove(&nowhere(), &sha256).unwrap(), Removal::Absent);
    assert_eq!(store.get(&sha256).unwrap_err(), ContentFault::Missing { sha256 });
}

#[test]
fn what_an_earlier_process_had_begun_is_removed() {
    let (_dir, store) = store();
    fs::write(store.inner.dir.join(NEW).join("left"), "half").unwrap();
    assert_eq!(unfinished(&ContentStore::open(&store.inner.dir, LIMIT).unwrap()), 0);
}

#[test]
fn names_that_are_no_hash_lead_nowhere() {
    let (_dir, store) = store();
    for name in ["", "..", "new", &"A".repeat(64), &"g".repeat(64), &format!("../{}", "0".repeat(61))] {
        assert_eq!(store.get(name).unwrap_err(), ContentFault::NoHash, "{name}");
        assert!(!store.contains(name));
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_told_without_its_path() {
    let (_dir, store) = store();
    fs::remove_dir(store.inner.dir.join(NEW)).unwrap();
    let fault = store.put(b"x").unwrap_err();
    assert!(matches!(fault, ContentFault::Io { .. }), "{fault}");
    assert!(!fault.to_string().contains("/content"), "{fault}");
    assert_eq!(store.used_bytes().unwrap(), 0);
}

#[test]
fn many_at_the_same_time_are_counted_right() {
    let (_dir, store) = store();
    std::thread::scope(|threads| {
        for thread in 0..8_u8 {
            let store = &store;
            threads.spawn(move || {
                for round in 0..20_u8 {
                    store.put_all(&[&[round; 5], &[thread, round]]).unwrap();
                }
            });
        }
    });
    let counted: u64 = store.list().unwrap().iter().map(|content| content.bytes).sum();
    assert_eq!((store.used_bytes().unwrap(), counted), (20 * 5 + 8 * 20 * 2, 20 * 5 + 8 * 20 * 2));
    assert_eq!(unfinished(&store), 0);
}

#[test]
fn what_was_on_the_disk_and_is_gone_counts_as_new_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = ContentStore::open(dir.path(), 1 << 20).unwrap();
    let durable = |sha256: &str| store.inner.state().durable.contains(sha256);
    let kept = store.put(b"content").unwrap();
    let sha256 = kept.sha256().to_owned();
    assert!(durable(&sha256));
    // Somebody else removes it: it is written, and waited for, anew.
    std::fs::remove_file(store.inner.place(&sha256).unwrap()).unwrap();
    drop(store.put(b"content").unwrap());
    assert_eq!(store.get(&sha256).unwrap(), b"content");
    assert!(durable(&sha256));
    drop(kept);
    assert!(matches!(store.remove(&nowhere(), &sha256).unwrap(), super::Removal::Removed(7)));
    assert!(!durable(&sha256));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_store_holds_what_was_put_and_not_removed(steps in proptest::collection::vec((0..8_u8, 0..3_usize, any::<bool>()), 1..20)) {
        let (_dir, store) = store();
        let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (byte, size, put) in steps {
            let bytes = vec![byte; size * 100];
            let sha256 = sha256_hex(&bytes);
            let used: usize = model.values().map(Vec::len).sum();
            if put {
                let fits = model.contains_key(&sha256) || bytes.is_empty() || used + bytes.len() <= 1_000;
                prop_assert_eq!(store.put(&bytes).is_ok(), fits);
                if fits {
                    model.insert(sha256, bytes);
                }
            } else {
                let wanted = model.remove(&sha256).map_or(Removal::Absent, |bytes| Removal::Removed(bytes.len() as u64));
                prop_assert_eq!(store.remove(&nowhere(), &sha256).unwrap(), wanted);
            }
        }
        let listed: Vec<_> = store.list().unwrap().into_iter().map(|content| content.sha256).collect();
        prop_assert_eq!(listed, model.keys().cloned().collect::<Vec<_>>());
        for (sha256, bytes) in &model {
            prop_assert_eq!(&store.get(sha256).unwrap(), bytes);
        }
    }
}
