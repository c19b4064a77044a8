//! The layers of the sandbox, put up for real, and canaries: a confined program that tries what it must not be able to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use gatehouse_sandbox::launch::{
    Confinement, LaunchRequest, Launcher, Limits, Policy, ProcessGroup, Scratch, Streams, TimeLimit,
};
use gatehouse_sandbox::probe::Report;
use tokio::io::AsyncReadExt;

use super::Line;

/// How long the canaries may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Each attempt prints its name and what came of it. `$1` is a file that is hidden, `$2` one that could be made beside it, and
/// `$3` one beside it that is not hidden: being denied that too would prove nothing.
const ATTEMPTS: &str = r#"
tell() { if [ "$2" = 0 ]; then echo "$1 allowed"; else echo "$1 denied"; fi; }
cat "$3" >/dev/null 2>&1; tell control $?
cat "$1" >/dev/null 2>&1; tell read $?
( : > "$2" ) 2>/dev/null; tell write $?
if [ -d /proc/self ]; then
  grep ':' /proc/net/dev | grep -qv '^ *lo:'; tell network $?
  set -- /proc/[0-9]*; [ $# -gt 20 ]; tell processes $?
fi
"#;

/// The attempt that must succeed.
const CONTROL: &str = "control";

/// What was found.
#[derive(Debug)]
pub struct Facts {
    /// What the launcher says of this host, or why it says nothing.
    pub report: Result<Report, String>,
    /// What the canaries could do: a name and whether it was denied; or why they did not run.
    pub canaries: Result<Vec<Canary>, String>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    /// What was tried.
    pub attempt: String,
    /// Whether it was denied.
    pub denied: bool,
}

/// Looks. The canaries' files are made in a directory of their own below `place`, if it is there.
pub async fn gather(launcher: Option<PathBuf>, place: &Path) -> Facts {
    let Some(path) = launcher else {
        let missing = || "sandbox-launch is not there".to_owned();
        return Facts { report: Err(missing()), canaries: Err(missing()) };
    };
    let launcher = Launcher::at(path);
    let report = launcher.probe().await.map_err(|error| error.to_string());
    let canaries = tokio::time::timeout(PATIENCE, fly(&launcher, place)).await;
    Facts { report, canaries: canaries.unwrap_or_else(|_| Err("they did not end in time".to_owned())) }
}

async fn fly(launcher: &Launcher, place: &Path) -> Result<Vec<Canary>, String> {
    let words = |error: std::io::Error| error.to_string();
    // Not in the temporary folder if it can be helped: a confined program has another one anyway.
    let top = tempfile::tempdir_in(place).or_else(|_| tempfile::tempdir()).map_err(words)?;
    let top = top.path().canonicalize().map_err(words)?;
    let secret = top.join("secret");
    for file in [&secret, &top.join("plain")] {
        std::fs::write(file, "a canary\n").map_err(words)?;
    }
    let said = run(launcher, &top, &secret).await?;
    Ok(told(&said))
}

fn told(said: &str) -> Vec<Canary> {
    let lines = said.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(attempt, outcome)| Canary { attempt: attempt.to_owned(), denied: outcome == "denied" })
        .collect()
}

async fn run(launcher: &Launcher, top: &Path, secret: &Path) -> Result<String, String> {
    let words = ["/bin/sh", "-c", ATTEMPTS, "canary"].map(Into::into);
    let (beside, plain) = (top.join("made"), top.join("plain"));
    let request = LaunchRequest {
        argv: words.into_iter().chain([secret.into(), beside.into(), plain.into()]).collect(),
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".into())]),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy: Policy::Command,
    };
    let confinement = Confinement {
        readable: vec![top.to_owned()],
        hidden: vec![secret.to_owned()],
        scratch: Scratch::Memory { bytes: 1 << 20 },
        time: Some(TimeLimit::seconds(15)),
        ..Confinement::default()
    };
    let streams = Streams { stdin: Stdio::null(), stdout: Stdio::piped(), stderr: Stdio::null() };
    let mut confined =
        launcher.start_confined(&request, &confinement, streams).await.map_err(|error| error.to_string())?;
    let mut said = String::new();
    if let Some(mut out) = confined.child.stdout.take() {
        out.read_to_string(&mut said).await.map_err(|error| error.to_string())?;
    }
    confined.child.wait().await.map_err(|error| error.to_string())?;
    Ok(said)
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    vec![layers(&facts.report), canaries(&facts.canaries)]
}

