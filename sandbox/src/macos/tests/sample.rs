//! A Mac with a session on it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::super::evaluator;
use super::super::places::{Asked, Places};
use super::super::profile::Profile;
use crate::launch::{Confinement, LaunchRequest, Limits, Network, Policy, ProcessGroup, Scratch};

pub(super) const HOME: &str = "/Users/ann";
pub(super) const STATE: &str = "/Users/ann/Library/Application Support/gatehouse";
pub(super) const LAUNCHER: &str = "/Users/ann/gatehouse/bin/sandbox-launch";

pub(super) const POLICIES: [Policy; 4] =
    [Policy::Command, Policy::Git, Policy::Claude, Policy::SelfConfinement];

/// What stands for what in the list of probes.
pub(super) fn places(policy: Policy) -> [(&'static str, String); 13] {
    let state = match policy {
        // What it keeps; its policy calls that its state.
        Policy::Claude => format!("{STATE}/claude/1"),
        _ => STATE.to_owned(),
    };
    [
        ("{home}", HOME.to_owned()),
        ("{ws}", format!("{HOME}/src/project")),
        ("{trees}", format!("{HOME}/src/trees")),
        ("{sockets}", format!("{STATE}-run/sockets")),
        ("{run}", format!("{STATE}-run/own")),
        ("{configuration}", format!("{HOME}/.config/gatehouse/front.toml")),
        ("{scratch}", format!("{STATE}/scratch/1")),
        ("{program}", program(policy).to_owned()),
        ("{launcher}", LAUNCHER.to_owned()),
        ("{above}", "/Users/ann/Library".to_owned()),
        ("{state}", state),
        ("{tcp}", "8080".to_owned()),
        ("{ports}", "4001".to_owned()),
    ]
}

fn program(policy: Policy) -> &'static str {
    match policy {
        Policy::Command => "/bin/sh",
        Policy::Git => "/usr/bin/git",
        Policy::Claude => "/Users/ann/.local/claude/claude",
        Policy::SelfConfinement => "/Users/ann/gatehouse/bin/mcp-front",
    }
}

/// Links of this machine.
fn real(path: &Path) -> PathBuf {
    let links =
        [("/tmp", "/private/tmp"), ("/var", "/private/var"), ("/Users/ann/.aws", "/Users/ann/dot/aws")];
    for (link, end) in links {
        if let Ok(rest) = path.strip_prefix(link) {
            return if rest.as_os_str().is_empty() { end.into() } else { Path::new(end).join(rest) };
        }
    }
    path.to_owned()
}

pub(in super::super) fn request(policy: Policy, cwd: &str) -> LaunchRequest {
    LaunchRequest {
        argv: vec![OsString::from(program(policy))],
        cwd: cwd.into(),
        env: BTreeMap::new(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy,
    }
}

fn confinement(policy: Policy) -> Confinement {
    let at = |name: &str| {
        places(policy)
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, path)| PathBuf::from(path))
            .unwrap()
    };
    let hostile = format!("{HOME}/\") (allow default) (\"/x");
    let hidden = [format!("{HOME}/.ssh"), format!("{HOME}/.aws"), hostile, STATE.to_owned()];
    let hidden = hidden.map(PathBuf::from).to_vec();
    let scratch = Scratch::Directory { path: at("{scratch}"), bytes: 1 << 30 };
    match policy {
        Policy::Command => {
            Confinement { hidden, scratch, readable: vec!["/tmp/shown".into()], ..Confinement::default() }
        }
        Policy::Git => Confinement {
            hidden: [hidden, vec![at("{trees}").join("deep/secret")]].concat(),
            writable: vec![at("{trees}")],
            ..Confinement::default()
        },
        Policy::Claude => Confinement {
            readable: vec![at("{ws}")],
            writable: vec![at("{state}")],
            network: Network::Listeners { ports: vec![4001, 4002] },
            ..Confinement::default()
        },
        Policy::SelfConfinement => Confinement {
            readable: vec![at("{sockets}"), at("{configuration}")],
            writable: vec![at("{run}")],
            network: Network::Listeners { ports: vec![4001] },
            ..Confinement::default()
        },
    }
}

pub(super) fn resolved(policy: Policy) -> Places {
    let cwd = match policy {
        Policy::Claude => format!("{STATE}/claude/1"),
        Policy::SelfConfinement => "/".to_owned(),
        Policy::Command | Policy::Git => format!("{HOME}/src/project"),
    };
    let (request, confinement) = (request(policy, &cwd), confinement(policy));
    let scratch = match &confinement.scratch {
        Scratch::Directory { path, .. } => Some(path.as_path()),
        Scratch::None | Scratch::Memory { .. } => None,
    };
    let asked =
        Asked { request: &request, confinement: &confinement, scratch, launcher: Path::new(LAUNCHER) };
    Places::of(&asked, real).unwrap()
}

pub(super) fn profile(policy: Policy) -> Profile {
    Profile::compose(policy, &resolved(policy)).unwrap()
}

pub(super) fn understood(profile: &Profile) -> evaluator::Profile {
    let parameters = profile
        .parameters
        .iter()
        .map(|(name, path)| (name.clone(), path.to_str().unwrap().to_owned()))
        .collect();
    evaluator::Profile::read(&profile.text, &parameters).unwrap()
}
