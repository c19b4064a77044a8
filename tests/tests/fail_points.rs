//! The executor is killed at every named instant of a session's life: before and after each commit, around each launch,
//! around each action, while it stops. Whoever asked asks again with the same ids, and the session is led to its end. Then
//! nothing was lost, nothing was done twice, and each instant was really reached.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

#[path = "fail_points/life.rs"]
mod life;
#[path = "fail_points/table.rs"]
mod table;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use gatehouse_tests::binaries::repository;
use gatehouse_tests::claude;

use life::Life;
use table::{ROWS, Row};

/// Names after `=`: what the executor itself knows.
fn points() -> BTreeSet<String> {
    let text = std::fs::read_to_string(repository().join("executor-svc/src/fail_point.rs")).unwrap();
    let table = text.split("points! {").nth(1).unwrap().split("\n}").next().unwrap();
    table.lines().filter_map(|line| Some(line.split_once("= \"")?.1.split_once('"')?.0.to_owned())).collect()
}

/// The points that the sources reach, by their names in the code.
fn reached() -> BTreeSet<String> {
    let mut folders = vec![repository().join("executor-svc/src")];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("fail_point.rs") {
                let text = std::fs::read_to_string(path).unwrap();
                for mark in ["FailPoint::", "At::"] {
                    let names = text.split(mark).skip(1);
                    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric()).collect();
                    found.extend(names.map(name));
                }
            }
        }
    }
    found
}

#[test]
fn every_point_that_the_executor_knows_has_a_row_and_a_place_in_the_code() {
    let rows: BTreeSet<_> = ROWS.iter().map(|row| row.point().to_owned()).collect();
    assert_eq!(rows, points());
    let variants: BTreeSet<String> = points().iter().map(|name| camel(name)).collect();
    let reached = reached();
    assert!(variants.is_subset(&reached), "nobody reaches {:?}", variants.difference(&reached));
}

/// `reply.after_commit` as a variant: `ReplyAfterCommit`.
fn camel(name: &str) -> String {
    let words = name.split(['.', '_']);
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// Takes one row after the other, each with a gateway of its own.
async fn lane(claude: &Path, rows: &Mutex<Vec<&'static Row>>) {
    loop {
        let next = rows.lock().unwrap().pop();
        let Some(row) = next else { return };
        println!("{}: {}", row.at, row.holds);
        Life::begin(claude.to_owned(), row.at).await.lead_to_its_end(row).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_instant_of_a_crash_nothing_is_lost_and_nothing_is_done_twice() {
    let Some(claude) = claude() else { return };
    let only = std::env::var("FAIL_POINT").ok();
    let chosen =
        ROWS.iter().rev().filter(|row| only.as_ref().is_none_or(|only| row.at.starts_with(only.as_str())));
    let rows = Mutex::new(chosen.collect());
    let lane = || lane(&claude, &rows);
    tokio::join!(lane(), lane(), lane(), lane(), lane());
}
