//! What a call costs does not grow with the journal: by the query plans, not by the time.

use std::path::Path;
use std::sync::{Arc, Mutex};

use executor_svc::ledger::{self, actions, contents, journal, once, runs, sessions, turns, verify};
use gatehouse_proto::ids::{RequestKey, ToolCallId, TurnId};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, StatementStatus};

use super::house::*;

const ENTRIES: u64 = 200_000;

/// Fills the journal with entries whose chain does not hold: whoever walks it notices.
fn fill(ledger: &Path) {
    let filled = Connection::open(ledger).unwrap().execute(
        "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 99 + ?1)
         INSERT INTO journal (seq, at, session_id, kind, body, hash)
         SELECT i, i, 'ns_other', 'test.entry', '{}', zeroblob(32) FROM n",
        [ENTRIES],
    );
    assert_eq!(filled.unwrap(), usize::try_from(ENTRIES).unwrap());
}

/// The statements that `asks` runs, each with the steps of its plan.
fn plans(ledger: &Path, asks: impl FnOnce(&Connection)) -> Vec<(String, Vec<String>)> {
    let mut connection = ledger::look_at(ledger.parent().unwrap()).unwrap();
    let statements = noted(&mut connection, asks);
    statements.into_iter().map(|sql| (sql.clone(), plan(&connection, &sql))).collect()
}

/// The statements that `asks` runs.
fn noted(connection: &mut Connection, asks: impl FnOnce(&Connection)) -> Vec<String> {
    let statements = Arc::new(Mutex::new(Vec::new()));
    let noted = statements.clone();
    let note = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(_, sql) = event {
            noted.lock().unwrap().push(sql.to_owned());
        }
    };
    connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note)).unwrap();
    asks(connection);
    connection.trace_v2(TraceEventCodes::empty(), None::<fn(TraceEvent<'_>)>).unwrap();
    let statements = std::mem::take(&mut *statements.lock().unwrap());
    assert!(!statements.is_empty(), "they were seen");
    statements
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // Without values for its parameters: a plan is made without them too.
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    assert!(!steps.is_empty(), "{sql}");
    steps
}

#[tokio::test]
async fn neither_status_nor_opening_looks_at_the_journal_however_long_it_is() {
    let ground = Ground::new("");
    let ledger = ground.path("state/ledger.db");
    let house = ground.open();
    let (started, _, turn) = house.waiting("start-key-0123456789").await;
    let session = house.session(&started).await;
    house.close().await;
    fill(&ledger);

    // Opening succeeds although the chain is broken: it is walked on demand, not at every start.
    let house = ground.open();
    house.runners.adopt_all().await.unwrap();
    assert!(house.count("journal").await > ENTRIES);
    assert!(matches!(house.engine.read(verify::walk).await.unwrap(), verify::Verdict::Broken(_)));
    assert_eq!(house.status(&started).await.unwrap().session.unwrap().pending_turn.unwrap().turn_id, turn);
    house.close().await;

    let adopting = plans(&ledger, |connection| {
        assert_eq!(sessions::live(connection).unwrap().len(), 1);
        sessions::expired_with_a_process(connection).unwrap();
        runs::identity(connection, &session.state.run().unwrap().id).unwrap();
    });
    assert!(adopting.iter().all(|(sql, _)| !sql.contains("journal")), "{adopting:?}");

    let looking = plans(&ledger, |connection| {
        let turn = TurnId::try_from(turn).unwrap();
        let call = ToolCallId::mint();
        sessions::load(connection, &session.id).unwrap().unwrap();
        runs::prompt(connection, &session.state.run().unwrap().id).unwrap().unwrap();
        turns::load(connection, &turn).unwrap().unwrap();
        assert!(actions::of_turn(connection, &turn).unwrap().is_empty());
        assert!(actions::load(connection, &call).unwrap().is_none());
        assert!(actions::times(connection, &call).is_err());
    });
    for (sql, steps) in &looking {
        assert!(!sql.contains("journal"), "{sql}");
        assert!(steps.iter().all(|step| step.starts_with("SEARCH")), "{sql}: {steps:?}");
    }
}

#[tokio::test]
async fn what_every_call_asks_goes_by_an_index() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _, turn) = house.waiting("start-key-0123456789").await;
    let session = house.session(&started).await;
    let run = session.state.run().unwrap().id.clone();
    house.close().await;
    let ledger = ground.path("state/ledger.db");
    let asked = plans(&ledger, |connection| {
        let key = RequestKey::try_from("k".to_owned()).unwrap();
        once::claim(connection, "start", &key, "hash").unwrap();
        assert!(turns::by_key(connection, &run, "first").unwrap().is_some_and(|id| id.as_str() == turn));
        assert!(runs::is_open(connection, &run).unwrap());
        journal::entries(connection, 1, Some(session.id.as_str()), 10).unwrap();
        journal::entries(connection, 1, None, 10).unwrap();
        actions::of_session(connection, &session.id, None, 10).unwrap();
    });
    for (sql, steps) in &asked {
        let bounded = |step: &String| step.starts_with("SEARCH") || step.contains("FOR LAST");
        assert!(steps.iter().all(|step| bounded(step) || step.contains("ORDER BY")), "{sql}: {steps:?}");
    }
    let counted = plans(&ledger, |connection| assert_eq!(sessions::count_live(connection).unwrap(), 1));
    assert!(counted[0].1.iter().all(|step| step.contains("session_live")), "{counted:?}");
    let ending = plans(&ledger, |connection| {
        assert!(sessions::expired_with_a_process(connection).unwrap().is_empty());
    });
    assert!(ending[0].1.iter().all(|step| step.contains("session_ending")), "{ending:?}");
    assert!(ending[1].1.iter().all(|step| step.contains("session_with_subagent")), "{ending:?}");
}

