//! The tunnel's client: there, with a profile, its key where nobody else reads it, and only one of it.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Line;

/// Variables that carry the tunnel's key.
const KEY_VARIABLES: [&str; 2] = ["CONTROL_PLANE_API_KEY", "OPENAI_API_KEY"];

/// Where a profile has its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// In a file with these permission bits; `None`: there is no such file.
    File(PathBuf, Option<u32>),
    /// In an environment variable.
    Variable(String),
    /// In the profile itself, which has these permission bits.
    Profile(u32),
    /// It does not say.
    Nowhere,
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its file.
    pub path: PathBuf,
    /// Its key.
    pub key: KeyPlace,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The program.
    pub client: Option<PathBuf>,
    /// Profiles.
    pub profiles: Vec<Profile>,
    /// Where profiles are looked for.
    pub folder: PathBuf,
    /// How many of it run here.
    pub running: usize,
    /// Variables with a key in this shell.
    pub in_shell: Vec<String>,
}

/// Looks.
#[must_use]
pub fn gather(config: &Path) -> Facts {
    let folder = config.join("tunnel-client");
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    Facts {
        client: in_path("tunnel-client"),
        profiles: profiles(&folder),
        folder,
        running: running(),
        in_shell: KEY_VARIABLES.iter().filter(|name| set(name)).map(|name| (*name).to_owned()).collect(),
    }
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|found| found.is_file())
}

