//! How the running gateway's own processes are confined: what the system says about them, and what they could still do if
//! somebody else were in control of them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

#[cfg(target_arch = "x86_64")]
mod hostile;
mod view;

use gatehouse::chatgpt::Brain;
use gatehouse_tests::{Gateway, processes};
use serde_json::Value;

const PROMPT: &str = "Who is there?";

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn shim_of(gateway: &Gateway) -> u32 {
    let shims = processes::shims_of(&gateway.runtime_dir());
    assert_eq!(shims.len(), 1);
    shims[0]
}

fn claude_of(brain: &Brain) -> u32 {
    processes::claude_of(brain.state().claude_session_id()).expect("Claude Code lives")
}

/// The session goes on to its end as if nobody had looked at its processes, or been in them.
async fn finish(mut brain: Brain, gateway: Gateway) {
    let state = brain.finish("Nobody.").await.unwrap();
    assert_eq!((state.status(), &state.0["last_result"]["ok"]), ("idle", &Value::Bool(true)), "{}", state.0);
    gateway.finish().await;
}
