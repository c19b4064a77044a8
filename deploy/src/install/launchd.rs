//! The LaunchAgents of macOS.

use std::path::PathBuf;

use super::{Home, PlannedFile, Service, as_text};
use crate::failure::Failure;

const TEMPLATE: &str = include_str!("../../templates/gatehouse.plist");

/// The agent's label.
pub(super) fn label(service: &str) -> String {
    format!("dev.gatehouse.{service}")
}

/// Where the services' logs go.
pub(super) fn log_directory(home: &Home) -> PathBuf {
    home.home.join("Library/Logs/gatehouse")
}

pub(super) fn files(home: &Home, services: &[Service]) -> Result<Vec<PlannedFile>, Failure> {
    let folder = home.home.join("Library/LaunchAgents");
    services
        .iter()
        .map(|service| {
            let path = folder.join(format!("{}.plist", label(service.name)));
            Ok(PlannedFile { path, content: content(home, service)? })
        })
        .collect()
}

fn content(home: &Home, service: &Service) -> Result<String, Failure> {
    let log = log_directory(home).join(format!("{}.log", service.name));
    let mut arguments = vec![as_text(&service.program)?];
    arguments.extend(service.arguments.iter().cloned());
    let arguments = arguments
        .iter()
        .map(|argument| Ok(format!("\t\t<string>{}</string>", escaped(argument)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let environment = service
        .environment
        .iter()
        .map(|(name, value)| {
            Ok(format!("\t\t<key>{}</key>\n\t\t<string>{}</string>", escaped(name)?, escaped(value)?))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let (label, log) = (escaped(&label(service.name))?, escaped(&as_text(&log)?)?);
    let lines = TEMPLATE.lines().filter_map(|line| match line {
        "@ARGUMENTS@" => Some(arguments.join("\n")),
        "@ENVIRONMENT@" => (!environment.is_empty()).then(|| environment.join("\n")),
        line => Some(line.replace("@LABEL@", &label).replace("@LOG@", &log)),
    });
    Ok(lines.collect::<Vec<_>>().join("\n") + "\n")
}

/// Text of an XML element. What XML 1.0 has no way to write is refused, also spaces that readers fold.
fn escaped(text: &str) -> Result<String, Failure> {
    if let Some(odd) = text.chars().find(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        return Err(Failure::failed(format!("{text:?} has {odd:?}, which a property list cannot carry")));
    }
    Ok(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

#[cfg(test)]
mod tests {
    use plist::Value;
    use proptest::prelude::*;

    use super::*;

    /// Text without what a property list cannot carry.
    fn carried() -> impl Strategy<Value = String> {
        any::<String>().prop_map(|text| text.chars().filter(|c| escaped(&c.to_string()).is_ok()).collect())
    }

    proptest! {
        #[test]
        fn any_arguments_and_environment_come_back_as_they_were(
            arguments in prop::collection::vec(carried(), 0..6),
            environment in prop::collection::btree_map("[A-Z_]{1,8}", carried(), 0..4),
            folder in carried(),
        ) {
            let program = PathBuf::from(format!("/{folder}/executor-svc"));
            let service = Service { name: "executor", program, arguments, environment };
            let list = read(&service);
            let texts: Vec<_> =
                list["ProgramArguments"].as_array().unwrap().iter().filter_map(Value::as_string).collect();
            let program = service.program.to_str().unwrap();
            prop_assert_eq!(texts[0], program);
            prop_assert_eq!(&texts[1..], &service.arguments[..]);
            let said = list["EnvironmentVariables"].as_dictionary().unwrap();
            prop_assert_eq!(said.len(), service.environment.len());
            for (name, value) in &service.environment {
                prop_assert_eq!(said[name].as_string(), Some(value.as_str()));
            }
            prop_assert_eq!(list["AbandonProcessGroup"].as_boolean(), Some(true));
        }
    }

    fn read(service: &Service) -> plist::Dictionary {
        let home = Home { home: "/Users/Jörg <&> \"M\"".into(), config: "/c".into() };
        let text = content(&home, service).unwrap();
        assert!(!["@LABEL@", "@LOG@", "@ARGUMENTS@", "@ENVIRONMENT@"].iter().any(|mark| text.contains(mark)));
        plist::from_bytes::<Value>(text.as_bytes()).unwrap().into_dictionary().unwrap()
    }

    #[test]
    fn a_property_list_says_what_was_put_in_whatever_the_characters() {
        let service = Service {
            name: "front",
            program: "/Applications/Gate House & <Co>/mcp-front".into(),
            arguments: vec!["http".into(), "100% $HOME 'q' \"d\"".into()],
            environment: [("PATH".to_owned(), "/a b:/c&d".to_owned())].into(),
        };
        let list = read(&service);
        let texts: Vec<_> = list["ProgramArguments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item.as_string().unwrap())
            .collect();
        assert_eq!(texts, ["/Applications/Gate House & <Co>/mcp-front", "http", "100% $HOME 'q' \"d\""]);
        assert_eq!(
            list["EnvironmentVariables"].as_dictionary().unwrap()["PATH"].as_string(),
            Some("/a b:/c&d")
        );
        assert_eq!(list["Label"].as_string(), Some("dev.gatehouse.front"));
        assert_eq!(
            list["StandardErrorPath"].as_string(),
            Some("/Users/Jörg <&> \"M\"/Library/Logs/gatehouse/front.log")
        );
        assert_eq!(list["AbandonProcessGroup"].as_boolean(), Some(true));
        assert_eq!(list["RunAtLoad"].as_boolean(), Some(true));
        assert_eq!(list["KeepAlive"].as_dictionary().unwrap()["SuccessfulExit"].as_boolean(), Some(false));
        let bare = read(&Service { environment: [].into(), ..service });
        assert!(bare["EnvironmentVariables"].as_dictionary().unwrap().is_empty());
    }

    #[test]
    fn what_xml_cannot_carry_is_refused() {
        assert!(escaped("a\nb").is_err() && escaped("a\u{1}").is_err());
        assert_eq!(escaped("a & b").unwrap(), "a &amp; b");
    }
}
