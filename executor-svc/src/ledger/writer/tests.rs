use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn writer() -> (Writer, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let connection = crate::ledger::open::connect(&dir.path().join("t.db")).unwrap();
    connection.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY)").unwrap();
    (Writer::start(connection, None).unwrap(), dir)
}

async fn insert(writer: &Writer, n: i64, refuse: bool) -> Result<i64, WriteError<&'static str>> {
    writer
        .write(move |tx| {
            tx.execute("INSERT INTO t VALUES (?1)", [n])?;
            if refuse { Err(WriteError::Refused("no")) } else { Ok((n, Box::new(|| ()) as AfterCommit)) }
        })
        .await
}

#[tokio::test]
async fn a_refused_change_is_undone_alone_and_its_neighbours_stay() {
    let (writer, dir) = writer();
    let results =
        tokio::join!(insert(&writer, 1, false), insert(&writer, 2, true), insert(&writer, 3, false));
    assert!(results.0.is_ok() && results.2.is_ok());
    assert!(matches!(results.1, Err(WriteError::Refused("no"))));
    let reader = Connection::open(dir.path().join("t.db")).unwrap();
    let kept: Vec<i64> = reader
        .prepare("SELECT n FROM t")
        .unwrap()
        .query_map([], |r| r.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(kept, [1, 3]);
}

#[tokio::test]
async fn a_database_error_undoes_that_change_and_is_reported() {
    let (writer, _dir) = writer();
    insert(&writer, 1, false).await.unwrap();
    assert!(matches!(insert(&writer, 1, false).await, Err(WriteError::Ledger(LedgerError::Sqlite(_)))));
    assert!(insert(&writer, 2, false).await.is_ok());
}

#[tokio::test]
async fn nobody_in_a_group_whose_commit_fails_is_told_anything_else() {
    let (writer, dir) = writer();
    let setup = Connection::open(dir.path().join("t.db")).unwrap();
    setup
        .execute_batch("CREATE TABLE child (n INTEGER REFERENCES t (n) DEFERRABLE INITIALLY DEFERRED)")
        .unwrap();
    // Holds the writer until both others are queued, so that they share a commit.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let holder = writer.write::<(), (), _>(move |_| {
        let _ = wait.recv();
        Ok(((), Box::new(|| ())))
    });
    // Breaks the commit, not the statement.
    let breaker = writer.write::<(), (), _>(|tx| {
        tx.execute("INSERT INTO child VALUES (99)", [])?;
        Ok(((), Box::new(|| ())))
    });
    let refuser = writer.write::<(), usize, _>(|tx| {
        let seen = tx.query_row("SELECT count(*) FROM child", [], |row| row.get(0))?;
        Err(WriteError::Refused(seen))
    });
    let release = async { go.send(()).unwrap() };
    let (_, broken, refused, ()) = tokio::join!(biased; holder, breaker, refuser, release);
    assert!(matches!(broken, Err(WriteError::Ledger(LedgerError::NotCommitted { .. }))), "{broken:?}");
    // It saw a row that never was.
    assert!(matches!(refused, Err(WriteError::Ledger(LedgerError::NotCommitted { .. }))), "{refused:?}");
    assert!(insert(&writer, 5, false).await.is_ok(), "the writer goes on");
}

#[tokio::test]
async fn a_change_whose_caller_left_is_committed_and_its_after_part_runs() {
    let (writer, dir) = writer();
    let ran = Arc::new(AtomicUsize::new(0));
    let seen = ran.clone();
    let abandoned = writer.write::<(), (), _>(move |tx| {
        tx.execute("INSERT INTO t VALUES (7)", [])?;
        let after: AfterCommit = Box::new(move || {
            seen.fetch_add(1, Ordering::SeqCst);
        });
        Ok(((), after))
    });
    // Polled once, so that it is sent, then dropped.
    let _ = tokio::time::timeout(std::time::Duration::ZERO, abandoned).await;
    insert(&writer, 8, false).await.unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    let reader = Connection::open(dir.path().join("t.db")).unwrap();
    assert_eq!(reader.query_row("SELECT count(*) FROM t", [], |r| r.get::<_, i64>(0)).unwrap(), 2);
}

