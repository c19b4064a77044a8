//! Front and shim on a Mac.
//!
//! A process cannot put a profile on itself by any call that is documented; whoever starts it has `sandbox-exec` do that
//! ([`crate::launch::Launcher::start_confined`] with [`crate::launch::Policy::SelfConfinement`]). So what would confine a
//! process on Linux here finds out that it is confined, and is an error if it is not.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;

use crate::launch::{Layer, LayerFailure, Remedy};

/// Finds out, by what is refused to it, that this process is confined.
///
/// # Errors
/// When something is not refused, or is for another reason; or when a directory that should be reachable is not.
pub(crate) fn confine_self(reachable: &[PathBuf]) -> Result<Vec<Layer>, LayerFailure> {
    let attempts: [(&str, io::Result<()>); 4] = [
        ("read /private/etc/passwd", File::open("/private/etc/passwd").map(drop)),
        ("make a file", make_a_file(Path::new("/private/tmp"))),
        ("connect to a port", TcpStream::connect(("127.0.0.1", 9)).map(drop)),
        ("start a program", Command::new("/usr/bin/true").status().map(drop)),
    ];
    for (what, attempt) in attempts {
        if attempt.err().and_then(|error| error.raw_os_error()) != Some(Errno::EPERM as i32) {
            let call = format!("this process can still {what}");
            let failure = LayerFailure::new(Layer::Seatbelt, call, 0);
            return Err(LayerFailure { remedy: Some(Remedy::StartConfined), ..failure });
        }
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
