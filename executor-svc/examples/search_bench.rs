//! Times `FindFiles`, `SearchText` and `Read` beside `fd`, `rg` and `sed` on the same tree, in turn.
//!
//! ```sh
//! cargo run --release -p executor-svc --example search_bench -- make /tmp/tree        # 100,000 files, 1 GB
//! cargo run --release -p executor-svc --example search_bench -- run /tmp/tree [--cold] [--rounds N] [--only WORD]
//! ```
//!
//! Ours is the tool itself, asked for more than it gives to anybody else: no number of items and no size of the receipt
//! ends it, except where the row says so. `--cold` empties the page cache before each run and needs root. The other tools'
//! output goes through `LC_ALL=C sort`, since ours is sorted. What is found is counted on both sides, once.

#![allow(clippy::print_stdout, reason = "a measurement")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use executor_svc::cancel::Cancel;
use executor_svc::files::{FilePolicy, FilePolicyConfig, Profile, SessionFiles, canonical_root};
use executor_svc::tools::{
    self, FindFilesInput, ReadInput, ReadingInput, ReceiptBudget, SearchTextInput, ToolContext,
};
use gatehouse_figures::{Comparison, Goal, Place, Table, Unit};
use gatehouse_proto::ids::ToolCallId;
use serde_json::Value;

type Failure = Box<dyn std::error::Error>;

const FILES: usize = 100_000;
const FILES_IN_A_DIRECTORY: usize = 50;
const BYTES: usize = 1_000_000_000;
const BIG: &str = "big.log";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", dir] if Path::new(dir).join(BIG).exists() => Ok(()),
        ["make", dir] => make(Path::new(dir)),
        ["run", dir, options @ ..] => run(Path::new(dir), options),
        _ => Err("usage: search_bench make DIR | run DIR [--cold] [--rounds N] [--only WORD]".into()),
    }
}

/// A small generator, so that every tree is the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }
}

const WORDS: [&str; 16] = [
    "session", "ledger", "turn", "receipt", "fn", "let", "match", "return", "value", "error", "path",
    "index", "commit", "größe", "// note", "0x1f",
];

fn make(top: &Path) -> Result<(), Failure> {
    let mut dice = Dice(42);
    let mut text = String::new();
    for file in 0..FILES {
        let directory = file / FILES_IN_A_DIRECTORY;
        let dir = top.join(format!("part{:02}/unit{:03}", directory / 100, directory % 100));
        if file % FILES_IN_A_DIRECTORY == 0 {
            fs::create_dir_all(&dir)?;
        }
        text.clear();
        let size = BYTES / FILES / 2 + dice.roll(BYTES / FILES);
        while text.len() < size {
            for _ in 0..4 + dice.roll(8) {
                let _ = write!(text, "{} ", WORDS[dice.roll(WORDS.len())]);
            }
            text.push('\n');
        }
        if file % 2_500 == 0 {
            text.push_str("the RareNeedle stands here\n");
        }
        let ending = ["rs", "md", "toml", "txt"][file % 4];
        fs::write(dir.join(format!("file_{file:06}.{ending}")), &text)?;
    }
    let line = "2026-11-30T12:00:00Z INFO gateway: a line of a very large log with a number at its end ";
    let mut big = String::with_capacity(1 << 30);
    for number in 0.. {
        if big.len() >= (1 << 30) - 200 {
            break;
        }
        let _ = writeln!(big, "{line}{number}");
    }
    fs::write(top.join(BIG), big)?;
    println!("made {FILES} files in {}", top.display());
    Ok(())
}

/// Whether ours is held to the limits of a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limits {
    Lifted,
    Kept,
}

/// Something to time on both sides.
struct Case {
    name: &'static str,
    input: ReadingInput,
    limits: Limits,
    other: String,
}

/// More than there is.
const ALL: Option<u64> = Some(u64::MAX);

fn search(name: &'static str, text: &str, fold: bool, limits: Limits, dir: &Path) -> Case {
    let input = SearchTextInput {
        text: text.to_owned(),
        case_insensitive: fold,
        exclude_glob: Some(BIG.to_owned()),
        limit: if limits == Limits::Lifted { ALL } else { Some(1000) },
        ..SearchTextInput::default()
    };
    let fold = if fold { "-i" } else { "" };
    let other = format!("rg -F {fold} --hidden -n -g '!{BIG}' '{text}' {} | LC_ALL=C sort", dir.display());
    Case { name, input: ReadingInput::SearchText(input), limits, other }
}

fn find(name: &'static str, contains: &str, dir: &Path, fd: &str) -> Case {
    let input = FindFilesInput {
        name_contains: Some(contains).filter(|text| !text.is_empty()).map(str::to_owned),
        limit: ALL,
        ..FindFilesInput::default()
    };
    let pattern = if contains.is_empty() { ".".to_owned() } else { format!("-F {contains}") };
    let other = format!("{fd} {pattern} {} | LC_ALL=C sort", dir.display());
    Case { name, input: ReadingInput::FindFiles(input), limits: Limits::Lifted, other }
}

/// Beside a program that tells of each entry what ours tells: kind, size and time.
fn find_with_facts(name: &'static str, dir: &Path) -> Case {
    let input = FindFilesInput { limit: ALL, ..FindFilesInput::default() };
    let facts = r"%p %y %s %T@\n";
    let other =
        format!("find {} -mindepth 1 -not -name '.*' -printf '{facts}' | LC_ALL=C sort", dir.display());
    Case { name, input: ReadingInput::FindFiles(input), limits: Limits::Lifted, other }
}

