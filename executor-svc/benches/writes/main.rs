//! What changing a file durably costs, beside what it cannot cost less than: `make bench`, or
//! `cargo bench -p executor-svc --bench writes`. Makes the tables of docs/performance.md.
//!
//! Bare is a loop of temporary file, fsync, rename and fsync of the directory, on the same disk; where a ledger belongs to
//! it, with as many commits of SQLite (WAL, `synchronous=FULL`), of small rows, as the path needs. Ours and bare are
//! measured in turns, in one run, so that whatever else the machine does meets both. Environment:
//!
//! * `GATEHOUSE_BENCH_DIR`: where to work, by default the build folder.
//! * `GATEHOUSE_BENCH_ROUNDS`: another number of rounds.
//! * `GATEHOUSE_BENCH_SLOW`: set by `make bench-writes-slow`, which lets each fsync take longer. The tables are others then.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement fails by panicking"
)]

mod bare;
mod editing;
mod replacing;
mod table;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use bare::Group;
use editing::House;
use replacing::Ours;
use table::{Pairs, Spent, Unit, timed};

use gatehouse_figures::{BareCommits, Goal, Place, rounds};

/// How large the files are.
const BYTES: usize = 8 * 1024;
/// How often each does it in a burst: a replacement, and an edit.
const REPLACEMENTS: usize = 20;
const EDITS: usize = 10;
/// How often each is done alone; side by side a tenth of that.
const ROUNDS: usize = 200;
/// How many work side by side.
const MANY: usize = 32;

/// A text that there was never before; only its first line differs.
fn content() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1_000_000);
    static REST: LazyLock<String> = LazyLock::new(|| (1..BYTES / 64).map(|n| format!("{n:>63}\n")).collect());
    format!("{:>63}\n{}", NEXT.fetch_add(1, Ordering::Relaxed), *REST)
}

/// A file of its own in a folder of its own, for each of those who work side by side.
fn files(root: &Path) -> Vec<PathBuf> {
    let file = |n| {
        let folder = root.join(format!("{n}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("file"), content()).unwrap();
        folder.join("file")
    };
    (0..MANY).map(file).collect()
}

/// How long it takes `MANY` threads to do this `times` each.
fn side_by_side(times: usize, work: impl Fn(usize) + Sync) -> Spent {
    let work = &work;
    timed(|| {
        std::thread::scope(|threads| {
            for n in 0..MANY {
                threads.spawn(move || (0..times).for_each(|_| work(n)));
            }
        });
    })
}

fn main() {
    let build = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let place = std::env::var_os("GATEHOUSE_BENCH_DIR").map_or(build, PathBuf::from);
    let top = tempfile::tempdir_in(place).unwrap();
    let top = top.path().canonicalize().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let alone = rounds(ROUNDS);
    let bursts = alone.div_ceil(10);
    println!(
        "Files of {} KiB; alone {alone} rounds, side by side {bursts} bursts of {MANY}.\n",
        BYTES / 1024
    );
    let tables = [table::table("alone"), table::table("32 side by side")];
    let [replaced, edited] =
        [replacing(&top, alone, bursts, runtime.handle()), runtime.block_on(editing(&top, alone, bursts))];
    let places = match std::env::var_os("GATEHOUSE_BENCH_SLOW") {
        None => [Place::WritesAlone, Place::WritesTogether],
        Some(_) => [Place::SlowWritesAlone, Place::SlowWritesTogether],
    };
    for (((place, table), mut rows), more) in places.into_iter().zip(tables).zip(replaced).zip(edited) {
        rows.extend(more);
        table::save(place, table, &rows);
    }
}

/// Rows of the one who is alone, and of many.
type Rows = [Vec<Pairs>; 2];

/// The replacement of a file, without and with keeping its contents.
fn replacing(top: &Path, alone: usize, bursts: usize, runtime: &tokio::runtime::Handle) -> Rows {
    let root = top.join("replacing");
    std::fs::create_dir(&root).unwrap();
    let files = files(&root);
    let ours = Ours::new(&root, top, runtime.clone());
    let (single, group) =
        (BareCommits::open(&top.join("single.db")).unwrap(), Group::open(&top.join("group.db")));
    let mut plain = Pairs::new("replacing", Unit::Each, Goal::AtMost(1.3));
    let mut kept = Pairs::new("replacing, contents kept (1 commit)", Unit::Each, Goal::AtMost(1.3));
    for _ in 0..alone {
        plain.add(1, timed(|| ours.replace(&files[0])), timed(|| bare::replace(&files[0])));
        kept.add(
            1,
            timed(|| ours.replace_and_keep(&files[0])),
            timed(|| {
                single.commit().unwrap();
                bare::replace(&files[0]);
            }),
        );
    }
    let mut plain_many = Pairs::new("replacing", Unit::Second, Goal::AtLeast(0.8));
    let mut kept_many = Pairs::new("replacing, contents kept (1 commit)", Unit::Second, Goal::AtLeast(0.8));
    for _ in 0..bursts {
        let bare = side_by_side(REPLACEMENTS, |n| bare::replace(&files[n]));
        plain_many.add(MANY * REPLACEMENTS, side_by_side(REPLACEMENTS, |n| ours.replace(&files[n])), bare);
        let bare = side_by_side(REPLACEMENTS, |n| {
            group.commit();
            bare::replace(&files[n]);
        });
        kept_many.add(
            MANY * REPLACEMENTS,
            side_by_side(REPLACEMENTS, |n| ours.replace_and_keep(&files[n])),
            bare,
        );
    }
    [vec![plain, kept], vec![plain_many, kept_many]]
}

/// Whole edits, from the reply that asks for them to the receipt.
async fn editing(top: &Path, alone: usize, bursts: usize) -> Rows {
    let root = top.join("editing");
    std::fs::create_dir(&root).unwrap();
    let files = files(&root);
    let house = House::open(&top.join("house"));
    let mut sessions = Vec::new();
    for file in &files {
        sessions.push(house.session(file).await);
    }
    let (single, group) =
        (BareCommits::open(&top.join("single-edit.db")).unwrap(), Group::open(&top.join("group-edit.db")));
    let mut one =
        Pairs::new("Edit: authorised, prepared, made, receipt (3 commits)", Unit::Each, Goal::AtMost(1.3));
    for _ in 0..alone {
        sessions[0].open_turn().await;
        let started = Spent::until_now();
        sessions[0].edit().await;
        let ours = started.since();
        one.add(1, ours, timed(|| bare::edit(&files[0], 2, 1, || single.commit().unwrap())));
    }
    let mut many = Pairs::new("Edit, with its turn (4 commits)", Unit::Second, Goal::AtLeast(0.8));
    let (group, files) = (Arc::new(group), Arc::new(files));
    for _ in 0..bursts {
        let started = Spent::until_now();
        let mut tasks = tokio::task::JoinSet::new();
        for mut session in sessions.drain(..) {
            tasks.spawn(async move {
                for _ in 0..EDITS {
                    session.open_turn().await;
                    session.edit().await;
                }
                session
            });
        }
        sessions = tasks.join_all().await;
        let ours = started.since();
        let bare = tokio::task::block_in_place(|| {
            side_by_side(EDITS, |n| bare::edit(&files[n], 3, 1, || group.commit()))
        });
        many.add(MANY * EDITS, ours, bare);
    }
    [vec![one], vec![many]]
}
