//! A stand-in for both ends of OpenAI's tunnel, after its published protocol: the control plane, where the product puts
//! commands and takes answers ([`Control`]), and `tunnel-client`, which polls them and talks to the front
//! ([`TunnelClient`]).
//!
//! The real client is a program that no package registry carries, so what it does towards the front is done here in its
//! place, from its documentation: the looks at start-up, a connection per call, the headers that it passes on, deadlines
//! that close the connection and drop the answer, error bodies that are kept or replaced. It is driven by the profiles of
//! `deploy/tunnel/`, read by [`profile`].

mod client;
mod control;
mod http;
pub mod profile;
pub mod serving;
mod stdio;

pub use client::{End, LogIn, Probe, Readiness, TunnelClient};
pub use control::{Command, Control, Posted, Ticket};
