//! Times `FindFiles`, `SearchText` and `Read` beside `fd`, `rg` and `sed` on the same tree, run about.
//!
//! ```sh
//! cargo run --release -p executor-svc --example search_bench -- make /tmp/tree        # 100,000 files, 1 GB
//! cargo run --release -p executor-svc --example search_bench -- run /tmp/tree [--cold] [--rounds N]
//! ```
//!
//! `--cold` empties the page cache before each run and needs root. The other tools' output goes through
//! `LC_ALL=C sort`, since ours is sorted. A ratio below 1.00 means that ours was faster.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use executor_svc::cancel::Cancel;
use executor_svc::files::{FilePolicy, FilePolicyConfig, Profile, SessionFiles, canonical_root};
use executor_svc::tools::{self, CheckedInput, ReceiptBudget, ToolContext, ToolName};
use gatehouse_proto::ids::ToolCallId;
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

const FILES: usize = 100_000;
const FILES_IN_A_DIRECTORY: usize = 50;
const BYTES: usize = 1_000_000_000;
const BIG: &str = "big.log";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", dir] => make(Path::new(dir)),
        ["run", dir, options @ ..] => run(Path::new(dir), options),
        _ => Err("usage: search_bench make DIR | run DIR [--cold] [--rounds N]".into()),
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

/// Something to time on both sides.
struct Case {
    name: &'static str,
    tool: ToolName,
    input: Value,
    other: String,
}

fn cases(top: &Path, fd: &str) -> Vec<Case> {
    let dir = top.display();
    let search = |name, text: &str, fold: bool| Case {
        name,
        tool: ToolName::SearchText,
        input: json!({"text": text, "case_insensitive": fold, "exclude_glob": BIG}),
        other: format!(
            "rg -F {} --hidden -n -g '!{BIG}' '{text}' {dir} | LC_ALL=C sort",
            if fold { "-i" } else { "" }
        ),
    };
    let mut cases = vec![
        search("SearchText, absent", "AbsentNeedle", false),
        search("SearchText, 40 matches", "RareNeedle", false),
        search("SearchText, 40 matches, any case", "rareneedle", true),
        search("SearchText, everywhere", "receipt", false),
        Case {
            name: "FindFiles, everything",
            tool: ToolName::FindFiles,
            input: json!({"limit": 2000}),
            other: format!("{fd} . {dir} | LC_ALL=C sort"),
        },
        Case {
            name: "FindFiles, 10 by name",
            tool: ToolName::FindFiles,
            input: json!({"name_contains": "file_01234"}),
            other: format!("{fd} -F file_01234 {dir} | LC_ALL=C sort"),
        },
        Case {
            name: "FindFiles, absent",
            tool: ToolName::FindFiles,
            input: json!({"name_contains": "no-such-name"}),
            other: format!("{fd} -F no-such-name {dir} | LC_ALL=C sort"),
        },
    ];
    for (name, line) in [("Read, near the start of 1 GB", 1_000), ("Read, near the end of 1 GB", 10_000_000)]
    {
        cases.push(Case {
            name,
            tool: ToolName::Read,
            input: json!({"file_path": top.join(BIG), "start_line": line, "max_lines": 100}),
            other: format!("sed -n '{line},{}p' {dir}/{BIG}", line + 99),
        });
    }
    cases
}

fn run(top: &Path, options: &[&str]) -> Result<(), Failure> {
    let cold = options.contains(&"--cold");
    let rounds = options.iter().position(|o| *o == "--rounds").and_then(|at| options.get(at + 1));
    let rounds: usize = rounds.map_or(Ok(if cold { 3 } else { 7 }), |text| text.parse())?;
    let top = top.canonicalize()?;
    let policy = Arc::new(FilePolicy::new(FilePolicyConfig::default())?);
    let root = canonical_root(&top, Profile::ReadOnly, &policy)?;
    let files = Arc::new(SessionFiles::new(root, policy));
    let fd = ["fd", "fdfind"]
        .into_iter()
        .find(|name| installed(name))
        .ok_or("neither fd nor fdfind is installed")?;
    println!(
        "{:<34} {:>10} {:>10} {:>7}",
        if cold { "cold cache" } else { "warm cache" },
        "ours",
        "other",
        "ratio"
    );
    for case in cases(&top, fd) {
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(timed(cold, || perform(&case, &files))?);
            others.push(timed(cold, || shell(&case.other))?);
        }
        let (ours, other) = (median(ours), median(others));
        let ratio = ours.as_secs_f64() / other.as_secs_f64();
        println!("{:<34} {:>8.1}ms {:>8.1}ms {ratio:>7.2}", case.name, millis(ours), millis(other));
    }
    Ok(())
}

fn installed(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir: PathBuf| dir.join(name).is_file()))
}

fn timed(cold: bool, work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    if cold {
        Command::new("sync").status()?;
        fs::write("/proc/sys/vm/drop_caches", "3")?;
    }
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn perform(case: &Case, files: &Arc<SessionFiles>) -> Result<(), Failure> {
    let CheckedInput::Reading(input) = tools::check(case.tool, &case.input)? else {
        return Err("not a reading tool".into());
    };
    let deadline = Instant::now() + Duration::from_secs(300);
    let context = ToolContext { files: Arc::clone(files), cancel: Cancel::default(), deadline };
    let receipt = tools::perform(&input, &context, ReceiptBudget::MAX, &ToolCallId::mint());
    if receipt.ok { Ok(()) } else { Err(receipt.json.into()) }
}

fn shell(command: &str) -> Result<(), Failure> {
    Command::new("sh").args(["-c", command]).stdout(Stdio::null()).status()?;
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
