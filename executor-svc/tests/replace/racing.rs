//! Attackers at work while thousands of edits run: what is outside never changes, and nobody's writes are lost unseen.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::world::{World, snapshot};

/// Lets attackers run until the work is done.
fn under_attack(attackers: &[&(dyn Fn(u64) + Sync)], work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for attack in attackers {
            threads.spawn(|| {
                let mut round = 0;
                while !stop.load(Ordering::Acquire) {
                    attack(round);
                    round += 1;
                    std::thread::yield_now();
                }
            });
        }
        work();
        stop.store(true, Ordering::Release);
    });
}

/// How many of the attempts did what they were to do, and how many were refused by each code.
#[derive(Debug, Default)]
struct Tally(Mutex<std::collections::BTreeMap<String, u64>>);

impl Tally {
    fn count(&self, what: &str) {
        *self.0.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }

    fn of(&self, what: &str) -> u64 {
        self.0.lock().unwrap().get(what).copied().unwrap_or_default()
    }

    /// Every refusal is one of those that such an attack can cause.
    fn assert_only(&self, codes: &[&str]) {
        let seen = self.0.lock().unwrap();
        let other: Vec<_> =
            seen.keys().filter(|code| *code != "ok" && !codes.contains(&code.as_str())).collect();
        assert!(other.is_empty(), "{seen:?}");
    }
}

impl Tally {
    /// Where nobody could tell what came of a write, a temporary file may stay for a person to look at.
    fn assert_rarely_uncertain(&self, world: &World) {
        assert!(self.of("ok") > 0 && self.of("symlink_refused") > 0, "{self:?}");
        match self.of("uncertain") {
            0 => world.assert_tidy(),
            few => assert!(few < 30, "{self:?}"),
        }
    }
}

#[test]
fn nothing_outside_changes_while_links_and_directories_are_swapped_around() {
    let world = World::new();
    for name in ["target", "dir/target", "dir/deep/target"] {
        world.put(name, "inside");
        let outside = world.outside.join(name);
        std::fs::create_dir_all(outside.parent().unwrap()).unwrap();
        std::fs::write(outside, "outside").unwrap();
    }
    let before = snapshot(&world.outside);
    let (dir, away, file) =
        (world.root.join("dir"), world.root.join("away"), world.root.join("dir/deep/target"));
    // A directory on the way becomes a link to the outside and a directory again.
    let swap_directory = |_| {
        if std::fs::rename(&dir, &away).is_ok() {
            let _ = symlink(world.outside.join("dir"), &dir);
            std::thread::yield_now();
            let _ = std::fs::remove_file(&dir);
            // A write may have made the directory anew meanwhile.
            while std::fs::rename(&away, &dir).is_err() {
                let _ = std::fs::remove_dir_all(&dir);
            }
            (0..20).for_each(|_| std::thread::yield_now());
        }
    };
    // The file itself becomes a link to the outside and a file again; through the directory's descriptor, for by its
    // path the attacker would reach the outside itself.
    let deep = std::fs::File::open(world.root.join("dir/deep")).unwrap();
    let swap_file = |_| {
        // Each of them may find that a write has just put something there, or back.
        let _ = rustix::fs::renameat(&deep, "target", &deep, "kept");
        let _ = rustix::fs::symlinkat(world.outside.join("dir/deep/target"), &deep, "target");
        std::thread::yield_now();
        let _ = rustix::fs::renameat(&deep, "kept", &deep, "target");
        (0..20).for_each(|_| std::thread::yield_now());
    };
    // A directory that is to be made is there already, as a link.
    let made = world.root.join("made");
    let forestall = |_| {
        let _ = symlink(&world.outside, &made);
        std::thread::yield_now();
        let _ = std::fs::remove_file(&made);
        let _ = std::fs::remove_dir_all(&made);
    };
    let tally = Tally::default();
    under_attack(&[&swap_directory, &swap_file, &forestall], || {
        for round in 0..3_000 {
            let path = match round % 3 {
                0 => file.clone(),
                1 => world.root.join("dir/new"),
                _ => made.join("deep/new"),
            };
            match world.write(&path, &format!("round {round}")) {
                Ok(_) => tally.count("ok"),
                Err(fault) => tally.count(fault.code().as_str()),
            }
        }
    });
    assert_eq!(snapshot(&world.outside), before, "{tally:?}");
    // A directory that vanishes on the way is met as missing, or as one that something was to be removed from.
    tally.assert_only(&[
        "symlink_refused",
        "changed_meanwhile",
        "not_found",
        "not_a_file",
        "permission_denied",
        // Moved away between the swap and the look at it: honest, and rare.
        "uncertain",
    ]);
    tally.assert_rarely_uncertain(&world);
}

#[test]
fn the_root_itself_can_be_swapped_and_nothing_outside_changes() {
    let world = World::new();
    let file = world.put("file", "inside");
    std::fs::write(world.outside.join("file"), "outside").unwrap();
    let before = snapshot(&world.outside);
    let away = world.top().join("away");
    let swap = |_| {
        std::fs::rename(&world.root, &away).unwrap();
        symlink(&world.outside, &world.root).unwrap();
        std::thread::yield_now();
        std::fs::remove_file(&world.root).unwrap();
        std::fs::rename(&away, &world.root).unwrap();
        (0..1_000).for_each(|_| std::thread::yield_now());
    };
    let tally = Tally::default();
    under_attack(&[&swap], || {
        for round in 0..2_000 {
            match world.write(&file, &format!("round {round}")) {
                Ok(_) => tally.count("ok"),
                Err(fault) => tally.count(fault.code().as_str()),
            }
        }
    });
    assert_eq!(snapshot(&world.outside), before, "{tally:?}");
    tally.assert_only(&["outside_root", "changed_meanwhile", "symlink_refused", "not_found"]);
    assert!(tally.of("ok") > 0 && tally.of("outside_root") > 0, "{tally:?}");
    world.assert_tidy();
}

