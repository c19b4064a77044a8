//! `gatehouse doctor`.

use std::io;
use std::path::Path;

use serde_json::json;

use super::install::{LINGER, services as planned_services};
use super::view::{ago, moment};
use crate::cli::Doctor;
use crate::doctor::{
    Line, Verdict, calls, claude, executor, front, links, places, sandbox, services, tools, tunnel,
};
use crate::failure::{Exit, Failure};
use crate::gateway::{Listen, noted_listen};
use crate::install::{self, Disk, Home, Manager, kept};
use crate::screen::{Screen, Style, clean};
use crate::settings::{Binaries, Place, Settings};

/// What is shown: groups of lines, and the last call if an executor tells.
#[derive(Debug, Default)]
struct Findings {
    groups: Vec<(&'static str, Vec<Line>)>,
    last_call: Option<calls::LastCall>,
}

pub(super) async fn run(place: Place, options: &Doctor, screen: &mut Screen) -> Result<(), Failure> {
    let findings = examine(&place, options).await?;
    let worst = findings.lines().map(|line| line.verdict).max().unwrap_or(Verdict::Ok);
    if options.json {
        screen.line(as_json(&findings).to_string())?;
    } else {
        show(&findings, screen)?;
    }
    if worst < Verdict::Failed {
        return Ok(());
    }
    let number = findings.lines().filter(|line| line.verdict == Verdict::Failed).count();
    Err(Failure::failed(format!("{number} checks failed")))
}

impl Findings {
    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.groups.iter().flat_map(|(_, lines)| lines)
    }
}

async fn examine(place: &Place, options: &Doctor) -> Result<Findings, Failure> {
    let binaries = Binaries::beside_this()?;
    let settings = match binaries.settings(place).await {
        Ok(settings) => settings,
        Err(failure) if failure.exit == Exit::Usage => {
            let line =
                Line::failed("configuration", failure.message, "Mend that first; nothing starts with it.");
            return Ok(Findings { groups: vec![("Settings", vec![line])], last_call: None });
        }
        Err(failure) => return Err(failure),
    };
    let settled = Line::ok("configuration", format!("state in {}", settings.state_dir.display()));
    let launcher = settings.claude.helper_dir.clone().map(|dir| dir.join("sandbox-launch"));
    let launcher = launcher.or_else(|| binaries.path("sandbox-launch").ok()).filter(|path| path.is_file());
    let home = Home::find(|name| std::env::var(name).ok())?;
    let asked = executor::gather(&settings).await;
    let diagnosis = asked.diagnosis.as_ref().and_then(|found| found.as_ref().ok());
    let installed = installed(&binaries, &settings, &home);
    let endpoint = endpoint(&settings, options, &installed)?;
    let config = home.config.clone();
    let linked = tokio::task::spawn_blocking(move || links::gather(home.home)).await;
    let mut of_sandbox = sandbox::judge(&sandbox::gather(launcher, &settings.state_dir).await);
    of_sandbox.extend(links::judge(&linked.unwrap_or_default()));
    let mut of_programs = claude::judge(&claude::gather(&settings.claude).await);
    of_programs.extend(tools::judge(&tools::gather().await));
    let mut of_settings = vec![settled];
    of_settings.extend(places::judge(&places::gather(&settings)));
    let mut of_clients = tunnel::judge(&tunnel::gather(&config));
    of_clients.extend(diagnosis.map(calls::judge).unwrap_or_default());
    let groups = vec![
        ("Settings", of_settings),
        ("Programs", of_programs),
        ("Sandbox", of_sandbox),
        ("Executor", executor::judge(&asked)),
        ("Front", front::judge(&front::gather(&endpoint, &settings.front.key_file).await)),
        ("Tunnel and clients", of_clients),
        ("Services", services::judge(&installed)),
    ];
    Ok(Findings { groups, last_call: diagnosis.map(calls::last_call) })
}

