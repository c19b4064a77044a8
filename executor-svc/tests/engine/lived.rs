//! A ledger that has been worked with, copied as often as a test likes, and everything that it tells.

use std::path::Path;

use executor_svc::ledger::{self, LedgerError, actions, journal, once, runs, sessions, turns};
use gatehouse_proto::ids::{RequestKey, RunId, SessionId, TurnId};
use rusqlite::Connection;
use serde_json::json;

use super::caller::Caller;
use super::house::*;

/// The files of a ledger, with what can be asked of it by name.
#[derive(Clone)]
pub struct Lived {
    pub files: Vec<(String, Vec<u8>)>,
    known: Known,
}

#[derive(Clone)]
struct Known {
    sessions: Vec<String>,
    runs: Vec<String>,
    turns: Vec<String>,
    once: Vec<(String, String, String)>,
}

impl Lived {
    /// A session with a prompt, replies, and calls that read; and others beside it. Closed in order.
    pub async fn closed() -> Self {
        let ground = Ground::new("");
        let house = Self::live(&ground).await;
        house.close().await;
        let ledger = ground.path("state/ledger.db");
        Connection::open(&ledger).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        Self::of(&ground)
    }

    /// The same as a crash would leave it: much of it is in SQLite's log.
    pub async fn crashed() -> Self {
        let ground = Ground::new("");
        let house = Self::live(&ground).await;
        let lived = Self::of(&ground);
        house.close().await;
        lived
    }

    async fn live(ground: &Ground) -> House {
        std::fs::write(ground.path("project/a.txt"), "alpha\nbeta\n".repeat(200)).unwrap();
        let mut caller = Caller::started(ground.open(), ground_request(ground, "start-key-0123456789")).await;
        for start in [1, 50, 100] {
            let file = ground.path("project/a.txt");
            let receipt = caller.call("Read", json!({"file_path": file, "start_line": start})).await;
            assert_eq!(receipt["ok"], true, "{receipt}");
        }
        for number in 0..8 {
            caller.house.start(&format!("other-{number}-0123456789")).await;
        }
        caller.house
    }

    fn of(ground: &Ground) -> Self {
        let read = |name: &str| {
            std::fs::read(ground.path("state").join(name)).ok().map(|bytes| (name.to_owned(), bytes))
        };
        let files: Vec<_> =
            ["ledger.db", "ledger.db-wal", "ledger.head"].into_iter().filter_map(read).collect();
        let copy = tempfile::tempdir().unwrap();
        write(copy.path(), &files);
        let connection = Connection::open(copy.path().join("ledger.db")).unwrap();
        let texts = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let mut statement = connection.prepare("SELECT scope, key, content_hash FROM once").unwrap();
        let once = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        drop(statement);
        let known = Known {
            sessions: texts("SELECT id FROM session"),
            runs: texts("SELECT id FROM run"),
            turns: texts("SELECT id FROM turn"),
            once,
        };
        Self { files, known }
    }

    pub fn file(&self, name: &str) -> &[u8] {
        &self.files.iter().find(|(file, _)| file == name).unwrap().1
    }

    /// The same with another content of a file; without one, the file is missing.
    pub fn with(&self, name: &str, bytes: Option<Vec<u8>>) -> Self {
        let mut other = self.clone();
        other.files.retain(|(file, _)| file != name);
        other.files.extend(bytes.map(|bytes| (name.to_owned(), bytes)));
        other
    }

    pub fn place(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &self.files);
        dir
    }

    /// Everything that the ledger below `state_dir` tells.
    pub async fn told(&self, state_dir: &Path) -> Result<String, LedgerError> {
        let opened = ledger::open(state_dir)?;
        let known = self.known.clone();
        opened.readers.read(move |connection| known.ask(connection)).await
    }
}

impl Known {
    fn ask(&self, connection: &Connection) -> Result<String, LedgerError> {
        let mut told = vec![
            format!("{:?}", sessions::list(connection, false, None, 1000)?),
            format!("{:?}", sessions::list(connection, true, None, 1000)?),
            format!("{:?}", sessions::live(connection)?),
            format!("{:?}", journal::entries(connection, 1, None, 100_000)?),
        ];
        for id in &self.sessions {
            let id = SessionId::try_from(id.clone()).unwrap();
            told.push(format!("{:?}", sessions::load(connection, &id)?));
            told.push(format!("{:?}", actions::of_session(connection, &id, None, 1000)?));
        }
        for id in &self.runs {
            told.push(format!("{:?}", runs::prompt(connection, &RunId::try_from(id.clone()).unwrap())?));
        }
        for id in &self.turns {
            let id = TurnId::try_from(id.clone()).unwrap();
            told.push(format!(
                "{:?} {:?}",
                turns::load(connection, &id)?,
                actions::of_turn(connection, &id)?
            ));
        }
        for (scope, key, hash) in &self.once {
            let key = RequestKey::try_from(key.clone()).unwrap();
            told.push(format!("{:?}", once::claim(connection, scope, &key, hash)?));
        }
        Ok(told.join("\n"))
    }
}

fn write(directory: &Path, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}

fn ground_request(ground: &Ground, key: &str) -> gatehouse_proto::v1::StartRequest {
    gatehouse_proto::v1::StartRequest {
        prompt: "Look at the project. ".repeat(40),
        working_directory: ground.path("project").to_str().unwrap().into(),
        idempotency_key: key.into(),
        wait_seconds: Some(0),
        ..gatehouse_proto::v1::StartRequest::default()
    }
}