/// Whether a step of a plan is bounded by what is asked for, not by what there is.
fn is_bounded(sql: &str, step: &str) -> bool {
    let by_index = step.starts_with("SEARCH")
        || step.starts_with("SCAN CONSTANT ROW")
        || step.contains("SCALAR SUBQUERY");
    // A page of a list in its order; and what an index has only of the few that are looked for.
    let page = step.contains("USING INDEX") && sql.contains("LIMIT");
    let few = [
        "session_live",
        "session_ended",
        "session_ending",
        "action_prepared",
        "action_write",
        "journal_pruned",
    ];
    let of_few = few.iter().any(|index| step.contains(index));
    let last = step == "SCAN journal" && sql.contains("DESC LIMIT 1");
    let order = step.contains("ORDER BY") || step.contains("GROUP BY");
    by_index || page || of_few || last || order
}

#[tokio::test]
async fn no_statement_that_serves_goes_through_a_whole_table() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _, _) = house.waiting("start-key-0123456789").await;
    let session = house.session(&started).await;
    house.start("other-key-0123456789").await;
    house.close().await;
    let asked = plans(&ground.path("state/ledger.db"), |connection| {
        for live_only in [true, false] {
            for after in [None, Some(session.id.as_str())] {
                sessions::list(connection, live_only, after, 200).unwrap();
            }
        }
        sessions::live(connection).unwrap();
        sessions::ended(connection).unwrap();
        sessions::load(connection, &gatehouse_proto::ids::SessionId::mint()).unwrap();
        let call = ToolCallId::mint();
        actions::of_session(connection, &session.id, None, 10).unwrap();
        actions::of_session(connection, &session.id, Some(&call), 10).unwrap();
        actions::prepared(connection).unwrap();
        let key = RequestKey::try_from("k".to_owned()).unwrap();
        actions::operation(connection, &session.id, actions::UNDO, &key).unwrap();
        journal::last_seq(connection).unwrap();
        runs::by_link(connection, &gatehouse_proto::ids::LinkToken::mint().unwrap().hash()).unwrap();
        contents::each(connection, |_| {}).unwrap();
        contents::pruned(connection).unwrap();
        contents::latest_action(connection, &session.id).unwrap();
    });
    for (sql, steps) in &asked {
        assert!(steps.iter().all(|step| is_bounded(sql, step)), "{sql}: {steps:?}");
    }
}

#[tokio::test]
async fn a_statement_that_is_run_again_with_other_values_is_not_prepared_again() {
    let ground = Ground::new("");
    let house = ground.open();
    let (started, _, turn) = house.waiting("start-key-0123456789").await;
    let session = house.session(&started).await;
    house.close().await;
    let asks = |connection: &Connection| {
        for (turn, limit) in [(turn.clone(), 10), (TurnId::mint().to_string(), 20)] {
            let turn = TurnId::try_from(turn).unwrap();
            turns::load(connection, &turn).unwrap();
            actions::of_turn(connection, &turn).unwrap();
            actions::of_session(connection, &session.id, None, limit).unwrap();
            journal::entries(connection, 1, Some(session.id.as_str()), limit).unwrap();
            sessions::list(connection, true, None, limit).unwrap();
        }
    };
    let mut connection = ledger::look_at(&ground.path("state")).unwrap();
    let asked = noted(&mut connection, asks);
    assert!(asked.len() >= 10, "{asked:?}");
    let readers = ledger::open(&ground.path("state")).unwrap().readers;
    let looked = readers.glance(|connection| {
        asks(connection);
        for sql in &asked {
            // The very statement that was run: it is kept for the next who asks.
            let kept = connection.prepare_cached(sql)?;
            assert!(kept.get_status(StatementStatus::Run) > 0, "{sql}");
            assert_eq!(kept.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
        Ok(())
    });
    looked.unwrap();
}
