//! Which variables installed services are given, read back from the disk: a unit that was edited, and what was added beside it,
//! count as much as what was installed. Names only; no value leaves this file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Manager, Record};

/// The names of all variables that the recorded services' files set.
#[must_use]
pub fn set_for_services(record: &Record) -> BTreeSet<String> {
    let files = record.files.iter().map(|file| file.path.as_path());
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    match record.manager {
        Manager::Launchd => files.flat_map(|path| of_property_list(&read(path))).collect(),
        Manager::Systemd => files
            .flat_map(|path| [vec![path.to_owned()], drop_ins(path)].concat())
            .flat_map(|path| {
                let unit = of_unit(&read(&path));
                let from_files = unit.files.iter().flat_map(|path| of_environment_file(&read(path)));
                unit.names.iter().cloned().chain(from_files).collect::<Vec<_>>()
            })
            .collect(),
    }
}

/// What `systemctl --user edit` puts beside a unit.
fn drop_ins(unit: &Path) -> Vec<PathBuf> {
    let mut folder = unit.as_os_str().to_owned();
    folder.push(".d");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ext| ext == "conf")).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Unit {
    names: Vec<String>,
    files: Vec<PathBuf>,
}

fn of_unit(text: &str) -> Unit {
    let mut unit = Unit::default();
    for line in text.replace("\\\n", " ").lines() {
        let Some((setting, value)) = line.split_once('=') else { continue };
        match setting.trim() {
            "Environment" => unit.names.extend(words(value).iter().filter_map(|word| name(word))),
            "EnvironmentFile" => {
                unit.files.extend(words(value).first().map(|path| path.trim_start_matches('-').into()));
            }
            "PassEnvironment" => unit.names.extend(words(value)),
            _ => {}
        }
    }
    unit
}

fn name(assignment: &str) -> Option<String> {
    Some(assignment.split_once('=')?.0.trim().to_owned())
}

/// Words as systemd takes a line apart: quotes of both kinds hold together, a backslash takes away a meaning.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', _) => word.extend(rest.next()),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            (c, None) if c.is_whitespace() => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn of_environment_file(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with(['#', ';']));
    lines.filter_map(name).collect()
}

/// The keys of the one dictionary that names variables.
fn of_property_list(text: &str) -> Vec<String> {
    let part = text.split("<key>EnvironmentVariables</key>").nth(1).unwrap_or_default();
    let part = part.split("</dict>").next().unwrap_or_default();
    let keys = part.split("<key>").skip(1);
    keys.filter_map(|rest| Some(rest.split_once("</key>")?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_names_what_it_sets_in_all_the_ways_that_systemd_reads() {
        let unit = of_unit(
            "[Service]\nExecStart=/x A=b\nEnvironment=\"PATH=/a b:/c\" ONE=1 'TWO=x y'\nEnvironment=\\\n  THREE=3\n\
             EnvironmentFile=-/etc/keys\nPassEnvironment=FOUR FIVE\n",
        );
        assert_eq!(unit.names, ["PATH", "ONE", "TWO", "THREE", "FOUR", "FIVE"]);
        assert_eq!(unit.files, [PathBuf::from("/etc/keys")]);
        assert_eq!(of_environment_file("# X=1\nA_KEY=\"v=w\"\n ;\n B = 2\n"), ["A_KEY", "B"]);
    }

    #[test]
    fn a_property_list_names_the_variables_and_no_other_keys() {
        let text = "<dict><key>Label</key><string>x</string><key>EnvironmentVariables</key>\n<dict>\n\
                    <key>PATH</key><string>/a</string><key>B</key><string>c</string></dict><key>KeepAlive</key></dict>";
        assert_eq!(of_property_list(text), ["PATH", "B"]);
        assert_eq!(of_property_list("<dict></dict>"), Vec::<String>::new());
    }

    #[test]
    fn what_was_added_beside_a_unit_counts_too() {
        let top = tempfile::tempdir().unwrap();
        let unit = top.path().join("gatehouse-front.service");
        let folder = top.path().join("gatehouse-front.service.d");
        fs::create_dir(&folder).unwrap();
        fs::write(&unit, "Environment=PATH=/bin\n").unwrap();
        fs::write(top.path().join("keys"), "THIRD=3\n").unwrap();
        let keys = top.path().join("keys");
        fs::write(
            folder.join("override.conf"),
            format!("Environment=OTHER=1\nEnvironmentFile={}\n", keys.display()),
        )
        .unwrap();
        fs::write(folder.join("override.conf~"), "Environment=NOT=1\n").unwrap();
        let file = super::super::record::MadeFile { path: unit, sha256: vec![] };
        let record = Record {
            manager: Manager::Systemd,
            version: "1".into(),
            files: vec![file],
            directories: vec![],
            listen: None,
            environment: std::collections::BTreeMap::new(),
        };
        assert_eq!(set_for_services(&record).into_iter().collect::<Vec<_>>(), ["OTHER", "PATH", "THIRD"]);
    }
}
