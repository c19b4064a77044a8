//! What the file tools may touch, decided on the opened object.
//!
//! * [`FilePolicy`]: the configured rules; [`canonical_root`]: the directory a session is bound to.
//! * [`SessionFiles`]: opening for one session. No symbolic link at any component, no protected path under any of its
//!   names, no special file system, no file with names outside the session's root. The checks look at what was
//!   found, not at how it was spelled.
//! * A refusal is a [`FileFault`], which carries the stable code of the receipt.
//!
//! * [`replace`]: the one way in which a file of the user's is written.

mod beneath;
mod fault;
mod links;
mod mounts;
mod path;
mod policy;
mod protected_inodes;
pub mod replace;
mod root;
mod session;
mod sys;
pub mod text;
pub(crate) mod walk;

pub use beneath::BeneathFault;
pub(crate) use beneath::read_beneath;
pub use fault::{FileFault, FileKind};
pub(crate) use mounts::mounted_below;
pub use policy::{FilePolicy, FilePolicyConfig, HardLinks, NetworkFs, PolicyError};
pub use root::{Profile, Root, RootFault, canonical_root};
pub use session::SessionFiles;
pub(crate) use session::{OpenDirectory, OpenFile, io_fault};
