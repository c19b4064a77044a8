use gatehouse_proto::codes::ActionCode;
use gatehouse_proto::digest::sha256_hex;
use proptest::prelude::*;

use super::super::{Content, Removal};
use super::*;

const LIMIT: u64 = 1_000;

/// A store with its ledger.
struct World {
    dir: tempfile::TempDir,
    store: ContentStore,
}

impl World {
    fn new(limit: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), limit);
        Self { dir, store }
    }

    /// As another process would find it.
    fn again(&self, limit: u64) -> ContentStore {
        open(self.dir.path(), limit)
    }

    fn ledger(&self) -> Connection {
        Connection::open(self.dir.path().join("ledger.db")).unwrap()
    }

    fn keep(&self, contents: &[&[u8]]) -> Result<Keeping, ContentFault> {
        let named: Vec<_> =
            contents.iter().map(|bytes| (sha256_hex(bytes), Arc::new(bytes.to_vec()))).collect();
        let whole: Vec<_> = named.iter().map(|(sha256, bytes)| Whole { sha256, bytes }).collect();
        self.store.keep(&whole)
    }

    /// Keeps contents in a transaction that is committed.
    fn put(&self, contents: &[&[u8]]) -> Result<Keeping, ContentFault> {
        let keeping = self.keep(contents)?;
        let mut ledger = self.ledger();
        let transaction = ledger.transaction().unwrap();
        keeping.record(&transaction).unwrap();
        transaction.commit().unwrap();
        keeping.committed();
        Ok(keeping)
    }

    fn remove(&self, bytes: &[u8]) -> Removal {
        self.store.remove(&self.ledger(), &sha256_hex(bytes)).unwrap()
    }
}

fn open(dir: &std::path::Path, limit: u64) -> ContentStore {
    let ledger = crate::ledger::open(dir).unwrap();
    ContentStore::open(&dir.join("content"), limit).unwrap().with_ledger(ledger.readers)
}

#[test]
fn a_small_content_is_there_as_soon_as_the_transaction_is_committed_that_names_it() {
    let world = World::new(LIMIT);
    let sha256 = sha256_hex(b"content");
    let keeping = world.keep(&[b"content"]).unwrap();
    let mut ledger = world.ledger();
    let transaction = ledger.transaction().unwrap();
    keeping.record(&transaction).unwrap();
    assert_eq!(
        world.store.get(&sha256).unwrap_err(),
        ContentFault::Missing { sha256: sha256.clone() },
        "not before"
    );
    transaction.commit().unwrap();
    keeping.committed();
    assert_eq!(world.store.get(&sha256).unwrap(), b"content");
    assert!(world.store.contains(&sha256) && !world.store.inner.place(&sha256).unwrap().exists());
    assert_eq!(world.store.used_bytes().unwrap(), 7);
    assert_eq!(world.store.list().unwrap(), [Content { sha256, bytes: 7 }]);
    assert_eq!(world.again(LIMIT).used_bytes().unwrap(), 7);
}

#[test]
fn what_is_not_committed_is_not_kept_and_gives_its_room_back() {
    let world = World::new(LIMIT);
    let keeping = world.keep(&[&[1; 900]]).unwrap();
    let full = world.keep(&[&[2; 101]]).unwrap_err();
    assert_eq!(full, ContentFault::Full { limit: LIMIT, used: 900, needed: 101 });
    assert_eq!(full.code(), ActionCode::DiskFull);
    let mut ledger = world.ledger();
    let transaction = ledger.transaction().unwrap();
    keeping.record(&transaction).unwrap();
    transaction.rollback().unwrap();
    drop(keeping);
    assert!(world.store.list().unwrap().is_empty());
    world.put(&[&[2; 900]]).unwrap();
}

#[test]
fn what_is_kept_already_needs_no_room_and_counts_once() {
    let world = World::new(LIMIT);
    let (one, other) = (world.keep(&[&[1; 400]]).unwrap(), world.keep(&[&[1; 400], b"x"]).unwrap());
    for keeping in [&one, &other] {
        keeping.record(&world.ledger()).unwrap();
        keeping.committed();
    }
    assert_eq!(world.store.used_bytes().unwrap(), 401);
    world.put(&[&[2; 599]]).unwrap();
    // This process knows them, another one has to look.
    world.put(&[&[1; 400], &[2; 599], b"x"]).unwrap();
    let again = World { store: world.again(LIMIT), dir: world.dir };
    again.put(&[&[1; 400], &[2; 599], b"x"]).unwrap();
    assert_eq!(again.put(&[b"new"]).unwrap_err(), ContentFault::Full { limit: LIMIT, used: 1000, needed: 3 });
    assert_eq!(again.store.used_bytes().unwrap(), 1000);
}