/// Where the front listens: as asked, as the gateway that runs has noted, as it was installed, or as configured.
fn endpoint(
    settings: &Settings,
    options: &Doctor,
    installed: &services::Facts,
) -> Result<crate::chatgpt::Endpoint, Failure> {
    let noted = || noted_listen(&settings.runtime_dir);
    let recorded = || installed.record.as_ref()?.listen.clone();
    let text = options.listen.clone().or_else(noted).or_else(recorded);
    let text = text.unwrap_or_else(|| settings.front.listen.clone());
    Ok(Listen::parse(&text)?.endpoint(None))
}

fn installed(binaries: &Binaries, settings: &Settings, home: &Home) -> services::Facts {
    let disk = Disk::new(None, settings.state_dir.clone());
    let record = disk.record().ok().flatten();
    let manager = record.as_ref().map_or_else(Manager::of_this_system, |record| record.manager);
    let listen = record.as_ref().and_then(|record| record.listen.clone());
    let listen = Listen::parse(listen.as_deref().unwrap_or(&settings.front.listen)).ok();
    let wanted = listen.as_ref().and_then(|listen| planned_services(binaries, settings, listen).ok());
    let listen = listen.as_ref().map(Listen::argument).unwrap_or_default();
    let wanted = wanted.as_ref().and_then(|wanted| install::plan(manager, home, wanted, &listen).ok());
    services::gather(&disk, wanted.as_ref(), kept(|name| std::env::var(name).ok()), Path::new(LINGER))
}

fn as_json(findings: &Findings) -> serde_json::Value {
    let ok = findings.lines().all(|line| line.verdict < Verdict::Failed);
    let checks: Vec<_> = findings.lines().collect();
    json!({ "ok": ok, "checks": checks, "last_call": findings.last_call })
}

fn show(findings: &Findings, screen: &mut Screen) -> io::Result<()> {
    let width = findings.lines().map(|line| line.check.len()).max().unwrap_or(0);
    for (group, lines) in &findings.groups {
        screen.heading(group)?;
        for line in lines {
            let style = match line.verdict {
                Verdict::Ok => Style::Good,
                Verdict::Warning => Style::Attention,
                Verdict::Failed => Style::Bad,
            };
            let word = screen.paint(style, &format!("{:7}", line.verdict.word()));
            screen.line(format!("  {word}  {:width$}  {}", line.check, clean(&line.found, 400)))?;
            for part in line.what_to_do.iter().flat_map(|text| text.lines()) {
                screen.line(format!("  {:7}  {:width$}  → {}", "", "", clean(part, 400)))?;
            }
        }
    }
    if let Some(call) = &findings.last_call {
        screen.heading("The last call")?;
        screen.line(format!("  {}", clean(&call.found, 300)))?;
        screen.line(format!("  → {}", call.what_to_do))?;
        let facts: Vec<_> = call
            .traces
            .iter()
            .map(|trace| {
                (
                    trace.kind,
                    format!("{}  {} ({})", clean(&trace.what, 120), ago(trace.at_ms), moment(trace.at_ms)),
                )
            })
            .collect();
        screen.facts(&facts)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Colour, tests::shown};

    #[test]
    fn every_line_says_what_to_do_where_something_is_wrong() {
        let lines =
            vec![Line::ok("git", "there"), Line::failed("front", "gone \u{1b}[31m", "Start it.\nNow.")];
        let call = calls::last_call(&gatehouse_proto::v1::DiagnoseReply::default());
        let findings = Findings { groups: vec![("All", lines)], last_call: Some(call) };
        let text = shown(Colour::Off, |screen| show(&findings, screen));
        assert!(
            text.starts_with("All\n  ok       git    there\n  failed   front  gone \u{fffd}[31m\n"),
            "{text}"
        );
        assert!(text.contains("→ Start it.\n") && text.contains("→ Now.\n"), "{text}");
        assert!(text.contains("The last call\n  No call of a client"), "{text}");
        let json = as_json(&findings);
        assert_eq!((&json["ok"], &json["last_call"]["place"]), (&false.into(), &"never_reached".into()));
        assert_eq!(json["checks"][1]["verdict"], "failed");
    }
}
