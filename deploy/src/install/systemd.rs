//! The units of systemd.

use super::{Home, PlannedFile, Service, as_text};
use crate::failure::Failure;

const EXECUTOR: &str = include_str!("../../templates/gatehouse-executor.service");
const FRONT: &str = include_str!("../../templates/gatehouse-front.service");

/// The unit's name.
pub(super) fn unit(service: &str) -> String {
    format!("gatehouse-{service}.service")
}

pub(super) fn files(home: &Home, services: &[Service]) -> Result<Vec<PlannedFile>, Failure> {
    let folder = home.config.join("systemd/user");
    services
        .iter()
        .map(|service| Ok(PlannedFile { path: folder.join(unit(service.name)), content: content(service)? }))
        .collect()
}

fn content(service: &Service) -> Result<String, Failure> {
    let template = if service.name == "executor" { EXECUTOR } else { FRONT };
    let mut command = vec![quoted(&as_text(&service.program)?, Dollar::Plain)?];
    for argument in &service.arguments {
        command.push(quoted(argument, Dollar::Doubled)?);
    }
    let environment = service
        .environment
        .iter()
        .map(|(name, value)| {
            Ok(format!("Environment={}", quoted(&format!("{name}={value}"), Dollar::Plain)?))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let lines = template.lines().filter_map(|line| match line {
        "@ENVIRONMENT@" => (!environment.is_empty()).then(|| environment.join("\n")),
        line => Some(line.replace("@COMMAND@", &command.join(" "))),
    });
    Ok(lines.collect::<Vec<_>>().join("\n") + "\n")
}

/// Whether `$` begins a variable where the word stands: in arguments it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dollar {
    Plain,
    Doubled,
}

/// One word of a unit file, in quotes. A percent sign begins a specifier everywhere.
fn quoted(text: &str, dollar: Dollar) -> Result<String, Failure> {
    let mut word = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => word.push_str("\\\""),
            '\\' => word.push_str("\\\\"),
            '\n' => word.push_str("\\n"),
            '\t' => word.push_str("\\t"),
            '%' => word.push_str("%%"),
            '$' if dollar == Dollar::Doubled => word.push_str("$$"),
            c if c.is_control() => {
                return Err(Failure::failed(format!(
                    "{text:?} has a control character, which a unit file cannot carry"
                )));
            }
            c => word.push(c),
        }
    }
    word.push('"');
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_unit_file_is_escaped() {
        let word = |text| quoted(text, Dollar::Doubled).unwrap();
        assert_eq!(word("/home/Jörg Müller/100% $x\\ \"y\""), r#""/home/Jörg Müller/100%% $$x\\ \"y\"""#);
        assert_eq!(quoted("A=$x", Dollar::Plain).unwrap(), "\"A=$x\"");
        assert!(quoted("a\u{7}b", Dollar::Plain).is_err());
    }

    #[test]
    fn a_unit_names_its_command_and_its_environment_and_nothing_of_the_template_is_left() {
        let service = Service {
            name: "executor",
            program: "/opt/gate house/executor-svc".into(),
            arguments: vec!["--state-dir".into(), "/s".into()],
            environment: [("PATH".to_owned(), "/bin:/usr/bin".to_owned())].into(),
        };
        let text = content(&service).unwrap();
        assert!(
            text.contains("ExecStart=\"/opt/gate house/executor-svc\" \"--state-dir\" \"/s\"\n"),
            "{text}"
        );
        assert!(text.contains("Environment=\"PATH=/bin:/usr/bin\"\n") && !text.contains('@'), "{text}");
        assert!(text.contains("\nKillMode=process\n"), "{text}");
        let bare = content(&Service { name: "front", environment: [].into(), ..service }).unwrap();
        assert!(!bare.contains("Environment=") && !bare.contains('@'), "{bare}");
    }
}