#[test]
fn a_damaged_one_is_seen_when_it_is_read_and_mended_when_it_comes_again() {
    let world = World::new(LIMIT);
    let sha256 = sha256_hex(b"content");
    world.put(&[b"content"]).unwrap();
    for damage in ["x'00'", "x'', size = 0", "zeroblob(9), size = 9"] {
        world.ledger().execute(&format!("UPDATE content SET bytes = {damage}"), []).unwrap();
        let damaged = world.store.get(&sha256).unwrap_err();
        assert_eq!(damaged, ContentFault::Damaged { sha256: sha256.clone() });
        world.put(&[b"content"]).unwrap();
        assert_eq!(world.store.get(&sha256).unwrap(), b"content");
    }
    assert_eq!(world.again(LIMIT).used_bytes().unwrap(), 7);
}

#[test]
fn a_large_one_is_a_file_before_anything_is_committed() {
    let world = World::new(1 << 20);
    let (small, large) = (vec![1; SMALL], vec![2; SMALL + 1]);
    let keeping = world.keep(&[&small, &large]).unwrap();
    let place = |bytes: &[u8]| world.store.inner.place(&sha256_hex(bytes)).unwrap();
    assert!(place(&large).is_file() && !place(&small).exists());
    assert_eq!(world.store.get(&sha256_hex(&large)).unwrap(), large);
    drop(keeping);
    assert_eq!(world.remove(&large), Removal::Removed(large.len() as u64));
}

#[test]
fn what_is_held_is_not_removed() {
    let world = World::new(LIMIT);
    let keeping = world.put(&[b"held"]).unwrap();
    assert_eq!(world.remove(b"held"), Removal::Held);
    drop(keeping);
    assert_eq!(world.remove(b"held"), Removal::Removed(4));
    assert_eq!(world.remove(b"held"), Removal::Absent);
    assert_eq!(world.store.used_bytes().unwrap(), 0);
    world.put(&[b"held"]).unwrap();
    assert_eq!(world.store.used_bytes().unwrap(), 4);
}

#[test]
fn a_ledger_that_cannot_be_read_is_told() {
    let world = World::new(LIMIT);
    world.put(&[b"x"]).unwrap();
    world.ledger().execute_batch("ALTER TABLE content RENAME TO gone").unwrap();
    let fault = world.store.get(&sha256_hex(b"x")).unwrap_err();
    assert!(matches!(fault, ContentFault::Ledger(_)), "{fault}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_store_holds_what_was_committed_and_not_removed(
        steps in proptest::collection::vec((0..6_u8, 0..3_usize, 0..3_u8), 1..15)
    ) {
        let world = World::new(LIMIT);
        let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (byte, size, what) in steps {
            let bytes = vec![byte; size * 150];
            let sha256 = sha256_hex(&bytes);
            let used: usize = model.values().map(Vec::len).sum();
            let fits = model.contains_key(&sha256) || bytes.is_empty() || used + bytes.len() <= 1_000;
            match what {
                0 => {
                    prop_assert_eq!(world.put(&[&bytes]).is_ok(), fits);
                    if fits {
                        model.insert(sha256, bytes);
                    }
                }
                1 => prop_assert_eq!(world.keep(&[&bytes]).is_ok(), fits, "given up before the commit"),
                _ => {
                    let gone = model.remove(&sha256);
                    let wanted = gone.map_or(Removal::Absent, |bytes| Removal::Removed(bytes.len() as u64));
                    prop_assert_eq!(world.remove(&bytes), wanted);
                }
            }
            let counted: usize = model.values().map(Vec::len).sum();
            prop_assert_eq!(world.store.used_bytes().unwrap(), counted as u64);
        }
        let listed: Vec<_> = world.store.list().unwrap().into_iter().map(|content| content.sha256).collect();
        prop_assert_eq!(listed, model.keys().cloned().collect::<Vec<_>>());
        for (sha256, bytes) in &model {
            prop_assert_eq!(&world.store.get(sha256).unwrap(), bytes);
        }
    }
}
