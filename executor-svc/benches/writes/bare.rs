//! What a durable change cannot cost less than.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};

use gatehouse_figures::BareCommits;

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

/// Commits of many, by one thread that commits together what waits together.
pub struct Group {
    waiting: Sender<SyncSender<()>>,
}

impl Group {
    pub fn open(path: &Path) -> Self {
        let bare = BareCommits::open(path).unwrap();
        let (waiting, queue) = channel::<SyncSender<()>>();
        std::thread::spawn(move || {
            while let Ok(first) = queue.recv() {
                bare.connection().execute_batch("BEGIN IMMEDIATE").unwrap();
                let together: Vec<_> = std::iter::once(first).chain(queue.try_iter()).collect();
                together.iter().for_each(|_| bare.commit().unwrap());
                bare.connection().execute_batch("COMMIT").unwrap();
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
