//! Putting up every layer once, in processes that end with it.

use std::io::{Read, Write};
use std::path::PathBuf;

use nix::errno::Errno;
use rustix::process::WaitOptions;

use super::seccomp::Filter;
use super::{
    Step, capabilities, elf, failed, landlock, minimal_root, namespaces, network, raw, self_confinement,
    whole_system,
};
use crate::launch::{
    Confinement, LaunchRequest, Layer, LayerFailure, Limits, Network, Policy, ProcessGroup, Scratch,
};
use crate::probe::{PolicyReport, Report};

/// Any port; nobody connects to it.
const PORT: u16 = 4001;

/// Finds out what this host gives.
pub(crate) fn look() -> Report {
    let policies = Report::NEEDED.into_iter().map(|(policy, _)| in_a_child(policy)).collect();
    let landlock_version = landlock::version().map_or(0, |version| version as i32);
    Report { policies, landlock_version }
}

/// Runs the steps of one policy in a process of their own, which says over a pipe how far it got.
fn in_a_child(policy: Policy) -> PolicyReport {
    let nothing = |failure| PolicyReport { policy, layers: Vec::new(), failure: Some(failure) };
    let (mut ours, theirs) = match std::io::pipe() {
        Ok(pipe) => pipe,
        Err(error) => return nothing(failed(Layer::Userns, "pipe")(error)),
    };
    match raw::fork() {
        Ok(raw::Fork::Child) => {
            drop(ours);
            let mut layers = Vec::new();
            let outcome = match policy {
                Policy::SelfConfinement => self_confinement::confine(&[], &mut layers),
                Policy::Command | Policy::Git | Policy::Claude => outer(policy, &mut layers, &theirs),
            };
            report(policy, layers, outcome, &theirs);
            raw::leave(0)
        }
        Ok(raw::Fork::Parent(child)) => {
            drop(theirs);
            let mut text = Vec::new();
            let read = ours.read_to_end(&mut text);
            let pid = rustix::process::Pid::from_raw(child.as_raw());
            while let Err(rustix::io::Errno::INTR) = rustix::process::waitpid(pid, WaitOptions::empty()) {}
            let silent = || nothing(LayerFailure::new(Layer::Userns, "the probe ended without a word", 0));
            // The first line counts: the innermost process knows most.
            let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
            read.ok().and_then(|_| serde_json::from_slice(first).ok()).unwrap_or_else(silent)
        }
        Err(errno) => nothing(failed(Layer::Userns, "fork")(errno)),
    }
}

fn report(policy: Policy, layers: Vec<Layer>, outcome: Step, mut to: impl Write) {
    let report = PolicyReport { policy, layers, failure: outcome.err() };
    let mut line = serde_json::to_vec(&report).unwrap_or_default();
    line.push(b'\n');
    // Who asked says so when nothing comes.
    let _ = to.write_all(&line);
}

/// The keeper's steps, then the first process's.
fn outer(policy: Policy, layers: &mut Vec<Layer>, to: &std::io::PipeWriter) -> Step {
    namespaces::enter(namespaces::Process::WithChildren, layers)?;
    namespaces::leave_network(layers)?;
    // Commands have loopback only where the configuration says so; whether they could is found out here.
    network::set_up(&Network::Listeners { ports: vec![PORT] }, layers)?;
    match raw::fork().map_err(failed(Layer::Pidns, "fork"))? {
        raw::Fork::Child => {
            let mut layers = layers.clone();
            let outcome = inner(policy, &mut layers);
            report(policy, layers, outcome, to);
            raw::leave(0)
        }
        raw::Fork::Parent(child) => {
            let pid = rustix::process::Pid::from_raw(child.as_raw());
            while let Err(rustix::io::Errno::INTR) = rustix::process::waitpid(pid, WaitOptions::empty()) {}
            Err(LayerFailure::new(Layer::Pidns, "the first process inside was killed", Errno::ECHILD as i32))
        }
    }
}

fn inner(policy: Policy, layers: &mut Vec<Layer>) -> Step {
    let own = std::env::current_exe().map_err(failed(Layer::MinimalRoot, "readlink /proc/self/exe"))?;
    let request = LaunchRequest {
        argv: vec![own.clone().into()],
        cwd: "/".into(),
        env: std::collections::BTreeMap::new(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy,
    };
    let mut confinement = Confinement::default();
    let grants = match policy {
        Policy::Command | Policy::Git | Policy::SelfConfinement => {
            confinement.scratch = Scratch::Memory { bytes: 1 << 20 };
            whole_system::build(&request, &confinement, layers)?;
            landlock::Grants::for_whole_system(&confinement)
        }
        Policy::Claude => {
            confinement.programs = programs(&own)?;
            confinement.network = Network::Listeners { ports: vec![PORT] };
            minimal_root::build(&request, &confinement, layers)?;
            landlock::Grants::for_minimal_root(&confinement)
        }
    };
    capabilities::drop_all(layers)?;
    landlock::restrict(&grants, layers)?;
    Filter::of(policy, &confinement.network)?.install(layers)
}

fn programs(own: &std::path::Path) -> Step<Vec<PathBuf>> {
    elf::program_files(own).map_err(|error| LayerFailure::new(Layer::MinimalRoot, error.to_string(), 0))
}
