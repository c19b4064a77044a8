//! Being built.
pub mod files;
pub mod tools;
