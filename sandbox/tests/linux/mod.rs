//! What only Linux has: namespaces, masks, the filter's lists, Landlock. Each probe is a real attempt by a real program
//! inside the real sandbox; it asserts why the attempt failed, and the same attempt outside succeeds.

mod claude;
mod escapes;
mod files;
mod hostile_git;
mod kernel;
mod masks;
mod network;
mod processes;
mod required;
mod self_confinement;
