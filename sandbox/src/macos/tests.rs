//! The profiles as text, and what they would allow.

mod injection;
mod listed;
mod needed;
mod sample;
mod text;

pub(super) use sample::request;
