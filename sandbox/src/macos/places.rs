//! The places of a launch under the names that the kernel matches.
//!
//! Seatbelt matches real paths: `/tmp` is `/private/tmp`. What is allowed is therefore named by its real path alone; what is
//! hidden also as it was spelled, and both once more below the data volume, where the same files show.

use std::path::{Path, PathBuf};

use crate::launch::{Confinement, LaunchRequest, Layer, LayerFailure, Network, Policy, Remedy};

/// Every user file shows a second time below this directory.
const DATA_VOLUME: &str = "/System/Volumes/Data";

/// All places of a launch, real.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Files that are executed.
    pub programs: Vec<PathBuf>,
    pub readable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
    /// One, or none.
    pub scratch: Vec<PathBuf>,
    /// Under each spelling.
    pub hidden: Vec<PathBuf>,
    /// Directories that must not move: a rule is about them, or about something in them.
    pub held: Vec<PathBuf>,
    /// The directories above the one in which the program starts.
    pub above: Vec<PathBuf>,
    pub ports: Vec<u16>,
}

/// What the places are found out from.
pub(super) struct Asked<'a> {
    pub request: &'a LaunchRequest,
    pub confinement: &'a Confinement,
    /// Where the scratch is, if there is one.
    pub scratch: Option<&'a Path>,
    /// `sandbox-launch`.
    pub launcher: &'a Path,
}

impl Places {
    /// Finds them out; `real` gives the real path of a path, also of one that does not exist.
    ///
    /// # Errors
    /// When something that is to be hidden holds something that is needed.
    pub(super) fn of(asked: &Asked<'_>, real: impl Fn(&Path) -> PathBuf) -> Result<Self, LayerFailure> {
        let Asked { request, confinement, scratch, launcher } = asked;
        let all = |paths: &[PathBuf]| distinct(paths.iter().map(|path| real(path)).collect());
        let whole_system = matches!(request.policy, Policy::Command | Policy::Git);
        let mut programs = vec![real(launcher)];
        if !whole_system {
            programs.extend(request.argv.first().map(|program| real(Path::new(program))));
            programs.extend(all(&confinement.programs));
        }
        let cwd = real(Path::new(&request.cwd));
        let mut places = Self {
            programs: distinct(programs),
            readable: all(&confinement.readable),
            writable: all(&confinement.writable),
            scratch: scratch.iter().map(|path| real(path)).collect(),
            hidden: spellings(&confinement.hidden, real),
            held: Vec::new(),
            // The root itself is for everybody.
            above: cwd.ancestors().filter(|above| above.parent().is_some()).map(Path::to_owned).collect(),
            ports: match &confinement.network {
                Network::Listeners { ports } => ports.clone(),
                Network::None | Network::PrivateLoopback => Vec::new(),
            },
        };
        if whole_system {
            places.nothing_needed_is_hidden(request, &cwd)?;
        }
        places.held = places.held();
        Ok(places)
    }

    /// The same rule as where masks hide: what would hide a part of the launch is refused.
    fn nothing_needed_is_hidden(&self, request: &LaunchRequest, cwd: &Path) -> Result<(), LayerFailure> {
        let program = request.argv.first().map(PathBuf::from);
        let needed = program.iter().chain(&self.programs).chain(&self.readable).chain(&self.writable);
        for needed in needed.map(PathBuf::as_path).chain([cwd]) {
            let in_scratch = self.scratch.iter().any(|scratch| needed.starts_with(scratch));
            if let Some(hidden) = self.hidden.iter().find(|hidden| !in_scratch && needed.starts_with(hidden))
            {
                let call = format!("hide {} which holds {}", hidden.display(), needed.display());
                let failure = LayerFailure::new(Layer::Seatbelt, call, nix::errno::Errno::EINVAL as i32);
                return Err(LayerFailure { remedy: Some(Remedy::HidesWhatIsNeeded), ..failure });
            }
        }
        Ok(())
    }

    /// The places that may be written, and the directories between them and what is hidden in them.
    fn held(&self) -> Vec<PathBuf> {
        let mut held: Vec<PathBuf> = self.scratch.iter().chain(&self.writable).cloned().collect();
        for hidden in &self.hidden {
            for place in self.writable.iter().filter(|place| hidden.starts_with(place)) {
                let between = hidden.ancestors().skip(1).take_while(|above| above.starts_with(place));
                held.extend(between.map(Path::to_owned));
            }
        }
        distinct(held)
    }
}

/// As it was written, and where it really is; both once more below the data volume. What lies below another is left out.
fn spellings(hidden: &[PathBuf], real: impl Fn(&Path) -> PathBuf) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = hidden.iter().flat_map(|path| [path.clone(), real(path)]).collect();
    all.sort();
    let mut last: Option<PathBuf> = None;
    all.retain(|path| {
        let below = last.as_ref().is_some_and(|last| path.starts_with(last));
        if !below {
            last = Some(path.clone());
        }
        !below
    });
    let data = |path: &PathBuf| Path::new(DATA_VOLUME).join(path.strip_prefix("/").unwrap_or(path));
    let second: Vec<PathBuf> = all.iter().filter(|path| !path.starts_with(DATA_VOLUME)).map(data).collect();
    distinct(all.into_iter().chain(second).collect())
}

fn distinct(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    paths
}

/// The real path; of what does not exist, that of the nearest directory above it which does, and the rest as it is.
pub(super) fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return match path.strip_prefix(above) {
                Ok(rest) if !rest.as_os_str().is_empty() => found.join(rest),
                _ => found,
            };
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_named_from_the_nearest_directory_that_does() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("there")).unwrap();
        std::os::unix::fs::symlink("there", root.join("link")).unwrap();
        assert_eq!(real(&root.join("link")), root.join("there"));
        assert_eq!(real(&root.join("link/not/yet")), root.join("there/not/yet"));
        assert_eq!(real(Path::new("/nowhere at all/x")), Path::new("/nowhere at all/x"));
    }

    #[test]
    fn what_is_hidden_is_named_in_every_way_and_once() {
        let link = |path: &Path| match path.strip_prefix("/tmp") {
            Ok(rest) => Path::new("/private/tmp").join(rest),
            Err(_) => path.to_owned(),
        };
        let hidden = ["/tmp/a", "/home/b", "/home/b/c", "/System/Volumes/Data/d"].map(PathBuf::from);
        let expected = [
            "/System/Volumes/Data/d",
            "/System/Volumes/Data/home/b",
            "/System/Volumes/Data/private/tmp/a",
            "/System/Volumes/Data/tmp/a",
            "/home/b",
            "/private/tmp/a",
            "/tmp/a",
        ];
        assert_eq!(spellings(&hidden, link), expected.map(PathBuf::from));
    }
}
