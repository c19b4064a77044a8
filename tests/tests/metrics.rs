//! Figures and logs: the text that Prometheus reads holds by its own rules, and no log line at any level tells what sessions say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use gatehouse::chatgpt::http::send;
use gatehouse::chatgpt::{Brain, Call, Endpoint, Start};
use gatehouse_tests::places::Project;
use gatehouse_tests::{Gateway, Setup, claude};
use http_body_util::Full;
use serde_json::json;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

/// Reads the text form strictly: every family has its HELP and TYPE before its figures, in one block; no figure stands there twice.
fn read(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n'), "the last line has an end");
    let (mut kinds, mut helped) = (BTreeMap::new(), BTreeSet::new());
    let (mut samples, mut seen, mut closed) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(is_name(name) && !help.is_empty() && helped.insert(name.to_owned()), "{line}");
            assert!(closed.insert(name.to_owned()), "the family comes in two blocks: {line}");
            name.clone_into(&mut family);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(name == family && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            kinds.insert(name.to_owned(), kind.to_owned());
        } else {
            let sample = sample(line);
            let kind = kinds.get(&family).unwrap_or_else(|| panic!("no type before {line}"));
            assert!(belongs(&sample.name, &family, kind), "{line} is not of {family}");
            assert!(kind != "counter" || (family.ends_with("_total") && sample.value >= 0.0), "{line}");
            assert!(seen.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "twice: {line}");
            samples.push(sample);
        }
    }
    let histograms = kinds.iter().filter(|(_, kind)| *kind == "histogram");
    histograms.for_each(|(name, _)| check_histogram(name, &samples));
    samples
}

fn belongs(name: &str, family: &str, kind: &str) -> bool {
    let suffix = name.strip_prefix(family).unwrap_or("-");
    match kind {
        "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
        _ => suffix.is_empty(),
    }
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, BTreeMap::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect("a closing brace"))),
    };
    assert!(is_name(name), "{line}");
    Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().unwrap_or_else(|_| panic!("no number: {line}")),
    }
}

fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').map(|pair| {
        let (name, value) = pair.split_once('=').expect("a label has a value");
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect("quotes");
        assert!(is_name(name) && !value.contains(['"', '\\', '\n']), "{text}");
        (name.to_owned(), value.to_owned())
    });
    pairs.collect()
}

/// Buckets grow with their bounds, the last is everything, and it is the count.
fn check_histogram(name: &str, samples: &[Sample]) {
    let buckets = samples.iter().filter(|sample| sample.name == format!("{name}_bucket"));
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<_>> = BTreeMap::new();
    for bucket in buckets {
        let bound = match bucket.labels["le"].as_str() {
            "+Inf" => f64::INFINITY,
            bound => bound.parse().unwrap(),
        };
        let others = bucket.labels.iter().filter(|(name, _)| *name != "le");
        let key = others.map(|(name, value)| (name.clone(), value.clone())).collect();
        series.entry(key).or_default().push((bound, bucket.value));
    }
    for (labels, buckets) in series {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {labels:?}: {buckets:?}");
        let count =
            samples.iter().find(|sample| sample.name == format!("{name}_count") && sample.labels == labels);
        let last = buckets.last().unwrap();
        assert!(
            last.0.is_infinite() && count.is_some_and(|count| count.value == last.1),
            "{name} {labels:?}"
        );
    }
}

async fn scrape(endpoint: &Endpoint) -> String {
    let request = endpoint.request(http::Method::GET, "/metrics").body(Full::<Bytes>::default()).unwrap();
    let reply = send(endpoint, request).await.unwrap();
    assert_eq!(reply.status, 200);
    String::from_utf8(reply.body.to_vec()).unwrap()
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |sample: &&Sample| {
        sample.name == name
            && labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|v| v == value))
    };
    samples.iter().find(fits).unwrap_or_else(|| panic!("{name} {labels:?} is missing")).value
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_of_front_and_executor_are_there_and_hold_by_the_rules_of_the_text_form() {
    let Some(claude) = claude() else { return };
    let mut gateway = Gateway::start(Setup::with_claude(claude)).await;
    read(&scrape(&gateway.endpoint()).await);
    let project = Project::small();
    let mut brain: Brain = gateway.session(&Start::new("Look.", project.text())).await;
    let good = Call::new("Read", json!({"file_path": project.path().join("README.md")}));
    let bad = Call::new("Read", json!({"file_path": project.path().join("missing")}));
    brain.act(None, &[good, bad]).await.unwrap();
    brain.until(|state| !state.tool_results().is_empty()).await.unwrap();
    brain.finish("Done.").await.unwrap();
    let unknown = json!({"native_session_id": format!("ns_{}", "0".repeat(32)), "lease_id": format!("lease_{}", "0".repeat(32))});
    gateway.client().call("native_session_status", unknown).await.unwrap_err();

    let samples = read(&scrape(&gateway.endpoint()).await);
    assert_eq!(value(&samples, "gatehouse_front_executor_up", &[]), 1.0);
    assert_eq!(value(&samples, "gatehouse_sessions", &[("status", "idle")]), 1.0);
    assert_eq!(value(&samples, "gatehouse_turns_total", &[]), 2.0);
    for result in ["ok", "not_found"] {
        assert_eq!(value(&samples, "gatehouse_actions_total", &[("tool", "Read"), ("result", result)]), 1.0);
    }
    assert_eq!(value(&samples, "gatehouse_action_seconds_count", &[("tool", "Read")]), 2.0);
    assert_eq!(value(&samples, "gatehouse_reply_commit_seconds_count", &[]), 2.0);
    assert!(value(&samples, "gatehouse_wake_up_seconds_count", &[]) >= 1.0);
    assert!(value(&samples, "gatehouse_rpc_errors_total", &[("service", "front")]) >= 1.0);
    for size in ["gatehouse_ledger_bytes", "gatehouse_journal_entries"] {
        assert!(value(&samples, size, &[]) > 1.0, "{size}");
    }
    let guide =
        std::fs::read_to_string(gatehouse_tests::binaries::repository().join("docs/operations.md")).unwrap();
    let part = guide.split("## Metrics").nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
    for sample in &samples {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| sample.name.strip_suffix(suffix));
        let family = family.filter(|name| part.contains(*name)).unwrap_or(&sample.name);
        let short = family.replace("gatehouse_front_", "…_");
        assert!(
            part.contains(&format!("`{family}`")) || part.contains(&format!("`{short}`")),
            "{family} has no row"
        );
    }

    gateway.kill_executor();
    let samples = read(&scrape(&gateway.endpoint()).await);
    assert_eq!(value(&samples, "gatehouse_front_executor_up", &[]), 0.0);
    gateway.start_executor().await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn not_even_the_chattiest_log_tells_what_sessions_say() {
    let mut gateway = Gateway::start(Setup::without_claude()).await;
    gateway.end_executor();
    gateway.start_executor_with(&[("GATEHOUSE_LOG", "trace"), ("CLAUDE_BIN", "/nonexistent/claude")]).await;
    let project = Project::small();
    let word = "a-word-that-is-nobodys-business";
    let start = Start { label: Some(word.to_owned()), ..Start::new(format!("The {word}."), project.text()) };
    let mut brain = Brain::start(gateway.client(), &start).await.unwrap();
    brain.settle().await.unwrap();
    gateway.learn(&brain);
    let log = gateway.logged("executor.log");
    assert!(log.contains("launch failed"), "it tells what happened: {log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "not JSON: {line}");
        assert!(!line.contains(word), "{line}");
    }
    // And no key, token, lease or path either: the harness looks for those.
    gateway.finish().await;
}