fn read(name: &'static str, line: u64, dir: &Path) -> Case {
    let input = ReadInput {
        file_path: dir.join(BIG).display().to_string(),
        start_line: Some(line),
        max_lines: Some(100),
        start_column: None,
    };
    let other = format!("sed -n '{line},{}p' {}/{BIG}", line + 99, dir.display());
    Case { name, input: ReadingInput::Read(input), limits: Limits::Kept, other }
}

fn cases(top: &Path, fd: &str) -> Vec<Case> {
    let lifted = Limits::Lifted;
    vec![
        search("SearchText, absent", "AbsentNeedle", false, lifted, top),
        search("SearchText, 40 matches", "RareNeedle", false, lifted, top),
        search("SearchText, 40 matches, any case", "rareneedle", true, lifted, top),
        search("SearchText, half a million matches", "größe commit", false, lifted, top),
        search(
            "SearchText, the first 1,000 of 7 million, as a reply has them",
            "receipt",
            false,
            Limits::Kept,
            top,
        ),
        find("FindFiles, all 102,000", "", top, fd),
        find_with_facts("FindFiles, all 102,000, beside `find` that looks at each too", top),
        find("FindFiles, 10 by name", "file_01234", top, fd),
        find("FindFiles, absent", "no-such-name", top, fd),
        read("Read, near the start of 1 GB", 1_000, top),
        read("Read, near the end of 1 GB", 10_000_000, top),
    ]
}

fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    options.iter().position(|option| *option == name).and_then(|at| options.get(at + 1)).copied()
}

fn run(top: &Path, options: &[&str]) -> Result<(), Failure> {
    let cold = options.contains(&"--cold");
    let rounds = option(options, "--rounds").map_or(Ok(if cold { 3 } else { 7 }), str::parse)?;
    let only = option(options, "--only").unwrap_or_default();
    let top = top.canonicalize()?;
    let policy = Arc::new(FilePolicy::new(FilePolicyConfig::default())?);
    let root = canonical_root(&top, Profile::ReadOnly, &policy)?;
    let files = Arc::new(SessionFiles::new(root, policy));
    let mut table = Table::new(Comparison::head(
        if cold { "cold cache" } else { "warm cache" },
        "`rg -F`, `fd`, `find`, `sed`; sorted",
    ));
    let fd = ["fd", "fdfind"].into_iter().find(|name| installed(name));
    for missing in [("fd", fd.is_some()), ("rg", installed("rg"))].into_iter().filter(|(_, there)| !there) {
        table.absent(missing.0);
    }
    let cases = cases(&top, fd.unwrap_or("fd"));
    for case in cases.iter().filter(|case| case.name.contains(only)) {
        table.row(measured(case, &files, cold, rounds)?.row());
    }
    if only.is_empty() {
        table.save(if cold { Place::SearchCold } else { Place::SearchWarm })?;
    } else {
        println!("{}", table.markdown());
    }
    Ok(())
}

fn measured(
    case: &Case,
    files: &Arc<SessionFiles>,
    cold: bool,
    rounds: usize,
) -> Result<Comparison, Failure> {
    let goal = if case.limits == Limits::Lifted || case.name.starts_with("Read") {
        Goal::AtMost(1.0)
    } else {
        Goal::None
    };
    let mut pair = Comparison::new(case.name, Unit::Time, goal);
    let is_there = installed(case.other.split(' ').next().unwrap_or_default());
    if case.limits == Limits::Lifted && is_there {
        agree(case, files)?;
    }
    for _ in 0..rounds {
        pair.ours(timed(cold, || perform(case, files).map(drop))?);
        if is_there {
            pair.other(timed(cold, || shell(&case.other))?);
        }
    }
    Ok(pair)
}

/// Both find the same number.
fn agree(case: &Case, files: &Arc<SessionFiles>) -> Result<(), Failure> {
    let receipt: Value = serde_json::from_str(&perform(case, files)?)?;
    let ours = ["matches", "entries"].iter().find_map(|items| receipt[*items].as_array()).map_or(0, Vec::len);
    let output = Command::new("sh").args(["-c", &case.other]).output()?;
    let others = output.stdout.split_inclusive(|byte| *byte == b'\n').count();
    if receipt["truncated"] == true || ours != others {
        return Err(format!("{}: ours found {ours}, the other {others}", case.name).into());
    }
    Ok(())
}

fn installed(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir: PathBuf| dir.join(name).is_file()))
}

fn timed(cold: bool, work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    if cold {
        Command::new("sync").status()?;
        fs::write("/proc/sys/vm/drop_caches", "3")?;
    }
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// The receipt.
fn perform(case: &Case, files: &Arc<SessionFiles>) -> Result<String, Failure> {
    let deadline = Instant::now() + Duration::from_secs(300);
    let context = ToolContext { files: Arc::clone(files), cancel: Cancel::default(), deadline };
    let budget = match case.limits {
        Limits::Lifted => ReceiptBudget::WITHOUT_BOUND,
        Limits::Kept => ReceiptBudget::MAX,
    };
    let receipt = tools::perform(&case.input, &context, budget, &ToolCallId::mint());
    if receipt.ok { Ok(receipt.json) } else { Err(receipt.json.into()) }
}

fn shell(command: &str) -> Result<(), Failure> {
    Command::new("sh").args(["-c", command]).stdout(Stdio::null()).status()?;
    Ok(())
}
