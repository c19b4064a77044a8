//! What a launch costs: plain, in our sandbox, in other sandboxes. Medians of 50, taken in turns.
//!
//! `cargo bench -p gatehouse-sandbox --bench launch`; see `docs/sandbox.md`. What is not installed is not measured, and said
//! so. Environment:
//!
//! * `GATEHOUSE_BENCH_LAUNCHER`: other builds of the launcher, such as a static one; several are separated by `:`.
//! * `GATEHOUSE_BENCH_PEERS`: the folder in which npm has installed sandbox-runtime and Codex (`make bench` does that).
//! * `GATEHOUSE_BENCH_ROUNDS`: another number of rounds.
#![allow(clippy::unwrap_used, reason = "a measurement")]

#[cfg(target_os = "linux")]
mod launches;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(table::measure());
}

#[cfg(not(target_os = "linux"))]
fn main() {}
