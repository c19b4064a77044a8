//! What the executor counts, in the text form that Prometheus reads. Labels come from closed sets.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

mod text;

pub use text::Exposition;

/// Upper bounds of the histograms' buckets, in seconds: from a commit on a fast disk to a command at its time limit.
const BOUNDS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 1800.0];

/// How often something took how long.
#[derive(Debug, Default, Clone)]
struct Histogram {
    /// One more than there are bounds: the last has no upper bound.
    buckets: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

impl Histogram {
    fn observe(&mut self, took: Duration) {
        let at = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[at] += 1;
        self.sum += took;
    }
}

/// Everything that is counted since this executor was started.
#[derive(Debug, Default)]
pub struct Metrics {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default, Clone)]
struct Inner {
    turns: u64,
    actions: BTreeMap<(String, String), u64>,
    action_seconds: BTreeMap<String, Histogram>,
    reply_commit: Histogram,
    wake_up: Histogram,
    rpc_errors: BTreeMap<(&'static str, i32), u64>,
}

impl Metrics {
    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A turn was opened.
    pub fn turn(&self) {
        self.with(|inner| inner.turns += 1);
    }

    /// An action got its receipt: `ok`, or the receipt's code.
    pub fn action(&self, tool: &str, result: &str, took: Duration) {
        self.with(|inner| {
            *inner.actions.entry((tool.to_owned(), result.to_owned())).or_default() += 1;
            inner.action_seconds.entry(tool.to_owned()).or_default().observe(took);
        });
    }

    /// A reply was checked and committed.
    pub fn reply_committed(&self, took: Duration) {
        self.with(|inner| inner.reply_commit.observe(took));
    }

    /// Somebody who waited for a session knew of its change so long after that was committed.
    pub fn woken(&self, after: Duration) {
        self.with(|inner| inner.wake_up.observe(after));
    }

    /// A call of this service was answered with an error of this gRPC code.
    pub fn rpc_error(&self, service: &'static str, code: i32) {
        self.with(|inner| *inner.rpc_errors.entry((service, code)).or_default() += 1);
    }

    /// What was counted, as text.
    pub fn render(&self, out: &mut Exposition) {
        let inner = self.with(|inner| inner.clone());
        out.head("turns_total", "counter", "Turns opened.");
        out.value("turns_total", &[], inner.turns);
        out.head("actions_total", "counter", "Tool calls that got their receipt.");
        for ((tool, result), number) in &inner.actions {
            out.value("actions_total", &[("tool", tool), ("result", result)], *number);
        }
        out.head("rpc_errors_total", "counter", "Calls answered with an error, by gRPC code.");
        for ((service, code), number) in &inner.rpc_errors {
            let code = code.to_string();
            out.value("rpc_errors_total", &[("service", service), ("code", &code)], *number);
        }
        out.head("action_seconds", "histogram", "From the call of a tool to its receipt in the ledger.");
        for (tool, histogram) in &inner.action_seconds {
            out.histogram("action_seconds", &[("tool", tool)], histogram);
        }
        out.head("reply_commit_seconds", "histogram", "Checking a reply and committing it.");
        out.histogram("reply_commit_seconds", &[], &inner.reply_commit);
        out.head(
            "wake_up_seconds",
            "histogram",
            "From the commit of a change until a call that waited knew.",
        );
        out.histogram("wake_up_seconds", &[], &inner.wake_up);
    }
}

impl Exposition {
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let mut below = 0;
        for (index, number) in histogram.buckets.iter().enumerate() {
            below += number;
            let bound = BOUNDS.get(index).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.value(&format!("{name}_bucket"), &labels, below);
        }
        self.value(&format!("{name}_sum"), labels, histogram.sum.as_secs_f64());
        self.value(&format!("{name}_count"), labels, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_end_with_everything() {
        let metrics = Metrics::default();
        for ms in [1, 3, 3, 4000, 9_000_000] {
            metrics.reply_committed(Duration::from_millis(ms));
        }
        let mut out = Exposition::default();
        metrics.render(&mut out);
        let text = out.into_text();
        for line in [
            "gatehouse_reply_commit_seconds_bucket{le=\"0.001\"} 1",
            "gatehouse_reply_commit_seconds_bucket{le=\"0.002\"} 1",
            "gatehouse_reply_commit_seconds_bucket{le=\"0.005\"} 3",
            "gatehouse_reply_commit_seconds_bucket{le=\"5\"} 4",
            "gatehouse_reply_commit_seconds_bucket{le=\"1800\"} 4",
            "gatehouse_reply_commit_seconds_bucket{le=\"+Inf\"} 5",
            "gatehouse_reply_commit_seconds_count 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} not in\n{text}");
        }
    }

    #[test]
    fn actions_are_counted_by_tool_and_result() {
        let metrics = Metrics::default();
        metrics.action("Read", "ok", Duration::from_millis(2));
        metrics.action("Read", "not_found", Duration::from_millis(2));
        metrics.rpc_error("front", 9);
        let mut out = Exposition::default();
        metrics.render(&mut out);
        let text = out.into_text();
        assert!(text.contains("gatehouse_actions_total{tool=\"Read\",result=\"not_found\"} 1\n"), "{text}");
        assert!(text.contains("gatehouse_rpc_errors_total{service=\"front\",code=\"9\"} 1\n"), "{text}");
        assert!(text.contains("gatehouse_action_seconds_count{tool=\"Read\"} 2\n"), "{text}");
    }
}