fn layers(report: &Result<Report, String>) -> Line {
    const CHECK: &str = "sandbox_layers";
    let report = match report {
        Ok(report) => report,
        Err(why) => {
            return Line::failed(
                CHECK,
                why.clone(),
                "Install all binaries into one directory, or set claude.helper_dir.",
            );
        }
    };
    let failure = report.policies.iter().find_map(|policy| Some((policy, policy.failure.as_ref()?)));
    if let Some((policy, failure)) = failure {
        let remedy = match &failure.remedy {
            Some(remedy) => remedy.to_string(),
            None => "`sandbox-launch --probe` shows how far each policy gets.".to_owned(),
        };
        return Line::failed(CHECK, format!("{}: {failure}", policy.policy.name()), remedy);
    }
    let each: Vec<_> = report
        .policies
        .iter()
        .map(|policy| format!("{} {}", policy.policy.name(), policy.layers.len()))
        .collect();
    Line::ok(CHECK, format!("all are there (layers: {})", each.join(", ")))
}

fn canaries(canaries: &Result<Vec<Canary>, String>) -> Line {
    const CHECK: &str = "sandbox_canaries";
    const ALARM: &str =
        "Do not let sessions run commands here. Run `sandbox-launch --probe` and report what it prints.";
    match canaries {
        Err(why) => Line::failed(CHECK, format!("the confined program did not run: {why}"), ALARM),
        Ok(all) if !all.iter().any(|canary| canary.attempt == CONTROL && !canary.denied) => {
            Line::failed(CHECK, "the confined program could not even do what is allowed", ALARM)
        }
        Ok(all) => {
            let names = |denied: bool| {
                let some = all.iter().filter(|canary| canary.denied == denied && canary.attempt != CONTROL);
                some.map(|canary| canary.attempt.as_str()).collect::<Vec<_>>().join(", ")
            };
            match names(false) {
                none if none.is_empty() => Line::ok(CHECK, format!("denied inside: {}", names(true))),
                some => Line::failed(CHECK, format!("a confined program could: {some}"), ALARM),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gatehouse_sandbox::launch::{Layer, LayerFailure, Remedy};
    use gatehouse_sandbox::probe::PolicyReport;

    use super::super::Verdict::{Failed, Ok as Fine};
    use super::*;

    #[test]
    fn a_missing_layer_is_told_with_its_remedy() {
        let policy = |failure| PolicyReport { policy: Policy::Command, layers: vec![Layer::Userns], failure };
        let report = |failure| Ok(Report { policies: vec![policy(failure)], landlock_version: 6 });
        assert_eq!(layers(&report(None)).verdict, Fine);
        let call = "landlock_create_ruleset".to_owned();
        let remedy = Some(Remedy::LandlockMissing);
        let failure = LayerFailure { layer: Layer::Landlock, call, errno: 38, remedy };
        let line = layers(&report(Some(failure)));
        assert_eq!(line.verdict, Failed);
        assert!(
            line.found.contains("landlock") && line.what_to_do.unwrap().contains("lsm="),
            "{}",
            line.found
        );
        assert_eq!(layers(&Err("gone".into())).verdict, Failed);
    }

    #[test]
    fn one_canary_that_gets_through_is_enough() {
        assert_eq!(canaries(&Ok(told("control allowed\nread denied\n"))).verdict, Fine);
        assert_eq!(canaries(&Ok(told("control denied\nread denied\n"))).verdict, Failed);
        let line = canaries(&Ok(told("control allowed\nread denied\nnetwork allowed\n")));
        assert!(line.verdict == Failed && line.found.contains("network"), "{line:?}");
        assert_eq!(canaries(&Ok(Vec::new())).verdict, Failed);
        assert_eq!(canaries(&Err("no".into())).verdict, Failed);
    }
}
