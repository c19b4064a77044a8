use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::*;

fn overrides(environment: &[(&str, &str)]) -> Overrides {
    let environment: HashMap<OsString, OsString> =
        environment.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))).collect();
    Overrides { environment, ..Overrides::default() }
}

fn with_file(text: &str) -> Result<Settings, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    Settings::load(&Overrides { config: Some(path), ..overrides(&[("HOME", "/home/u")]) })
}

#[test]
fn without_a_file_the_defaults_hold() {
    let settings = Settings::load(&overrides(&[("HOME", "/nonexistent/u")])).unwrap();
    assert_eq!(settings.state_dir, Path::new("/nonexistent/u/.local/state/gatehouse"));
    assert_eq!(settings.limits.lease, Duration::from_secs(1800));
    assert_eq!(settings.claude.candidates[0], Path::new("/nonexistent/u/.npm-global/bin/claude"));
    assert_eq!(settings.config_file, None);
}

#[test]
fn flags_beat_environment_beats_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "state_dir = '/from/file'\n").unwrap();
    let mut given = overrides(&[("HOME", "/home/u")]);
    given.config = Some(path);
    assert_eq!(Settings::load(&given).unwrap().state_dir, Path::new("/from/file"));
    given.environment.insert("CLAUDE_TOOLS_STATE_DIR".into(), "/from/env".into());
    assert_eq!(Settings::load(&given).unwrap().state_dir, Path::new("/from/env"));
    given.state_dir = Some(PathBuf::from("/from/flag"));
    assert_eq!(Settings::load(&given).unwrap().state_dir, Path::new("/from/flag"));
}

#[test]
fn an_unknown_key_is_an_error_with_the_nearest_known_one() {
    let error = with_file("[limits]\nlease_second = 5\n").unwrap_err().to_string();
    assert!(error.contains("`limits.lease_second`") && error.contains("`limits.lease_seconds`"), "{error}");
    let error = with_file("colour = 1\n").unwrap_err().to_string();
    assert!(error.contains("`colour`"), "{error}");
}

#[test]
fn values_out_of_bounds_and_relative_paths_are_named() {
    for (text, name) in [
        ("[limits]\nlease_seconds = 59\n", "limits.lease_seconds"),
        ("[limits]\nmax_wait_seconds = 51\n", "limits.max_wait_seconds"),
        ("[claude]\nbinary = 'claude'\n", "claude.binary"),
        ("[claude]\nhelper_dir = 'bin'\n", "claude.helper_dir"),
        ("[files]\nread_roots = ['home']\n", "files.read_roots"),
    ] {
        let error = with_file(text).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    assert!(matches!(with_file("[limits]\nlease_seconds = 'x'\n"), Err(ConfigError::Syntax { .. })));
}

#[test]
fn a_configured_or_given_claude_is_the_only_candidate() {
    let settings = with_file("[claude]\nbinary = '/opt/claude'\n").unwrap();
    assert_eq!(settings.claude.candidates, [Path::new("/opt/claude")]);
    let settings = Settings::load(&overrides(&[
        ("HOME", "/nonexistent/u"),
        ("CLAUDE_BIN", "/x/claude"),
        ("PATH", "/bin"),
    ]))
    .unwrap();
    assert_eq!(settings.claude.candidates, [Path::new("/x/claude")]);
}

#[test]
fn skills_are_looked_up_at_home_and_in_folders_with_prefixes_of_their_own() {
    let settings = with_file("[skills]\nfolders = { team = '/srv/skills' }\nallow = 7\n").unwrap();
    let wanted = [("personal", "/home/u/.claude/skills"), ("team", "/srv/skills")];
    let wanted = wanted.map(|(prefix, folder)| (prefix.to_owned(), PathBuf::from(folder)));
    assert_eq!(settings.skills.folders, wanted.into());
    assert!(matches!(settings.skills.allow, AllowlistText::File(_)), "what is wrong with it is told later");
    for (folders, why) in [
        ("{ personal = '/x' }", "another prefix"),
        ("{ project = '/x' }", "another prefix"),
        ("{ Team = '/x' }", "begins with a letter"),
        ("{ team = 'x' }", "absolute"),
    ] {
        let error = with_file(&format!("[skills]\nfolders = {folders}\n")).unwrap_err().to_string();
        assert!(error.contains("skills.folders.") && error.contains(why), "{error}");
    }
}

#[test]
fn the_variable_stands_in_for_the_allowlist_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "[skills]\nallow = []\n").unwrap();
    let mut given = overrides(&[("HOME", "/home/u"), (ALLOWLIST_VARIABLE, "")]);
    given.config = Some(path);
    let settings = Settings::load(&given).unwrap();
    assert!(matches!(settings.skills.allow, AllowlistText::Variable(text) if text.is_empty()));
}

