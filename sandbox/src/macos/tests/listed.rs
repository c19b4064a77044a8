//! The list of probes, held against the profiles.

use serde::Deserialize;

use super::super::evaluator::{Kind, Query, Target};
use super::sample;
use crate::launch::Policy;

/// A line of the list, as far as it is about Seatbelt.
#[derive(Deserialize)]
pub(super) struct Probe {
    line: u32,
    what: String,
    #[serde(default = "command")]
    policy: String,
    #[serde(default)]
    seatbelt: Vec<Attempt>,
}

fn command() -> String {
    Policy::Command.name().to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    op: String,
    path: Option<String>,
    #[serde(default)]
    kind: Kind,
    name: Option<String>,
    ip: Option<String>,
    target: Option<Target>,
    domain: Option<String>,
    #[serde(default)]
    allow: bool,
}

/// One attempt under one policy, with what must come of it.
#[derive(Debug)]
pub(super) struct Expected {
    pub about: String,
    pub policy: Policy,
    pub query: Query,
    pub allow: bool,
}

#[derive(Deserialize)]
struct File {
    probe: Vec<Probe>,
}

pub(super) fn expected() -> Vec<Expected> {
    let file: File = toml::from_str(include_str!("../../../tests/data/probes.toml")).unwrap();
    let of = |probe: &Probe| {
        let policy = sample::POLICIES.into_iter().find(|policy| policy.name() == probe.policy).unwrap();
        let about = format!("{}: {}", probe.line, probe.what);
        probe
            .seatbelt
            .iter()
            .map(|attempt| Expected {
                about: about.clone(),
                policy,
                query: attempt.query(policy),
                allow: attempt.allow,
            })
            .collect::<Vec<_>>()
    };
    file.probe.iter().flat_map(of).collect()
}

impl Attempt {
    fn query(&self, policy: Policy) -> Query {
        let fill = |text: &String| {
            sample::places(policy).iter().fold(text.clone(), |text, (name, place)| text.replace(name, place))
        };
        let ip = self.ip.as_ref().map(|ip| ip.rsplit_once(':').unwrap());
        let path = self.path.as_ref().map(fill);
        assert!(path.as_ref().is_none_or(|path| path.starts_with('/') && !path.contains('{')), "{path:?}");
        Query {
            operation: self.op.clone(),
            path,
            kind: self.kind,
            name: self.name.clone().or_else(|| self.domain.clone()),
            ip: ip.map(|(host, port)| (host.to_owned(), port.to_owned())),
            target: self.target,
        }
    }
}

#[test]
fn each_line_comes_out_as_the_list_says() {
    let mut wrong = Vec::new();
    for policy in sample::POLICIES {
        let profile = sample::understood(&sample::profile(policy));
        for expected in expected().iter().filter(|expected| expected.policy == policy) {
            let found =
                profile.allows(&expected.query).unwrap_or_else(|error| panic!("{}: {error}", expected.about));
            if found != expected.allow {
                wrong.push(format!(
                    "{} ({}): {:?} is {found}",
                    expected.about,
                    policy.name(),
                    expected.query
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the launcher opens to find out that the profile is in force.
#[test]
fn no_policy_lets_the_keepers_own_file_be_read() {
    for policy in sample::POLICIES {
        let path = Some("/private/tmp/gatehouse-0123456789ab/outside".to_owned());
        let query = Query { operation: "file-read-data".to_owned(), path, ..Query::default() };
        assert_eq!(sample::understood(&sample::profile(policy)).allows(&query), Ok(false), "{policy:?}");
    }
}
