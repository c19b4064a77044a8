//! A gateway as one thing: the executor and the front, started, watched, started again, and ended together.

mod child;
mod hold;
mod ready;
mod supervise;

pub use child::{Logs, Program};
pub use hold::{Hold, holder};
pub use ready::{executor_ready, front_ready};
pub use supervise::{Gateway, Options};
