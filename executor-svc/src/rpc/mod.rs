//! The three services: translation only. What is asked becomes a command; what comes back becomes a message.

mod checks;
mod connections;
mod figures;
mod front;
mod operator;
mod place;
mod plan;
mod refusals;
mod reply;
mod runner;
mod serve;
mod skills;
mod subagents;
mod view;

pub use serve::{Services, Sockets, serve};
