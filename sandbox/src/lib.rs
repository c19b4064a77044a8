//! What may be touched, how a launch is confined, and who a process is.
//!
//! * [`launch`]: a launch as data, and the one way to start a confined program (through the `sandbox-launch` binary).
//! * [`process`]: the identity of a process, proven before any signal is sent.

pub mod launch;
pub mod process;