fn profiles(folder: &Path) -> Vec<Profile> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_profile = path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml");
            match entry.file_type() {
                // One level: `profiles/`.
                Ok(kind) if kind.is_dir() && found.len() + folders.len() < 50 => folders.push(path),
                Ok(kind) if kind.is_file() && is_profile => {
                    let text = std::fs::read_to_string(&path).unwrap_or_default();
                    found.push(Profile { key: key_place(&text, mode(&path).unwrap_or(0)), path });
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn mode(path: &Path) -> Option<u32> {
    Some(path.metadata().ok()?.mode() & 0o777)
}

/// What a profile says of its key. Only that one line is read.
fn key_place(profile: &str, own_mode: u32) -> KeyPlace {
    let line = profile.lines().find_map(|line| line.trim().strip_prefix("api_key:"));
    let Some(value) = line else { return KeyPlace::Nowhere };
    let value = value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    match value.split_once(':') {
        Some(("file", path)) => {
            let path = PathBuf::from(path);
            let mode = mode(&path);
            KeyPlace::File(path, mode)
        }
        Some(("env", name)) => KeyPlace::Variable(name.to_owned()),
        _ if value.is_empty() => KeyPlace::Nowhere,
        _ => KeyPlace::Profile(own_mode),
    }
}

/// How many processes of this user and others are called so. Of one client there may be several threads, but one process.
fn running() -> usize {
    let is_it = |program: &str| program.rsplit('/').next() == Some("tunnel-client");
    if cfg!(target_os = "linux") {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes: BTreeSet<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .collect();
        let program = |pid: &String| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(first).into_owned()
        };
        return processes.iter().filter(|pid| is_it(&program(pid))).count();
    }
    let listed = std::process::Command::new("/bin/ps").args(["-axo", "comm="]).output();
    listed.map_or(0, |listed| {
        String::from_utf8_lossy(&listed.stdout).lines().filter(|line| is_it(line)).count()
    })
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    let mut lines = vec![match &facts.client {
        Some(path) => Line::ok("tunnel_client", path.display().to_string()),
        None => Line::warning(
            "tunnel_client",
            "tunnel-client is not in PATH",
            "ChatGPT reaches this machine through it. docs/chatgpt.md says where to get it.",
        ),
    }];
    lines.push(match facts.profiles.as_slice() {
        [] => Line::warning(
            "tunnel_profile",
            format!("there is none in {}", facts.folder.display()),
            format!(
                "Make one: gatehouse tunnel-profile TUNNEL_ID --api-key-file KEY_FILE -o {}/gatehouse.yaml",
                facts.folder.display()
            ),
        ),
        some => {
            let names: Vec<_> = some.iter().map(|profile| profile.path.display().to_string()).collect();
            Line::ok("tunnel_profile", names.join(", "))
        }
    });
    lines.push(key(facts));
    lines.push(match facts.running {
        0 => Line::warning(
            "tunnel_running",
            "no tunnel-client runs",
            "Start it: `tunnel-client run --profile NAME`.",
        ),
        1 => Line::ok("tunnel_running", "one tunnel-client runs"),
        more => Line::failed(
            "tunnel_running",
            format!("{more} tunnel-clients run: each gets a part of the calls"),
            "End all but one. One on another machine cannot be seen from here.",
        ),
    });
    lines
}

fn key(facts: &Facts) -> Line {
    const CHECK: &str = "tunnel_key";
    const ROTATE: &str = "Others may have read it: make a new key, put it into a file with mode 0600, and name that with api_key: file:/PATH.";
    let open = |mode: u32| mode & 0o077 != 0;
    for profile in &facts.profiles {
        let name = profile.path.display();
        match &profile.key {
            KeyPlace::File(path, None) => {
                return Line::failed(
                    CHECK,
                    format!("{name} names {}, which is not there", path.display()),
                    "Put the key there, with mode 0600.",
                );
            }
            KeyPlace::File(path, Some(mode)) if open(*mode) => {
                return Line::failed(
                    CHECK,
                    format!("{} can be read by others (mode {mode:04o})", path.display()),
                    ROTATE,
                );
            }
            KeyPlace::Profile(mode) if open(*mode) => {
                return Line::failed(
                    CHECK,
                    format!("{name} holds the key and can be read by others (mode {mode:04o})"),
                    ROTATE,
                );
            }
            KeyPlace::File(..) | KeyPlace::Variable(_) | KeyPlace::Profile(_) | KeyPlace::Nowhere => {}
        }
    }
    if !facts.in_shell.is_empty() {
        let found = format!("this shell's environment has {}", facts.in_shell.join(", "));
        return Line::warning(
            CHECK,
            found,
            "Every program that you start from it can read it. Keep the key in a file with mode 0600.",
        );
    }
    let variable = facts.profiles.iter().find(|profile| matches!(profile.key, KeyPlace::Variable(_)));
    match variable {
        Some(profile) => Line::warning(
            CHECK,
            format!("{} takes the key from the environment", profile.path.display()),
            "A file with mode 0600 is read by the tunnel's client alone: api_key: file:/PATH.",
        ),
        None => Line::ok(CHECK, "not seen anywhere that others could read"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{self, Failed, Ok as Fine, Warning};
    use super::*;

    fn facts(key: KeyPlace) -> Facts {
        Facts {
            client: Some("/bin/tunnel-client".into()),
            profiles: vec![Profile { path: "/p.yaml".into(), key }],
            running: 1,
            ..Facts::default()
        }
    }

    fn verdict(facts: &Facts, check: &str) -> Verdict {
        judge(facts).iter().find(|line| line.check == check).unwrap().verdict
    }

    #[test]
    fn a_key_that_others_can_read_is_found_wherever_it_is() {
        let file = |mode| KeyPlace::File("/k".into(), mode);
        for (key, expected) in [
            (file(Some(0o600)), Fine),
            (file(Some(0o400)), Fine),
            (file(Some(0o640)), Failed),
            (file(None), Failed),
            (KeyPlace::Profile(0o600), Fine),
            (KeyPlace::Profile(0o644), Failed),
            (KeyPlace::Variable("X".into()), Warning),
            (KeyPlace::Nowhere, Fine),
        ] {
            assert_eq!(verdict(&facts(key.clone()), "tunnel_key"), expected, "{key:?}");
        }
        let good = facts(file(Some(0o600)));
        let shell = Facts { in_shell: vec!["OPENAI_API_KEY".into()], ..good };
        assert_eq!(verdict(&shell, "tunnel_key"), Warning);
    }

    #[test]
    fn what_is_missing_or_doubled_is_told() {
        let none = Facts::default();
        for check in ["tunnel_client", "tunnel_profile", "tunnel_running"] {
            assert_eq!(verdict(&none, check), Warning, "{check}");
        }
        assert_eq!(verdict(&Facts { running: 2, ..facts(KeyPlace::Nowhere) }, "tunnel_running"), Failed);
        assert!(judge(&facts(KeyPlace::Nowhere)).iter().all(|line| line.verdict == Fine));
    }

    #[test]
    fn a_profile_says_where_its_key_is() {
        let place = |value: &str| key_place(&format!("control_plane:\n  api_key: {value}\n"), 0o644);
        assert_eq!(place("file:/nonexistent/k # mine"), KeyPlace::File("/nonexistent/k".into(), None));
        assert_eq!(
            place("\"env:CONTROL_PLANE_API_KEY\""),
            KeyPlace::Variable("CONTROL_PLANE_API_KEY".into())
        );
        assert_eq!(place("sk-proj-1"), KeyPlace::Profile(0o644));
        assert_eq!(key_place("control_plane:\n", 0o644), KeyPlace::Nowhere);
    }
}
