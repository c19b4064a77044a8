//! Step 3a: the view of a command: the whole file system, read-only, with a few places of its own.
//!
//! Built in place. The order is what makes it tight: first what will be needed from the host is cloned, detached; then
//! everything attached becomes read-only; then the clones go where they belong; last come the masks, so that nothing
//! attached later shows what was hidden. Nothing writable is ever attached before all else is read-only.

use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::mounts::{self, FROZEN, Kind, TAME, Tree};
use super::raw::Reach;
use super::{Step, dev, masks, proc, scratch};
use crate::launch::{Confinement, LaunchRequest, Layer, SCRATCH};

/// A place that is attached again after the host's own directories were covered.
struct Place {
    path: PathBuf,
    tree: Tree,
}

/// Builds the view.
///
/// # Errors
/// When any step fails.
pub(super) fn build(request: &LaunchRequest, confinement: &Confinement, layers: &mut Vec<Layer>) -> Step {
    mounts::make_private()?;
    let devices = dev::Devices::of_the_host()?;
    let covered = mounts::real(Layer::Scratch, Path::new(SCRATCH))?;
    let places = places(confinement, &covered)?;
    let scratch = scratch::make(&confinement.scratch)?;
    mounts::set_attributes(Layer::ReadOnlyView, CWD, c"/", Reach::Tree, FROZEN)?;
    layers.push(Layer::ReadOnlyView);

    scratch.attach(CWD, &covered)?;
    places.iter().try_for_each(|place| attach(place, &covered, &scratch))?;
    scratch::seal(&scratch, &confinement.scratch)?;
    let table = masks::mount_table()?;
    layers.push(Layer::Scratch);
    devices.put(CWD, Path::new("/dev"), dev::Extent::Full)?;
    layers.push(Layer::Dev);
    proc::mount()?.attach(CWD, Path::new("/proc"))?;
    layers.push(Layer::Proc);
    masks::apply(confinement, &needed(request, confinement), &covered, &table)?;
    layers.push(Layer::Masks);
    // Whatever was the current directory still shows what was there before.
    rustix::process::chdir("/").map_err(super::failed(Layer::ReadOnlyView, "chdir /"))
}

/// What is writable, and what stays visible below the covered directory; parents before children.
fn places(confinement: &Confinement, covered: &Path) -> Step<Vec<Place>> {
    let mut places = Vec::new();
    for path in &confinement.writable {
        let path = mounts::real(Layer::ReadOnlyView, path)?;
        let tree = Tree::clone_of(Layer::ReadOnlyView, &path)?;
        tree.restrict(TAME)?;
        places.push(Place { path, tree });
    }
    for path in &confinement.readable {
        let path = mounts::real(Layer::ReadOnlyView, path)?;
        if path.starts_with(covered) && path != covered {
            let tree = Tree::clone_of(Layer::ReadOnlyView, &path)?;
            tree.restrict(FROZEN)?;
            places.push(Place { path, tree });
        }
    }
    places.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(places)
}

fn attach(place: &Place, covered: &Path, scratch: &Tree) -> Step {
    let Ok(below) = place.path.strip_prefix(covered) else {
        return place.tree.attach(CWD, &place.path);
    };
    let kind = if place.tree.is_directory()? { Kind::Directory } else { Kind::File };
    let target = mounts::make_target(Layer::Scratch, scratch.root(), below, kind)?;
    place.tree.attach_on(&target, &place.path)
}

/// What must not be hidden, or the launch makes no sense.
fn needed(request: &LaunchRequest, confinement: &Confinement) -> Vec<PathBuf> {
    let program = request.argv.first().map(PathBuf::from);
    let places = confinement.writable.iter().chain(&confinement.readable).cloned();
    let fixed = ["/dev", "/proc", SCRATCH].map(PathBuf::from);
    program.into_iter().chain([PathBuf::from(&request.cwd)]).chain(places).chain(fixed).collect()
}
