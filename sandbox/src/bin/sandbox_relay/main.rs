//! A launcher for the suites that stands between a shim and the real one. It takes the shim's order, changes it as the
//! file `relay.json` beside its executable says, has the real launcher carry it out, and hands everything on: status,
//! listeners, signals, end.
//!
//! The listeners that the shim gets are not Claude Code's but ones that the whole machine can reach; what arrives on Claude
//! Code's is passed on to them, or through a proxy of the test's. So a test can record, break off and repeat what Claude
//! Code and the shim say to each other, in the form that they have in earnest.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program for tests: whatever fails here fails the test, and says where"
)]

#[cfg(target_os = "linux")]
mod launching;
#[cfg(target_os = "linux")]
mod passing;
#[cfg(target_os = "linux")]
mod raw;

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use serde::Deserialize;

#[cfg(target_os = "linux")]
/// What is to be done with the orders that come.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instructions {
    /// The real launcher.
    launcher: PathBuf,
    /// Arguments on top of the shim's.
    #[serde(default)]
    append: Vec<String>,
    /// Environment on top of the shim's.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// What is started in Claude Code's place, with the shim's arguments after these.
    #[serde(default)]
    instead: Vec<String>,
    /// The port of a proxy between Claude Code and the first listener.
    #[serde(default)]
    proxy: Option<u16>,
}

#[cfg(target_os = "linux")]
fn main() {
    let own = std::env::current_exe().expect("the system names the running executable");
    let place = own.parent().expect("an executable lies in a directory");
    let text = std::fs::read(place.join("relay.json")).expect("relay.json beside the executable");
    let instructions: Instructions = serde_json::from_slice(&text).expect("instructions");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(relay(&instructions, place));
}

#[cfg(target_os = "linux")]
async fn relay(instructions: &Instructions, place: &Path) {
    let (order, status, control) = raw::inherited();
    let order = launching::changed(order, instructions, place);
    let Some(mut confined) = launching::launch(&order, instructions, status).await else { return };
    let own = std::mem::take(&mut confined.listeners);
    let public = passing::open(own, instructions.proxy, place);
    launching::hand_over(&control, &confined.hold, &public);
    // From here on they are the shim's alone.
    drop(public);
    passing::until_the_end(control, confined).await;
}

#[cfg(not(target_os = "linux"))]
fn main() {}
