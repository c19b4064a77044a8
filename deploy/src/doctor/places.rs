//! Directories, sockets and private files: whether they are ours alone.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use gatehouse_proto::socket::Role;

use super::Line;
use crate::settings::Settings;

/// What has to be in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory, 0700.
    Directory,
    /// A socket.
    Socket,
    /// A file, 0600.
    File,
    /// A file that nobody else may write.
    Configuration,
}

/// One place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub path: PathBuf,
    /// What has to be there.
    pub kind: Kind,
    /// What is there; `None`: nothing.
    pub found: Option<Found>,
}

/// What is in a place, its links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whether it is of the kind that has to be there.
    pub is_the_kind: bool,
    /// Permission bits.
    pub mode: u32,
    /// Whose it is.
    pub owner: u32,
    /// How many names it has.
    pub links: u64,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// All places but the key file.
    pub places: Vec<Place>,
    /// The front's key.
    pub key: Place,
    /// The configuration file, if one is used.
    pub configuration: Option<Place>,
    /// Who we are.
    pub user: u32,
}

/// Looks.
#[must_use]
pub fn gather(settings: &Settings) -> Facts {
    let (state, runtime) = (&settings.state_dir, &settings.runtime_dir);
    let mut places = vec![look(state, Kind::Directory), look(runtime, Kind::Directory)];
    for role in Role::ALL {
        places.push(look(&role.directory(runtime), Kind::Directory));
        places.push(look(&role.socket(runtime), Kind::Socket));
    }
    for directory in ["content", "sessions"] {
        places.push(look(&state.join(directory), Kind::Directory));
    }
    places.push(look(&state.join("ledger.db"), Kind::File));
    Facts {
        places,
        key: look(&settings.front.key_file, Kind::File),
        configuration: settings.config_file.as_ref().map(|path| {
            // The person's own file may be a link to where they keep such files.
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            look(&real, Kind::Configuration)
        }),
        user: nix::unistd::geteuid().as_raw(),
    }
}

fn look(path: &Path, kind: Kind) -> Place {
    let found = path.symlink_metadata().ok().map(|meta| Found {
        is_the_kind: match kind {
            Kind::Directory => meta.is_dir(),
            Kind::Socket => meta.file_type().is_socket(),
            Kind::File | Kind::Configuration => meta.is_file(),
        },
        mode: meta.mode() & 0o7777,
        owner: meta.uid(),
        links: meta.nlink(),
    });
    Place { path: path.to_owned(), kind, found }
}

/// What is wrong with a place, and how it is mended; `None`: nothing, or nothing is there yet.
fn wrong(place: &Place, user: u32) -> Option<(String, String)> {
    let found = place.found?;
    let path = place.path.display();
    let away = format!("Find out who made it, and move it away: mv '{path}' '{path}.old'");
    if !found.is_the_kind {
        return Some((format!("{path} is something else than it should be"), away));
    }
    if found.owner != user {
        return Some((format!("{path} belongs to user {}", found.owner), away));
    }
    if matches!(place.kind, Kind::File) && found.links > 1 {
        return Some((
            format!("{path} has {} names", found.links),
            format!("Find the others: find / -samefile '{path}'"),
        ));
    }
    let (forbidden, right) = match place.kind {
        Kind::Directory => (0o077, "700"),
        // Connecting needs the directory, which nobody else can pass.
        Kind::Socket => (0, ""),
        Kind::File => (0o177, "600"),
        Kind::Configuration => (0o022, "go-w"),
    };
    (found.mode & forbidden != 0)
        .then(|| (format!("{path} has mode {:04o}", found.mode), format!("chmod {right} '{path}'")))
}

