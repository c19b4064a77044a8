//! Counters in the text form that Prometheus reads. Labels come from closed sets: a caller cannot make new series.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

type Series<V> = Mutex<BTreeMap<[&'static str; 2], V>>;

/// What the front counts.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Series<Count>,
    tools: Series<Count>,
    refusals: Series<Count>,
    rpc_failures: Series<Count>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    number: u64,
    took: Duration,
}

impl Metrics {
    /// One protocol request was answered.
    pub fn request(&self, method: &'static str, outcome: &'static str, took: Duration) {
        add(&self.requests, [method, outcome], took);
    }

    /// One tool call was answered.
    pub fn tool(&self, tool: &'static str, outcome: &'static str, took: Duration) {
        add(&self.tools, [tool, outcome], took);
    }

    /// A request or a tool call was refused with this code.
    pub fn refusal(&self, layer: &'static str, code: &'static str) {
        add(&self.refusals, [layer, code], Duration::ZERO);
    }

    /// A gRPC call failed without an answer of the executor.
    pub fn rpc_failure(&self, call: &'static str, kind: &'static str) {
        add(&self.rpc_failures, [call, kind], Duration::ZERO);
    }

    /// Everything, as text. `waiting` is the number of calls that hold a wait at this moment; `executors` is what the
    /// executor counts, if it tells.
    #[must_use]
    pub fn render(&self, waiting: usize, executors: Option<&str>) -> String {
        let mut out = String::new();
        timed(&mut out, "requests", "Protocol requests answered.", ["method", "outcome"], &self.requests);
        timed(&mut out, "tool_calls", "Tool calls answered.", ["tool", "outcome"], &self.tools);
        counted(&mut out, "refusals", "Refused requests and tool calls.", ["layer", "code"], &self.refusals);
        counted(
            &mut out,
            "rpc_failures",
            "Calls of the executor that failed without an answer.",
            ["call", "kind"],
            &self.rpc_failures,
        );
        head(&mut out, "waiting_polls", "gauge", "Calls that wait for a change now.");
        line(&mut out, format_args!("gatehouse_front_waiting_polls {waiting}"));
        head(&mut out, "executor_up", "gauge", "Whether the executor answers.");
        line(&mut out, format_args!("gatehouse_front_executor_up {}", u8::from(executors.is_some())));
        out.push_str(executors.unwrap_or_default());
        out
    }
}

fn add(series: &Series<Count>, labels: [&'static str; 2], took: Duration) {
    let mut series = series.lock().unwrap_or_else(PoisonError::into_inner);
    let count = series.entry(labels).or_default();
    count.number += 1;
    count.took += took;
}

fn snapshot(series: &Series<Count>) -> BTreeMap<[&'static str; 2], Count> {
    series.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn counted(out: &mut String, name: &str, help: &str, [a, b]: [&str; 2], series: &Series<Count>) {
    head(out, &format!("{name}_total"), "counter", help);
    for ([x, y], count) in snapshot(series) {
        line(out, format_args!("gatehouse_front_{name}_total{{{a}=\"{x}\",{b}=\"{y}\"}} {}", count.number));
    }
}

fn timed(out: &mut String, name: &str, help: &str, labels: [&str; 2], series: &Series<Count>) {
    counted(out, name, help, labels, series);
    let [a, b] = labels;
    head(out, &format!("{name}_seconds_total"), "counter", &format!("{help} Sum of the time they took."));
    for ([x, y], count) in snapshot(series) {
        let seconds = count.took.as_secs_f64();
        line(
            out,
            format_args!("gatehouse_front_{name}_seconds_total{{{a}=\"{x}\",{b}=\"{y}\"}} {seconds:.6}"),
        );
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    line(out, format_args!("# HELP gatehouse_front_{name} {help}"));
    line(out, format_args!("# TYPE gatehouse_front_{name} {kind}"));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_appear_with_their_labels_and_sums() {
        let metrics = Metrics::default();
        metrics.request("tools/call", "200", Duration::from_millis(1500));
        metrics.request("tools/call", "200", Duration::from_millis(500));
        metrics.refusal("tool", "lease_mismatch");
        metrics.rpc_failure("status", "lost");
        let text = metrics.render(3, Some("gatehouse_turns_total 1\n"));
        for expected in [
            "gatehouse_front_requests_total{method=\"tools/call\",outcome=\"200\"} 2\n",
            "gatehouse_front_requests_seconds_total{method=\"tools/call\",outcome=\"200\"} 2.000000\n",
            "gatehouse_front_refusals_total{layer=\"tool\",code=\"lease_mismatch\"} 1\n",
            "gatehouse_front_rpc_failures_total{call=\"status\",kind=\"lost\"} 1\n",
            "gatehouse_front_waiting_polls 3\n",
            "# TYPE gatehouse_front_waiting_polls gauge\n",
            "gatehouse_front_executor_up 1\ngatehouse_turns_total 1\n",
        ] {
            assert!(text.contains(expected), "{expected} not in\n{text}");
        }
    }
}
