//! Front and shim on a Mac.
//!
//! A process cannot put a profile on itself by any call that is documented; whoever starts it has `sandbox-exec` do that
//! ([`crate::launch::Launcher::start_confined`] with [`crate::launch::Policy::SelfConfinement`]). So what would confine a
//! process on Linux here finds out whether it is confined, and is an error if it is not.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;

use crate::launch::{LaunchError, Layer, LayerFailure, Remedy};

/// Finds out, by what is refused to it, that this process is confined.
///
/// # Errors
/// `Unsupported` when nothing is refused: it was not started confined. A failure of the layer when only a part is refused,
/// or for another reason (it is in somebody else's sandbox), or when a directory that should be reachable is not.
pub(crate) fn confine_self(reachable: &[PathBuf]) -> Result<Vec<Layer>, LaunchError> {
    let attempts: [(&str, io::Result<()>); 4] = [
        ("read /private/etc/passwd", File::open("/private/etc/passwd").map(drop)),
        ("make a file", make_a_file(Path::new("/private/tmp"))),
        // Nobody listens there; what counts is who says so.
        ("connect to a port", TcpStream::connect(("127.0.0.1", 9)).map(drop)),
        ("start a program", Command::new("/usr/bin/true").status().map(drop)),
    ];
    let refused = |attempt: &io::Result<()>| {
        attempt.as_ref().err().and_then(io::Error::raw_os_error) == Some(Errno::EPERM as i32)
    };
    let open = attempts.iter().find(|(_, attempt)| !refused(attempt));
    if attempts.iter().all(|(_, attempt)| !refused(attempt)) {
        return Err(LaunchError::Unsupported);
    }
    if let Some((what, _)) = open {
        let call = format!("this process can still {what}");
        let failure = LayerFailure::new(Layer::Seatbelt, call, 0);
        return Err(LayerFailure { remedy: Some(Remedy::StartConfined), ..failure }.into());
    }
    for path in reachable {
        std::fs::read_dir(path).map_err(|error| {
            let call = format!("list {}", path.display());
            LayerFailure::new(Layer::Seatbelt, call, error.raw_os_error().unwrap_or(0))
        })?;
    }
    Ok(vec![Layer::Seatbelt])
}

/// And takes it away again if it could.
fn make_a_file(dir: &Path) -> io::Result<()> {
    let path = dir.join(format!("gatehouse-{}", std::process::id()));
    File::create_new(&path)?;
    std::fs::remove_file(path)
}
