//! What the system says that processes use.

use std::fmt;
use std::time::{Duration, Instant};

use gatehouse_figures::{Goal, Place, Table, Unit};
use gatehouse_tests::memory::Memory;
use gatehouse_tests::{Gateway, processes};

/// What the gateway may use while nobody asks it anything, of one processor, in hundredths.
const QUIET: Goal = Goal::AtMost(1.0);
/// How soon ChatGPT has its next turn.
const SOON: Goal = Goal::AtMost(0.020);

/// Times: the middle one, and the one that one in a hundred exceeds.
pub struct Spread {
    count: usize,
    p50: Duration,
    p99: Duration,
    longest: Duration,
}

impl Spread {
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        Self { count: times.len(), p50: at(50), p99: at(99), longest: at(100) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let (p50, p99, longest) = (ms(self.p50), ms(self.p99), ms(self.longest));
        write!(f, "p50 {p50:.1} ms, p99 {p99:.1} ms, longest {longest:.1} ms ({} times)", self.count)
    }
}

/// The processes of a gateway, by kind.
fn kinds(gateway: &Gateway) -> Vec<(&'static str, Vec<u32>)> {
    let stand_ins = processes::all().into_iter().filter(|process| {
        let state_dir = gateway.state_dir();
        let ours = |argument: &String| argument.starts_with(state_dir.to_str().unwrap_or_default());
        process.arguments.first().is_some_and(|program| program.ends_with("claude-stand-in"))
            && process.arguments.iter().any(ours)
    });
    vec![
        ("executor-svc", gateway.executor_pid().into_iter().collect()),
        ("mcp-front", gateway.front_pid().into_iter().collect()),
        ("runner-shim", processes::shims_of(&gateway.runtime_dir())),
        ("claude-stand-in", stand_ins.map(|process| process.pid).collect()),
    ]
}

/// Processor time of a process so far, all of its threads that there are: to the nanosecond, not in the clock's ticks.
fn processor_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |thread: std::fs::DirEntry| -> Option<u64> {
        std::fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(threads.filter_map(of).sum())
}

/// Watches the gateway while nothing happens; what it used in all, as a share of one processor.
pub async fn idle(gateway: &Gateway, window: Duration, sessions: usize) -> f64 {
    let used = |pids: &[u32]| pids.iter().map(|pid| processor_time(*pid)).sum::<Duration>();
    let kinds = kinds(gateway);
    let title = format!("{sessions} sessions that wait");
    let mut table = Table::new([
        &title,
        "processor, of one",
        "resident",
        "in proportion",
        "its own",
        "for each session",
        "goal (processor)",
        "reached",
    ]);
    let before: Vec<Duration> = kinds.iter().map(|(_, pids)| used(pids)).collect();
    let began = Instant::now();
    tokio::time::sleep(window).await;
    let watched = began.elapsed();
    let (mut all, mut held) = (0.0, Memory::default());
    for ((name, pids), before) in kinds.iter().zip(before) {
        let share = (used(pids).saturating_sub(before)).as_secs_f64() / watched.as_secs_f64();
        let memory = pids.iter().map(|pid| Memory::of(*pid)).fold(Memory::default(), |sum, one| sum + one);
        row(&mut table, &format!("{} {name}", pids.len()), share, memory, sessions, Goal::None);
        (all, held) = (all + share, held + memory);
    }
    row(&mut table, "all of it", all, held, sessions, QUIET);
    table.note(format!("Watched for {:.0} s.", watched.as_secs_f64()));
    keep(&table, Place::ManyIdle);
    all
}

fn row(table: &mut Table, name: &str, share: f64, memory: Memory, sessions: usize, goal: Goal) {
    let sizes = memory.mebibytes();
    let each = sizes[1] / sessions as f64;
    let mut cells = vec![Unit::Percent.show(share * 100.0)];
    cells.extend(sizes.map(|size| Unit::Mebibytes.show(size)));
    cells.push(format!("{each:.2} MiB"));
    table.measured(name, &cells, Unit::Percent, share * 100.0, goal);
}

/// How soon a turn came, as a table.
pub fn wakes(table: &mut Table, times: &[Duration]) {
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    let at = |hundredths| gatehouse_figures::percentile(&seconds, hundredths).unwrap_or_default();
    let cells = [50, 99, 100].map(|hundredths| Unit::Time.show(at(hundredths)));
    let name = format!("a reply with one Read, until the next turn is there ({} times)", times.len());
    table.measured(&name, &cells, Unit::Time, at(99), SOON);
}

/// A bench keeps its tables; a test only shows them.
pub fn keep(table: &Table, place: Place) {
    if std::env::var_os("GATEHOUSE_BENCH_FIGURES").is_some() {
        table.save(place).unwrap();
    } else {
        println!("{}", table.markdown());
    }
}
