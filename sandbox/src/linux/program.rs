//! Step 6: the process that becomes the program.

use std::convert::Infallible;

use super::seccomp::Filter;
use super::{View, landlock};
use crate::launch::status::{Failed, Failure, Stage};
use crate::launch::steps::{Job, settle};
use crate::launch::{LaunchRequest, Layer, ProcessGroup, Scratch};

/// The request, with files no larger than the scratch that they would be in.
fn bounded(job: &Job) -> LaunchRequest {
    let mut request = job.request.clone();
    if let Scratch::Directory { bytes, .. } = job.confinement.scratch
        && job.confinement.writable.is_empty()
    {
        let asked = request.limits.file_bytes;
        request.limits.file_bytes = Some(asked.map_or(bytes, |asked| asked.min(bytes)));
    }
    request
}

/// Becomes the program; comes back only with the reason why not.
pub(super) fn become_it(job: &Job, layers: Vec<Layer>, filter: Filter) -> Failed {
    let Err(failed) = try_become(job, layers, filter);
    failed
}

fn try_become(job: &Job, mut layers: Vec<Layer>, filter: Filter) -> Result<Infallible, Failed> {
    if job.request.group == ProcessGroup::OwnSession {
        nix::unistd::setsid().map_err(Failure::at(Stage::Session))?;
    }
    settle(&bounded(job))?;
    layers.push(Layer::Rlimits);
    let grants = match View::of(job.request.policy) {
        View::WholeSystem => landlock::Grants::for_whole_system(&job.confinement),
        View::Only => landlock::Grants::for_minimal_root(&job.confinement),
    };
    landlock::restrict(&grants, &mut layers)?;
    // Last: it forbids what the steps before needed.
    filter.install(&mut layers)?;
    Ok(job.program.start(&job.status, &layers)?)
}
