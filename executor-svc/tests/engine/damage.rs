//! A ledger whose bytes changed: it is named, or what it tells is what it told before.

use executor_svc::ledger::{self, LedgerError, Trouble, verify};
use proptest::prelude::*;

use super::lived::Lived;

/// How a damaged ledger may end.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// It tells the same as before.
    Harmless,
    /// Opening or reading it names the damage.
    Named,
    /// Something is not found any more that was there; a verification says why.
    Verified,
}

/// Opens a damaged ledger and asks it everything.
async fn look(lived: &Lived, damaged: &Lived, whole: &str) -> Seen {
    let place = damaged.place();
    match damaged.told(place.path()).await {
        Ok(told) if told == whole => Seen::Harmless,
        Ok(_) => {
            let place = damaged.place();
            let report = verify::offline(place.path(), |_, _| {}).unwrap();
            assert!(!report.is_whole(), "another thing is told, and no verification notices");
            Seen::Verified
        }
        Err(error) => {
            let text = error.to_string();
            let is_named = matches!(error.trouble(), Trouble::Damaged)
                || matches!(error, LedgerError::Newer { .. } | LedgerError::Foreign { .. })
                || text.contains("malformed")
                || text.contains("not a database");
            assert!(is_named, "{error:?}");
            // It was refused before anything was written, or it was opened and read: the file itself is never made anew.
            let left = std::fs::read(place.path().join("ledger.db")).unwrap_or_default();
            assert!(
                left.len()
                    >= damaged
                        .files
                        .iter()
                        .find(|(name, _)| name == "ledger.db")
                        .map_or(0, |(_, b)| b.len().min(4096))
            );
            let _ = lived;
            Seen::Named
        }
    }
}

