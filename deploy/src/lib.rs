//! Gatehouse's operator command line.
//!
//! It starts and ends a gateway ([`gateway`]), shows what the executor's operator service tells ([`command`]), and
//! carries the scripted ChatGPT ([`chatgpt`]) that the demo and the suites drive a front with. It holds no authority:
//! whatever it shows or asks goes over the operator socket, and it reads no state file but the front's key and its own record of what it
//! installed. [`install`] makes services of the gateway, [`doctor`] finds out what is wrong.

#![forbid(unsafe_code)]

pub mod chatgpt;
pub mod cli;
pub mod command;
pub mod doctor;
pub mod failure;
pub mod gateway;
pub mod install;
pub mod operator;
pub mod report;
pub mod screen;
pub mod settings;
pub mod tunnel;
