//! What the system says that processes use.

use std::fmt;
use std::time::{Duration, Instant};

use gatehouse_tests::{Gateway, processes};

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

/// Processor time of a process so far.
fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    // Hundredths of a second, on every Linux that we run on.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Watches the gateway while nothing happens; what it used in all, as a share of one processor.
pub async fn idle(gateway: &Gateway, window: Duration) -> f64 {
    let used = |pids: &[u32]| pids.iter().map(|pid| processor_time(*pid)).sum::<Duration>();
    let kinds = kinds(gateway);
    let before: Vec<Duration> = kinds.iter().map(|(_, pids)| used(pids)).collect();
    let began = Instant::now();
    tokio::time::sleep(window).await;
    let watched = began.elapsed();
    let mut all = 0.0;
    for ((name, pids), before) in kinds.iter().zip(before) {
        let share = (used(pids).saturating_sub(before)).as_secs_f64() / watched.as_secs_f64();
        println!(
            "idle for {:.0} s: {} {name} used {:.2} % of a processor",
            watched.as_secs_f64(),
            pids.len(),
            share * 100.0
        );
        all += share;
    }
    all
}

/// Prints what the processes hold: each kind, and for each session.
pub fn memory(gateway: &Gateway, sessions: usize) {
    for (name, pids) in kinds(gateway) {
        let sum = |of: fn(u32) -> u64| pids.iter().map(|pid| of(*pid)).sum::<u64>() as f64 / 1024.0;
        let (resident, proportional) = (sum(resident_kib), sum(proportional_kib));
        println!(
            "memory: {} {name}: {resident:.1} MiB resident, {proportional:.1} MiB in proportion; {:.2} MiB for each session",
            pids.len(),
            proportional / sessions as f64
        );
    }
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
}

fn resident_kib(pid: u32) -> u64 {
    field(&std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), "VmRSS:")
}

/// Pages that several processes share, shared out among them; zero where we may not ask.
fn proportional_kib(pid: u32) -> u64 {
    field(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default(), "Pss:")
}