fn flipped(lived: &Lived, file: &str, at: usize, bit: u8) -> Lived {
    let mut bytes = lived.file(file).to_vec();
    bytes[at] ^= 1 << bit;
    lived.with(file, Some(bytes))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn every_byte_of_the_header_and_of_the_first_page_may_change() {
    let runtime = runtime();
    let lived = runtime.block_on(Lived::closed());
    let whole = runtime.block_on(lived.told(lived.place().path())).unwrap();
    for at in (0..108).chain((108..4096).step_by(61)) {
        let damaged = flipped(&lived, "ledger.db", at, (at % 8).try_into().unwrap());
        let seen = runtime.block_on(look(&lived, &damaged, &whole));
        assert_ne!(seen, Seen::Verified, "byte {at}");
    }
}

#[test]
fn a_file_that_is_cut_missing_or_anothers_is_named_and_left_as_it_is() {
    let runtime = runtime();
    let lived = runtime.block_on(Lived::closed());
    let length = lived.file("ledger.db").len();
    let cuts = [0, 1, 99, 100, 4095, 4096, 8192, length / 2, length - 4096, length - 1];
    for kept in cuts {
        let damaged = lived.with("ledger.db", Some(lived.file("ledger.db")[..kept].to_vec()));
        let place = damaged.place();
        let error = ledger::open(place.path()).err().unwrap_or_else(|| panic!("cut at {kept}"));
        assert_eq!(error.trouble(), Trouble::Damaged, "cut at {kept}: {error}");
        assert_eq!(std::fs::read(place.path().join("ledger.db")).unwrap().len(), kept);
        let report = verify::offline(place.path(), |_, _| {}).unwrap();
        assert!(!report.is_whole(), "cut at {kept}");
    }
    let missing = lived.with("ledger.db", None).place();
    assert!(matches!(ledger::open(missing.path()), Err(LedgerError::Missing { .. })));
    assert!(!missing.path().join("ledger.db").exists(), "none is made in its place");

    let foreign = lived.place();
    let path = foreign.path().join("ledger.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "application_id", 0x1234).unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(ledger::open(foreign.path()), Err(LedgerError::Foreign { found: 0x1234, .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_log_that_is_missing_or_cut_anywhere_takes_nothing_along_unnoticed() {
    let runtime = runtime();
    let lived = runtime.block_on(Lived::crashed());
    let whole = runtime.block_on(lived.told(lived.place().path())).unwrap();
    let log = lived.file("ledger.db-wal").to_vec();
    assert!(log.len() > 100_000, "much is in the log: {}", log.len());
    let missing = lived.with("ledger.db-wal", None).place();
    let error = ledger::open(missing.path()).unwrap_err();
    assert!(matches!(error, LedgerError::Lost { .. }), "{error}");
    for part in 0..24 {
        let kept = log.len() * part / 24;
        let damaged = lived.with("ledger.db-wal", Some(log[..kept].to_vec()));
        assert_eq!(runtime.block_on(look(&lived, &damaged, &whole)), Seen::Named, "cut at {kept}");
    }
    // An older copy of everything but the note is no less a loss.
    let restored = runtime.block_on(Lived::closed());
    let older =
        lived.with("ledger.db-wal", None).with("ledger.db", Some(restored.file("ledger.db").to_vec()));
    let place = older.place();
    assert!(ledger::open(place.path()).is_err());
    std::fs::remove_file(place.path().join("ledger.head")).unwrap();
    ledger::open(place.path()).expect("without the note it is taken as it is");
}

#[test]
fn a_verification_says_where_the_chain_breaks_and_of_which_session() {
    let runtime = runtime();
    let lived = runtime.block_on(Lived::closed());
    for (sabotage, seq, word) in [
        ("UPDATE journal SET body = '{}' WHERE seq = 3", 3, "is not what was written"),
        ("DELETE FROM journal WHERE seq = 5", 5, "it is missing"),
        ("UPDATE journal SET hash = zeroblob(32) WHERE seq = 7", 7, "0000000000000000"),
    ] {
        let place = lived.place();
        let connection = rusqlite::Connection::open(place.path().join("ledger.db")).unwrap();
        connection
            .execute_batch(
                "DROP TRIGGER journal_is_append_only_update; DROP TRIGGER journal_is_append_only_delete",
            )
            .unwrap();
        let session: String = connection
            .query_row("SELECT session_id FROM journal WHERE seq >= ?1 ORDER BY seq LIMIT 1", [seq], |row| {
                row.get(0)
            })
            .unwrap();
        connection.execute(sabotage, []).unwrap();
        drop(connection);
        let report = verify::offline(place.path(), |_, _| {}).unwrap();
        let broken = report.broken.unwrap();
        assert_eq!((broken.seq, report.entries), (seq, seq - 1), "{broken}");
        assert!(broken.why.contains(word), "{broken}");
        assert!(broken.session.is_some_and(|found| seq == 5 || found == session));
        let error = ledger::open(place.path()).unwrap_err();
        assert!(error.to_string().contains("journal_is_append_only"), "{error}");
    }
}

fn cases() -> u32 {
    // As many as asked for, but never so few that it means nothing.
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

#[test]
fn any_byte_of_the_database_and_of_its_log_may_change() {
    let runtime = runtime();
    for (lived, file) in [
        (runtime.block_on(Lived::closed()), "ledger.db"),
        (runtime.block_on(Lived::crashed()), "ledger.db-wal"),
    ] {
        let whole = runtime.block_on(lived.told(lived.place().path())).unwrap();
        let seen = std::cell::RefCell::new(std::collections::BTreeMap::<String, u32>::new());
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(cases())
        });
        runner
            .run(&(0..lived.file(file).len(), 0..8_u8), |(at, bit)| {
                let how = runtime.block_on(look(&lived, &flipped(&lived, file, at, bit), &whole));
                prop_assert!(file == "ledger.db" || how != Seen::Verified, "a log is whole or refused");
                *seen.borrow_mut().entry(format!("{how:?}")).or_default() += 1;
                Ok(())
            })
            .unwrap();
        println!("{file}: {:?}", seen.borrow());
    }
}