/// A file that several add lines to, each under its own name. An edit adds one as well, to what it has seen.
struct Book {
    world: World,
    path: PathBuf,
    added: Mutex<BTreeSet<String>>,
    next: AtomicU64,
    /// How many edits were tried: attackers act once for each, so that edits get their turn.
    tries: AtomicU64,
}

impl Book {
    fn new() -> Self {
        let world = World::new();
        let path = world.put("book", "begin\n");
        Self { world, path, added: Mutex::default(), next: AtomicU64::new(0), tries: AtomicU64::new(0) }
    }

    fn line(&self, who: &str) -> String {
        format!("{who}-{}\n", self.next.fetch_add(1, Ordering::AcqRel))
    }

    fn note(&self, line: String) {
        self.added.lock().unwrap().insert(line);
    }

    /// Edits until so many have gone through; each conflict is told and tried again.
    fn edit(&self, wanted: u64, tally: &Tally) {
        let (mut done, mut tries) = (0, 0);
        while done < wanted {
            tries += 1;
            self.tries.fetch_add(1, Ordering::AcqRel);
            assert!(tries < 50 * wanted, "{done} edits went through: {tally:?}");
            let result = self.world.open(&self.path).and_then(|target| {
                let line = self.line("edit");
                let bytes = [target.bytes().unwrap_or_default(), line.as_bytes()].concat();
                target.prepare(bytes, "toolu_race")?.perform().map(|_| line)
            });
            match result {
                Ok(line) => {
                    self.note(line);
                    tally.count("ok");
                    done += 1;
                }
                Err(fault) => tally.count(fault.code().as_str()),
            }
        }
    }

    /// Every line that anybody was told is in the book, is in the book, once.
    fn assert_nothing_lost(&self, tally: &Tally) {
        let text = std::fs::read_to_string(&self.path).unwrap();
        let there: Vec<&str> = text.split_inclusive('\n').skip(1).collect();
        let unique: BTreeSet<String> = there.iter().map(|line| (*line).to_owned()).collect();
        let added = self.added.lock().unwrap();
        let lost: Vec<_> = added.difference(&unique).take(5).collect();
        assert!(lost.is_empty(), "lost: {lost:?}; {tally:?}");
        assert_eq!(there.len(), unique.len(), "something was applied twice");
        self.world.assert_tidy();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn lines_that_others_append_in_place_are_never_lost() {
    use std::io::Write as _;
    let book = Book::new();
    let seen = AtomicU64::new(0);
    let append = |round: u64| {
        let tries = book.tries.load(Ordering::Acquire);
        if seen.swap(tries, Ordering::AcqRel) == tries {
            return;
        }
        // At another moment of the edit each time.
        (0..round % 97 * 3).for_each(|_| std::thread::yield_now());
        // A writer of the ordinary kind: it opens the path, writes, and closes it.
        let Ok(mut file) = std::fs::File::options().append(true).open(&book.path) else { return };
        let line = book.line("append");
        file.write_all(line.as_bytes()).unwrap();
        drop(file);
        book.note(line);
    };
    let tally = Tally::default();
    under_attack(&[&append], || book.edit(500, &tally));
    tally.assert_only(&["changed_meanwhile"]);
    book.assert_nothing_lost(&tally);
}

#[test]
fn edits_beside_each_other_are_never_lost() {
    let book = Book::new();
    let tally = Tally::default();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| book.edit(250, &tally));
        }
    });
    tally.assert_only(&[]);
    assert_eq!(tally.of("ok"), 1_000);
    book.assert_nothing_lost(&tally);
}

#[test]
fn a_file_that_others_replace_is_theirs_or_ours_and_always_whole() {
    let world = World::new();
    let path = world.put("file", "theirs 0");
    let last_theirs = AtomicU64::new(0);
    let replace = |round: u64| {
        let other = path.with_extension("other");
        std::fs::write(&other, format!("theirs {}", round + 1)).unwrap();
        std::fs::rename(&other, &path).unwrap();
        last_theirs.store(round + 1, Ordering::Release);
        (0..100).for_each(|_| std::thread::yield_now());
    };
    let remove = |_| {
        let _ = std::fs::remove_file(&path);
        (0..500).for_each(|_| std::thread::yield_now());
    };
    let tally = Tally::default();
    under_attack(&[&replace, &remove], || {
        for round in 0..2_000 {
            let result = world.write(&path, &format!("ours {round}"));
            tally.count(result.as_ref().map_or_else(|fault| fault.code().as_str(), |_| "ok"));
            if let Ok(text) = std::fs::read_to_string(&path) {
                let (who, number) = text.split_once(' ').unwrap_or_else(|| panic!("half a file: {text:?}"));
                let number: u64 = number.parse().unwrap();
                assert!(matches!(who, "ours" | "theirs") && number <= 100_000_000, "{text}");
            }
        }
    });
    tally.assert_only(&["changed_meanwhile"]);
    assert!(tally.of("ok") > 0 && tally.of("changed_meanwhile") > 0, "{tally:?}");
    world.assert_tidy();
    assert_alone(world.root.as_path());
}

/// Nothing but the file itself, and perhaps the attacker's own, is left in the directory.
fn assert_alone(root: &Path) {
    let names: BTreeSet<_> = snapshot(root).into_iter().map(|(path, _)| path).collect();
    assert!(names.len() <= 2, "{names:?}");
}
