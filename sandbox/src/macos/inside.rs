//! The launcher once more, under the profile: limits, directory, signals, the proof, the program.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;

use nix::errno::Errno;

use super::start::Inside;
use crate::launch::status::{Failed, Failure, Stage};
use crate::launch::steps::{MAX_REQUEST, Program, SETUP_FAILED, settle, tell};
use crate::launch::{Layer, LayerFailure, raw};

/// Becomes the program; comes back only with an exit code for a failure that was told. `arguments` are the numbers of the
/// order's and the proof's descriptors.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    let numbers: Option<Vec<i32>> = arguments.iter().map(|text| text.to_str()?.parse().ok()).collect();
    let Some([order, proof]) = numbers.as_deref() else { return SETUP_FAILED };
    let (Ok(order), Ok(proof)) = (raw::take_inherited(*order), raw::take_inherited(*proof)) else {
        return SETUP_FAILED;
    };
    let Err(failed) = become_it(order, &proof);
    tell(&proof, failed)
}

fn become_it(order: File, proof: &File) -> Result<Infallible, Failed> {
    let malformed = || Failure::new(Stage::Request, Errno::EINVAL as i32);
    let mut text = Vec::new();
    order.take(MAX_REQUEST).read_to_end(&mut text).map_err(|_| malformed())?;
    let inside: Inside = serde_json::from_slice(&text).map_err(|_| malformed())?;
    let program = Program::prepare(&inside.request)?;
    settle(&inside.request)?;
    in_force(&inside)?;
    Ok(program.start(proof, &inside.layers)?)
}

/// The profile is in force if the file that anybody can read is refused, and for that reason.
fn in_force(inside: &Inside) -> Result<(), LayerFailure> {
    let not_in_force = |errno| LayerFailure::new(Layer::Seatbelt, "the profile is not in force: open", errno);
    match File::open(&inside.outside) {
        Err(error) if error.raw_os_error() == Some(Errno::EPERM as i32) => Ok(()),
        Err(error) => Err(not_in_force(error.raw_os_error().unwrap_or(0))),
        Ok(_) => Err(not_in_force(0)),
    }
}
