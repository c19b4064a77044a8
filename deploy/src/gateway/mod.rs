//! A gateway as one thing: the executor and the front, started, watched, started again, and ended together.

mod child;
mod hold;
mod listen;
mod ready;
mod supervise;

pub use child::{Logs, Program};
pub use hold::{Hold, holder, noted_listen};
pub use listen::{Listen, front_arguments};
pub use ready::{executor_ready, front_ready};
pub use supervise::{Gateway, Options};
