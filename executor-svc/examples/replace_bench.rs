//! One durable replacement beside a bare loop of temporary file, fsync, rename and fsync of the directory, on the same
//! disk, alone and side by side: `replace_bench DIRECTORY [ROUNDS]`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark, not part of the daemon")]

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use executor_svc::content::ContentStore;
use executor_svc::files::replace::{ReplaceOptions, Replacer};
use executor_svc::files::{FilePolicy, FilePolicyConfig, Profile, SessionFiles, canonical_root};

const BYTES: usize = 8 * 1024;

/// A content that there was never before.
fn content() -> Vec<u8> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{:>15}\n", NEXT.fetch_add(1, Ordering::Relaxed)).repeat(BYTES / 16).into_bytes()
}

fn bare(path: &Path) {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary).unwrap();
    file.write_all(&content()).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(&temporary, path).unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

struct Ours {
    files: Arc<SessionFiles>,
    replacer: Replacer,
    store: Option<ContentStore>,
}

impl Ours {
    fn write(&self, path: &Path) {
        let until = Instant::now() + Duration::from_secs(60);
        let target = self.replacer.open(&self.files, path, until).unwrap();
        let new = content();
        let before = target.bytes().unwrap_or_default().to_vec();
        let kept = self.store.as_ref().map(|store| store.put_all(&[&before, &new]).unwrap());
        target.prepare(new, "bench").unwrap().perform().unwrap();
        drop(kept);
    }
}

fn measure(name: &str, rounds: usize, side_by_side: usize, root: &Path, write: impl Fn(&Path) + Sync) {
    let files: Vec<PathBuf> = (0..side_by_side).map(|n| root.join(format!("{n}/file"))).collect();
    for file in &files {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "start").unwrap();
    }
    let started = Instant::now();
    std::thread::scope(|threads| {
        for file in &files {
            threads.spawn(|| (0..rounds).for_each(|_| write(file)));
        }
    });
    let all = started.elapsed();
    let each = all / u32::try_from(rounds).unwrap();
    let a_second = (rounds * side_by_side) as f64 / all.as_secs_f64();
    println!("{name:>24}, {side_by_side:>2} side by side: {each:>10.2?} a round, {a_second:>8.0} a second");
}

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let top = PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));
    let rounds = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(200);
    let kept = tempfile::tempdir_in(top).unwrap();
    let root = kept.path().canonicalize().unwrap().join("root");
    std::fs::create_dir(&root).unwrap();
    let policy = Arc::new(FilePolicy::new(FilePolicyConfig::default()).unwrap());
    let found = canonical_root(&root, Profile::DirectWrite, &policy).unwrap();
    let files = Arc::new(SessionFiles::new(found, policy));
    let replacer = Replacer::new(ReplaceOptions::default());
    let store = ContentStore::open(&kept.path().join("content"), 1 << 40).unwrap();
    let plain = Ours { files: Arc::clone(&files), replacer: replacer.clone(), store: None };
    let stored = Ours { files, replacer, store: Some(store) };
    for side_by_side in [1, 32] {
        for _ in 0..2 {
            measure("bare", rounds, side_by_side, &root, bare);
            measure("replace", rounds, side_by_side, &root, |path| plain.write(path));
            measure("replace and contents", rounds, side_by_side, &root, |path| {
                stored.write(path);
            });
        }
    }
}
