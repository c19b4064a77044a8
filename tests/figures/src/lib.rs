//! What the benches measure, as tables of docs/performance.md.
//!
//! A bench makes a [`Table`] and [saves](Table::save) it as a file of the build folder's `bench/`. The program `figures`
//! puts what lies there between the document's markers, and changes nothing else in it: prose is written by people,
//! numbers never are.
//!
//! Environment: `GATEHOUSE_BENCH_FIGURES`, where the files go instead; `GATEHOUSE_BENCH_COMPARE`, if it is set, makes a
//! bench fail that cannot find what it compares with; `GATEHOUSE_BENCH_ROUNDS`, another number of rounds;
//! `GATEHOUSE_BENCH_PEERS`, where npm has put other people's programs.

#![forbid(unsafe_code)]

mod commits;
pub mod document;
mod machine;
mod place;
mod run;
mod spread;
mod table;

pub use commits::BareCommits;
pub use machine::machine;
pub use place::Place;
pub use run::{folder, peers, rounds};
pub use spread::{Spread, Unit, percentile};
pub use table::{Comparison, Goal, Table};
