//! The installed services: still what would be installed now, with the environment of this shell, and staying.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Line;
use crate::install::{Disk, Manager, Plan, Record, lingers, set_for_services};

/// Parts of the names of variables that hold secrets. Nothing that a service is given on purpose is called so.
const SECRET: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What was installed.
    pub record: Option<Record>,
    /// Why nobody can tell what was installed, if so.
    pub unreadable: Option<String>,
    /// Files that are not what would be installed now.
    pub stale: Vec<String>,
    /// Variables that the services' files set today and whose names are those of secrets.
    pub secrets: Vec<String>,
    /// What a service would be given if it were installed from this shell.
    pub shell: BTreeMap<String, String>,
    /// Whether the user's services go on after the log-out; `None` where there is no such thing.
    pub lingers: Option<bool>,
}

/// Looks.
#[must_use]
pub fn gather(disk: &Disk, plan: Option<&Plan>, shell: BTreeMap<String, String>, linger: &Path) -> Facts {
    let (record, unreadable) = match disk.record() {
        Ok(record) => (record, None),
        Err(failure) => (None, Some(failure.message)),
    };
    let stale = match (&record, plan) {
        (Some(_), Some(plan)) => plan.files.iter().filter(|file| !disk.is_as_planned(file)).collect(),
        _ => Vec::new(),
    };
    let user = std::env::var("USER").unwrap_or_default();
    let manager = record.as_ref().map_or_else(Manager::of_this_system, |record| record.manager);
    Facts {
        stale: stale.iter().map(|file| file.path.display().to_string()).collect(),
        secrets: record
            .as_ref()
            .map(set_for_services)
            .unwrap_or_default()
            .into_iter()
            .filter(|name| is_secret(name))
            .collect(),
        record,
        unreadable,
        shell,
        lingers: lingers(manager, linger, &user),
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.split('_').any(|part| SECRET.contains(&part) || part == "APIKEY")
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    if let Some(why) = &facts.unreadable {
        return vec![Line::failed(
            "services",
            format!("nobody can tell what was installed: {why}"),
            "Move that file away, and run `gatehouse install --force`: it writes the services' files and the record anew.",
        )];
    }
    let Some(record) = &facts.record else {
        return vec![Line::ok("services", "none are installed; `gatehouse install` makes them")];
    };
    let services = if facts.stale.is_empty() {
        Line::ok("services", format!("installed by version {}, as they would be now", record.version))
    } else {
        Line::warning(
            "services",
            format!("not as they would be installed now: {}", facts.stale.join(", ")),
            "Settings, binaries or this shell's environment changed since: `gatehouse install` again takes that over.",
        )
    };
    let mut lines = vec![services, environment(record, facts)];
    match facts.lingers {
        Some(true) => lines.push(Line::ok("linger", "the services go on when you log out")),
        Some(false) => lines.push(Line::warning(
            "linger",
            "the services end when you log out, and sessions' processes with them",
            "loginctl enable-linger",
        )),
        None => {}
    }
    lines
}

fn environment(record: &Record, facts: &Facts) -> Line {
    const CHECK: &str = "service_environment";
    if !facts.secrets.is_empty() {
        return Line::failed(
            CHECK,
            format!("the services are given what looks like a secret: {}", facts.secrets.join(", ")),
            "`gatehouse install` never puts one there, and Gatehouse needs none: take it out of the services' files, and make a new one if others could read them.",
        );
    }
    let shell = &facts.shell;
    let names = record.environment.keys().chain(shell.keys()).collect::<BTreeSet<_>>();
    let other: Vec<_> = names
        .into_iter()
        .filter(|name| record.environment.get(*name) != shell.get(*name))
        .map(|name| describe(name, record.environment.get(name), shell.get(name)))
        .collect();
    if other.is_empty() {
        return Line::ok(CHECK, "the services' is this shell's, as far as it matters");
    }
    Line::warning(
        CHECK,
        format!("the services' differs from this shell's: {}", other.join("; ")),
        "If programs are found here and not in sessions, run `gatehouse install` from this shell.",
    )
}

/// Names and, of PATH, the directories; other values stay where they are.
fn describe(name: &str, service: Option<&String>, shell: Option<&String>) -> String {
    match (service, shell) {
        (Some(service), Some(shell)) if name == "PATH" => {
            let missing: Vec<_> =
                shell.split(':').filter(|dir| !service.split(':').any(|had| had == *dir)).collect();
            if missing.is_empty() {
                "PATH has another order".to_owned()
            } else {
                format!("PATH lacks {}", missing.join(":"))
            }
        }
        (Some(_), Some(_)) => format!("{name} has another value"),
        (Some(_), None) => format!("{name} is set there alone"),
        (None, _) => format!("{name} is set here alone"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{self, Failed, Ok as Fine, Warning};
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn facts() -> Facts {
        let environment = map(&[("PATH", "/bin:/usr/bin"), ("CLAUDE_BIN", "/c")]);
        let record = Record {
            manager: Manager::Systemd,
            version: "1".into(),
            files: vec![],
            directories: vec![],
            listen: None,
            environment: environment.clone(),
        };
        Facts {
            record: Some(record),
            unreadable: None,
            stale: vec![],
            secrets: vec![],
            shell: environment,
            lingers: Some(true),
        }
    }

    fn verdict(facts: &Facts, check: &str) -> Verdict {
        judge(facts).iter().find(|line| line.check == check).unwrap().verdict
    }

    #[test]
    fn services_that_are_what_they_would_be_now_are_in_order() {
        assert!(judge(&facts()).iter().all(|line| line.verdict == Fine));
        assert_eq!(judge(&Facts { record: None, ..facts() }).len(), 1);
        assert_eq!(judge(&Facts { lingers: None, ..facts() }).len(), 2);
    }

    #[test]
    fn what_differs_is_named_without_its_value() {
        assert_eq!(verdict(&Facts { stale: vec!["/u".into()], ..facts() }, "services"), Warning);
        assert_eq!(verdict(&Facts { lingers: Some(false), ..facts() }, "linger"), Warning);
        assert_eq!(verdict(&Facts { unreadable: Some("x".into()), ..facts() }, "services"), Failed);
        assert_eq!(
            verdict(&Facts { secrets: vec!["A_KEY".into()], ..facts() }, "service_environment"),
            Failed
        );
        let shell = map(&[("PATH", "/usr/bin:/bin"), ("CLAUDE_BIN", "/c")]);
        assert!(judge(&Facts { shell, ..facts() })[1].found.contains("PATH has another order"));
        let shell = map(&[("PATH", "/bin:/opt/x:/usr/bin"), ("NVM_DIR", "/secret-value")]);
        let line = &judge(&Facts { shell, ..facts() })[1];
        assert_eq!(line.verdict, Warning);
        for part in ["PATH lacks /opt/x", "NVM_DIR is set here alone", "CLAUDE_BIN is set there alone"] {
            assert!(line.found.contains(part), "{}", line.found);
        }
        assert!(!line.found.contains("secret-value"), "{}", line.found);
    }

    #[test]
    fn names_of_secrets_are_told_from_those_that_a_service_is_given() {
        for name in ["OPENAI_API_KEY", "github_token", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "APIKEY"] {
            assert!(is_secret(name), "{name}");
        }
        for name in crate::install::KEPT.into_iter().chain(["KEYBOARD", "TOKENIZERS_PARALLELISM"]) {
            assert!(!is_secret(name), "{name}");
        }
    }
}