/// Decides.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Line> {
    let faults: Vec<_> = facts.places.iter().filter_map(|place| wrong(place, facts.user)).collect();
    let directories = if faults.is_empty() {
        let there = facts.places.iter().filter(|place| place.found.is_some()).count();
        Line::ok("private_directories", format!("{there} directories, sockets and files, ours alone"))
    } else {
        let (found, to_do): (Vec<_>, Vec<_>) = faults.into_iter().unzip();
        Line::failed("private_directories", found.join("; "), to_do.join("; "))
    };
    let mut lines = vec![directories, key(facts)];
    if let Some(place) = &facts.configuration {
        lines.push(match wrong(place, facts.user) {
            None => Line::ok("configuration_file", place.path.display().to_string()),
            // Root's file is nobody's who could not do everything anyway.
            Some(_) if place.found.is_some_and(|found| found.owner == 0 && found.mode & 0o022 == 0) => {
                Line::ok("configuration_file", place.path.display().to_string())
            }
            Some((found, to_do)) => Line::warning("configuration_file", found, to_do),
        });
    }
    lines
}

fn key(facts: &Facts) -> Line {
    const CHECK: &str = "key_file";
    match (&facts.key.found, wrong(&facts.key, facts.user)) {
        (None, _) => Line::failed(
            CHECK,
            format!("{} is not there", facts.key.path.display()),
            "The executor makes it when it starts: `gatehouse up` or `gatehouse install`.",
        ),
        (Some(_), None) => Line::ok(CHECK, format!("{} (0600)", facts.key.path.display())),
        (Some(_), Some((found, to_do))) => Line::failed(
            CHECK,
            found,
            format!(
                "{to_do}. If others could read it, remove it and start the gateway again: a new one is made."
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{Failed, Ok as Fine, Warning};
    use super::*;

    fn place(kind: Kind, found: Option<Found>) -> Place {
        Place { path: "/p".into(), kind, found }
    }

    const GOOD: Found = Found { is_the_kind: true, mode: 0o600, owner: 7, links: 1 };

    #[test]
    fn each_way_of_not_being_ours_alone_is_told_with_its_remedy() {
        let cases = [
            (Kind::Directory, Found { mode: 0o700, links: 9, ..GOOD }, None),
            (Kind::Directory, Found { mode: 0o750, ..GOOD }, Some("chmod 700")),
            (Kind::File, GOOD, None),
            (Kind::File, Found { mode: 0o644, ..GOOD }, Some("chmod 600")),
            (Kind::File, Found { owner: 8, ..GOOD }, Some("mv")),
            (Kind::File, Found { links: 2, ..GOOD }, Some("samefile")),
            (Kind::Socket, Found { mode: 0o755, ..GOOD }, None),
            (Kind::Socket, Found { is_the_kind: false, ..GOOD }, Some("mv")),
            (Kind::Configuration, Found { mode: 0o644, ..GOOD }, None),
            (Kind::Configuration, Found { mode: 0o666, ..GOOD }, Some("chmod go-w")),
        ];
        for (kind, found, remedy) in cases {
            let told = wrong(&place(kind, Some(found)), 7);
            match remedy {
                None => assert_eq!(told, None, "{kind:?} {found:?}"),
                Some(remedy) => assert!(told.unwrap().1.contains(remedy), "{kind:?} {found:?}"),
            }
        }
        assert_eq!(wrong(&place(Kind::Socket, None), 7), None, "what is not there yet is no fault here");
    }

    #[test]
    fn a_key_that_is_missing_or_open_fails_and_an_open_configuration_warns() {
        let facts = |key, configuration| Facts {
            places: vec![],
            key: place(Kind::File, key),
            configuration: Some(place(Kind::Configuration, configuration)),
            user: 7,
        };
        let verdicts = |facts: &Facts| judge(facts).iter().map(|line| line.verdict).collect::<Vec<_>>();
        let open = Found { mode: 0o666, ..GOOD };
        assert_eq!(verdicts(&facts(Some(GOOD), Some(GOOD))), [Fine, Fine, Fine]);
        assert_eq!(verdicts(&facts(None, Some(open))), [Fine, Failed, Warning]);
        assert_eq!(verdicts(&facts(Some(open), Some(Found { owner: 0, ..GOOD }))), [Fine, Failed, Fine]);
    }
}
