//! What may be touched, how a launch is confined, and who a process is.
//!
//! * [`launch`]: a launch as data, and the one way to start a confined program (through the `sandbox-launch` binary).
//! * [`open_file`]: whether somebody else writes to a file that is open.
//! * [`policy`]: the protected paths, as data, and the matcher for them.
//! * [`confine`]: a running process confines itself.
//! * [`probe`]: which layers this host gives.
//! * [`process`]: the identity of a process, proven before any signal is sent.

pub mod confine;
mod keeper;
pub mod launch;
#[cfg(target_os = "linux")]
mod linux;
// Also compiled for tests on other systems: what is pure in it is tested there.
#[cfg(any(target_os = "macos", test))]
mod macos;
pub mod open_file;
pub mod policy;
pub mod probe;
pub mod process;
