//! The sandbox on Linux.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]
mod support;
use support::*;
use gatehouse_sandbox::launch::*;

#[tokio::test]
async fn smoke() {
    let r = request(Policy::Command, &["/bin/sh", "-c", std::env::var("SMOKE").unwrap().as_str()]);
    let run = run(&r, &memory()).await;
    println!("{}\n{}\n{:?} {:?}", run.stdout, run.stderr, run.ended, run.enforced_by);
}