#[tokio::test]
async fn everybody_who_waits_is_told_at_once_when_nothing_can_be_begun_and_it_goes_on_by_itself() {
    let (writer, dir) = writer();
    let other = Connection::open(dir.path().join("t.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let began = std::time::Instant::now();
    let refused =
        tokio::join!(insert(&writer, 1, false), insert(&writer, 2, false), insert(&writer, 3, false));
    for refused in [refused.0, refused.1, refused.2] {
        let Err(WriteError::Ledger(error)) = refused else { panic!("not refused") };
        assert_eq!(error.trouble(), Trouble::Locked, "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(12), "one after the other they would take 15 seconds");
    assert_eq!(writer.trouble(), Some(Trouble::Locked));
    other.execute_batch("ROLLBACK").unwrap();
    let mut shown = writer.trouble.clone();
    shown.wait_for(Option::is_none).await.unwrap();
    assert!(insert(&writer, 4, false).await.is_ok());
}

#[tokio::test]
async fn a_change_that_panics_takes_nobody_along() {
    let (writer, _dir) = writer();
    let broken = writer.write::<(), (), _>(|tx| {
        tx.execute("INSERT INTO t VALUES (1)", [])?;
        panic!("a fault")
    });
    let (broken, fine) = tokio::join!(broken, insert(&writer, 2, false));
    assert!(matches!(broken, Err(WriteError::Ledger(LedgerError::Damaged { .. }))));
    assert!(fine.is_ok() && insert(&writer, 1, false).await.is_ok(), "what it had written is undone");
}

/// A ledger that can hold a few pages more than it has.
fn nearly_full() -> (Writer, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let connection = crate::ledger::open::connect(&dir.path().join("t.db")).unwrap();
    connection
        .execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY); CREATE TABLE large (body BLOB)")
        .unwrap();
    let pages: u32 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let _: u32 = connection
        .query_row(&format!("PRAGMA max_page_count = {}", pages + 2), [], |row| row.get(0))
        .unwrap();
    (Writer::start(connection, None).unwrap(), dir)
}

async fn insert_large(writer: &Writer) -> Result<(), WriteError<&'static str>> {
    writer
        .write(|tx| {
            tx.execute("INSERT INTO large VALUES (zeroblob(100000))", [])?;
            Ok(((), Box::new(|| ()) as AfterCommit))
        })
        .await
}

fn trouble_of<T: std::fmt::Debug>(result: Result<T, WriteError<&'static str>>) -> Trouble {
    match result {
        Err(WriteError::Ledger(error)) => error.trouble(),
        other => panic!("not failed: {other:?}"),
    }
}

#[tokio::test]
async fn a_disk_that_is_full_in_the_middle_of_a_statement_is_told_as_a_full_disk() {
    let (writer, _dir) = nearly_full();
    assert_eq!(trouble_of(insert_large(&writer).await), Trouble::Full);
    // Holds the writer until the others are queued, so that they share a commit.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let holder = writer.write::<(), &'static str, _>(move |_| {
        let _ = wait.recv();
        Ok(((), Box::new(|| ())))
    });
    let release = async { go.send(()).unwrap() };
    let (small, large) = (insert(&writer, 1, false), insert_large(&writer));
    let (holder, small, large, ()) = tokio::join!(biased; holder, small, large, release);
    // SQLite undoes the whole transaction, so the neighbours hear the same.
    let told = [trouble_of(small), trouble_of(large)];
    assert_eq!(told, [Trouble::Full; 2]);
    assert!(holder.is_ok() || trouble_of(holder) == Trouble::Full);
    let mut shown = writer.trouble.clone();
    shown.wait_for(Option::is_none).await.unwrap();
    insert(&writer, 1, false).await.expect("it was undone, and what fits is written");
}
