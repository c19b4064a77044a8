//! What a durable change cannot cost less than.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};

use rusqlite::Connection;

use super::content;

/// The loop that every editor and database knows.
pub fn replace(path: &Path) {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary).unwrap();
    file.write_all(content().as_bytes()).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(&temporary, path).unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

/// So many commits, the replacement, and so many again.
pub fn edit(path: &Path, before: usize, after: usize, commit: impl Fn()) {
    (0..before).for_each(|_| commit());
    replace(path);
    (0..after).for_each(|_| commit());
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.pragma_update(None, "synchronous", "full").unwrap();
    connection.execute_batch("CREATE TABLE row (id INTEGER PRIMARY KEY, body TEXT)").unwrap();
    connection
}

fn insert(connection: &Connection) {
    let mut insert = connection.prepare_cached("INSERT INTO row (body) VALUES (?1)").unwrap();
    insert.execute(["some two hundred bytes ".repeat(9)]).unwrap();
}

/// Commits of one who is alone.
pub struct Single(Connection);

impl Single {
    pub fn open(path: &Path) -> Self {
        Self(open(path))
    }

    pub fn commit(&self) {
        insert(&self.0);
    }
}

/// Commits of many, by one thread that commits together what waits together.
pub struct Group {
    waiting: Sender<SyncSender<()>>,
}

impl Group {
    pub fn open(path: &Path) -> Self {
        let connection = open(path);
        let (waiting, queue) = channel::<SyncSender<()>>();
        std::thread::spawn(move || {
            while let Ok(first) = queue.recv() {
                connection.execute_batch("BEGIN IMMEDIATE").unwrap();
                let together: Vec<_> = std::iter::once(first).chain(queue.try_iter()).collect();
                together.iter().for_each(|_| insert(&connection));
                connection.execute_batch("COMMIT").unwrap();
                for waiter in together {
                    waiter.send(()).unwrap();
                }
            }
        });
        Self { waiting }
    }

    pub fn commit(&self) {
        let (done, committed) = sync_channel(1);
        self.waiting.send(done).unwrap();
        committed.recv().unwrap();
    }
}
