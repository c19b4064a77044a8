//! Our replacement of a file, and what keeps its contents, without the engine.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use executor_svc::content::{ContentStore, Keeping, Whole};
use executor_svc::files::replace::{ReplaceOptions, Replacer, Target};
use executor_svc::files::{FilePolicy, FilePolicyConfig, Profile, SessionFiles, canonical_root};
use executor_svc::ledger::{self, Opened};
use tokio::runtime::Handle;

use super::content;

pub struct Ours {
    files: Arc<SessionFiles>,
    replacer: Replacer,
    store: ContentStore,
    ledger: Opened,
    runtime: Handle,
}

impl Ours {
    pub fn new(root: &Path, top: &Path, runtime: Handle) -> Self {
        let policy = Arc::new(FilePolicy::new(FilePolicyConfig::default()).unwrap());
        let found = canonical_root(root, Profile::DirectWrite, &policy).unwrap();
        let state = top.join("state");
        std::fs::create_dir(&state).unwrap();
        let ledger = ledger::open(&state).unwrap();
        let store = ContentStore::open(&state.join("content"), 1 << 40).unwrap();
        Self {
            files: Arc::new(SessionFiles::new(found, policy)),
            replacer: Replacer::new(ReplaceOptions::default()),
            store: store.with_ledger(ledger.readers.clone()),
            ledger,
            runtime,
        }
    }

    fn open(&self, path: &Path) -> Target {
        self.replacer.open(&self.files, path, Instant::now() + Duration::from_secs(60)).unwrap()
    }

    pub fn replace(&self, path: &Path) {
        self.open(path).prepare(content().into_bytes(), "bench").unwrap().perform().unwrap();
    }

    /// With both contents in a commit before anything on the disk changes.
    pub fn replace_and_keep(&self, path: &Path) {
        let target = self.open(path);
        let before = target.shared_bytes().unwrap();
        let after = Arc::new(content().into_bytes());
        let prepared = target.prepare_shared(Arc::clone(&after), "bench").unwrap();
        let intent = prepared.intent();
        let keeping = self.store.keep(&[
            Whole { sha256: intent.before.sha256().unwrap(), bytes: &before },
            Whole { sha256: intent.after.sha256().unwrap(), bytes: &after },
        ]);
        self.commit(keeping.unwrap());
        prepared.perform().unwrap();
    }

    fn commit(&self, keeping: Keeping) {
        let keeping = Arc::new(keeping);
        let recorded = Arc::clone(&keeping);
        let committed = self.ledger.writer.write::<(), (), _>(move |tx| {
            recorded.record(tx)?;
            Ok(((), Box::new(|| ())))
        });
        self.runtime.block_on(committed).unwrap();
        keeping.committed();
    }
}
