//! Putting each profile on once, for a program that does nothing.

use std::collections::BTreeMap;

use super::run_directory::RunDirectory;
use super::start::start;
use crate::launch::status::Failed;
use crate::launch::{
    Confinement, LaunchRequest, Layer, LayerFailure, Limits, Network, Policy, ProcessGroup, Scratch,
};
use crate::probe::{PolicyReport, Report};

/// Finds out what this host gives.
pub(crate) fn look() -> Report {
    let policies = Report::NEEDED.into_iter().map(|(policy, needed)| one(policy, needed)).collect();
    Report { policies, landlock_version: 0 }
}

fn one(policy: Policy, needed: &[Layer]) -> PolicyReport {
    match try_one(policy) {
        Ok(layers) => {
            let layers =
                needed.iter().copied().filter(|layer| layers.iter().any(|name| name == layer.name()));
            PolicyReport { policy, layers: layers.collect(), failure: None }
        }
        Err(failure) => PolicyReport { policy, layers: Vec::new(), failure: Some(failure) },
    }
}

fn try_one(policy: Policy) -> Result<Vec<String>, LayerFailure> {
    let run = RunDirectory::make()
        .map_err(|error| LayerFailure::new(Layer::Seatbelt, "mkdtemp", error.raw_os_error().unwrap_or(0)))?;
    let request = LaunchRequest {
        argv: vec!["/usr/bin/true".into()],
        cwd: "/".into(),
        env: BTreeMap::new(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy,
    };
    let mut confinement = Confinement::default();
    match policy {
        Policy::Command | Policy::Git => confinement.scratch = Scratch::Memory { bytes: 1 << 20 },
        Policy::Claude | Policy::SelfConfinement => {
            // Any port; nobody connects to it.
            confinement.network = Network::Listeners { ports: vec![4001] };
        }
    }
    match start(&request, &confinement, &run, &mut |_| {}) {
        Ok(mut started) => {
            // It ends by itself.
            let _ = started.child.wait();
            Ok(started.layers)
        }
        Err(Failed::Layer(failure)) => Err(failure),
        Err(Failed::Step(failure)) => {
            Err(LayerFailure::new(Layer::Seatbelt, format!("launch step {}", failure.stage), failure.errno))
        }
    }
}
