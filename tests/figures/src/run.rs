//! What a run of a bench is told by the environment.

use std::env;
use std::path::{Path, PathBuf};

/// The build folder, which the running program lies in.
fn build_folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let profile = program.ancestors().find(|folder| folder.ends_with("release") || folder.ends_with("debug"));
    profile.and_then(Path::parent).unwrap_or_else(|| Path::new("target")).to_owned()
}

fn named(variable: &str, else_in_build_folder: &str) -> PathBuf {
    env::var_os(variable).map_or_else(|| build_folder().join(else_in_build_folder), PathBuf::from)
}

/// Where tables are kept: `bench/` of the build folder, unless `GATEHOUSE_BENCH_FIGURES` says otherwise.
#[must_use]
pub fn folder() -> PathBuf {
    named("GATEHOUSE_BENCH_FIGURES", "bench")
}

/// Where npm has put other people's programs: `bench-peers/` of the build folder, unless `GATEHOUSE_BENCH_PEERS` says
/// otherwise.
#[must_use]
pub fn peers() -> PathBuf {
    named("GATEHOUSE_BENCH_PEERS", "bench-peers")
}

/// How many rounds are measured: the usual number, unless `GATEHOUSE_BENCH_ROUNDS` says otherwise.
///
/// # Panics
/// When that is no number.
#[must_use]
pub fn rounds(usual: usize) -> usize {
    let Some(text) = env::var_os("GATEHOUSE_BENCH_ROUNDS") else { return usual };
    let asked = text.to_str().and_then(|text| text.parse().ok());
    assert!(asked.is_some(), "GATEHOUSE_BENCH_ROUNDS is {}, no number of rounds", text.display());
    asked.unwrap_or(usual)
}