#[test]
fn every_key_is_documented() {
    let docs = include_str!("../../../docs/configuration.md");
    for key in KEYS {
        assert!(
            docs.contains(&format!("| `{}` |", key.path())),
            "docs/configuration.md lacks {}",
            key.path()
        );
    }
    let example = include_str!("../../../docs/config.example.toml");
    for key in KEYS {
        assert!(
            example.contains(&format!("# {} =", key.name)),
            "docs/config.example.toml lacks {}",
            key.path()
        );
    }
    file::parse(Path::new("example"), &uncommented(example)).unwrap();
}

/// The example with every key switched on.
fn uncommented(example: &str) -> String {
    example
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

fn deepseek(lines: &str) -> Result<Option<DeepseekSettings>, ConfigError> {
    with_file(&format!("[deepseek]\n{lines}")).map(|settings| settings.deepseek)
}

#[test]
fn without_a_credential_file_there_is_no_deepseek_whatever_else_is_set() {
    assert!(deepseek("seconds = 60\nendpoint = 'https://example.org/a'\n").unwrap().is_none());
    let settings = deepseek("credential_file = '/k'\n").unwrap().unwrap();
    assert_eq!(settings.endpoint, "https://api.deepseek.com/anthropic");
    assert_eq!(settings.model(Route::Flash).name, "deepseek-flash");
    assert_eq!(settings.model(Route::Pro).name, "deepseek-v4-pro");
    assert_eq!(settings.model(Route::Pro).answers, ["deepseek-v4-pro"], "Flash does not count as Pro");
    assert!(settings.proxy.is_none() && settings.executable.is_none());
}

#[test]
fn the_credential_goes_over_https_or_stays_on_this_machine() {
    for good in [
        "https://example.org",
        "http://127.0.0.1:8/x",
        "http://localhost:8",
        "http://[::1]:8",
        "https://h:1/p/",
    ] {
        assert!(deepseek(&format!("credential_file = '/k'\nendpoint = '{good}'\n")).is_ok(), "{good}");
    }
    for bad in [
        "http://example.org",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
        "http://user:pw@127.0.0.1",
        "https://key@example.org",
        "https://example.org/?key=1",
        "ftp://127.0.0.1",
        "example.org",
        "/path",
        "",
    ] {
        let error =
            deepseek(&format!("credential_file = '/k'\nendpoint = '{bad}'\n")).unwrap_err().to_string();
        assert!(error.contains("deepseek.endpoint"), "{bad}: {error}");
    }
}

#[test]
fn a_name_that_begins_with_claude_is_sent_to_nobody() {
    for line in [
        "flash_model = 'claude-sonnet-4'",
        "pro_model = 'Claude-opus'",
        "pro_answers = ['deepseek-v4-pro', 'claude-opus']",
        "flash_answers = []",
        "flash_model = ''",
        "pro_model = 'two words'",
    ] {
        let error = deepseek(&format!("credential_file = '/k'\n{line}\n")).unwrap_err().to_string();
        assert!(error.contains(line.split_once(' ').unwrap().0), "{error}");
    }
}

#[test]
fn a_proxy_is_what_the_file_says_and_never_what_the_environment_says() {
    let given = Overrides {
        environment: [
            ("HTTPS_PROXY", "http://evil:1"),
            ("https_proxy", "http://evil:1"),
            ("HOME", "/home/u"),
        ]
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .into(),
        ..Overrides::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "[deepseek]\ncredential_file = '/k'\n").unwrap();
    let settings = Settings::load(&Overrides { config: Some(path), ..given }).unwrap();
    assert!(settings.deepseek.unwrap().proxy.is_none());
    assert!(
        deepseek("credential_file = '/k'\nproxy = 'http://127.0.0.1:3128'\n")
            .unwrap()
            .unwrap()
            .proxy
            .is_some()
    );
    for bad in ["https://p:1", "http://p", "http://p:1/x", "http://u:p@p:1", "socks5://p:1"] {
        let error = deepseek(&format!("credential_file = '/k'\nproxy = '{bad}'\n")).unwrap_err().to_string();
        assert!(error.contains("deepseek.proxy"), "{bad}: {error}");
    }
}
