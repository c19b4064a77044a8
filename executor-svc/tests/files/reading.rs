//! `Read` from end to end.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use executor_svc::tools::{ReceiptBudget, ToolName};
use gatehouse_proto::digest::sha256_hex;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn a_whole_file_comes_with_its_facts() {
    let world = World::new();
    let content = "\u{feff}one\r\ntwö\r\n";
    let path = world.write("root/file", content);
    let receipt = world.read(&path);
    assert_eq!(receipt["content"], "one\ntwö\n");
    assert_eq!(receipt["sha256"], sha256_hex(content.as_bytes()));
    assert_eq!(receipt["bytes"], content.len());
    assert_eq!(receipt["lines"], 2);
    assert_eq!(receipt["eol"], "crlf");
    assert_eq!((&receipt["bom"], &receipt["final_newline"]), (&json!(true), &json!(true)));
    assert_eq!((&receipt["truncated"], &receipt["next_start_line"]), (&json!(false), &Value::Null));
}

#[test]
fn an_empty_file_is_read_and_a_range_behind_the_end_says_so() {
    let world = World::new();
    let path = world.write("root/empty", "");
    let receipt = world.read(&path);
    assert_eq!(
        (&receipt["content"], &receipt["lines"], &receipt["eol"]),
        (&json!(""), &json!(0), &json!("none"))
    );
    let receipt = world.perform(ToolName::Read, &json!({"file_path": path, "start_line": 5}));
    assert!(receipt["note"].as_str().unwrap().contains("0 lines"), "{receipt}");
}

#[test]
fn a_range_that_was_asked_for_is_not_truncated_and_tells_where_the_file_goes_on() {
    let world = World::new();
    let path = world.write("root/file", "1\n2\n3\n4\n");
    let receipt = world.perform(ToolName::Read, &json!({"file_path": path, "start_line": 2, "max_lines": 2}));
    assert_eq!(receipt["content"], "2\n3\n");
    assert_eq!((&receipt["truncated"], &receipt["next_start_line"]), (&json!(false), &json!(4)));
    let receipt = world.perform(ToolName::Read, &json!({"file_path": path, "start_line": 3, "max_lines": 2}));
    assert_eq!((&receipt["content"], &receipt["next_start_line"]), (&json!("3\n4\n"), &Value::Null));
}

/// Reads a file from its start to its end as a caller would.
fn read_on(world: &World, path: &std::path::Path, budget: ReceiptBudget) -> (String, usize) {
    let (mut all, mut pages) = (String::new(), 0);
    let mut input = json!({"file_path": path});
    loop {
        let receipt = world.perform_within(ToolName::Read, &input, budget);
        assert_eq!(receipt["ok"], true, "{receipt}");
        all.push_str(receipt["content"].as_str().unwrap());
        pages += 1;
        let Some(line) = receipt["next_start_line"].as_u64() else { return (all, pages) };
        input["start_line"] = json!(line);
        input["start_column"] = json!(receipt["next_column"].as_u64().unwrap_or(1));
    }
}

#[test]
fn long_files_and_huge_lines_are_read_page_by_page() {
    let world = World::new();
    let content = format!("{}\n{}", "é\"".repeat(200_000), "short line\n".repeat(20_000));
    let path = world.write("root/long", &content);
    let (all, pages) = read_on(&world, &path, ReceiptBudget::MAX);
    assert_eq!(all, content);
    assert!((13..25).contains(&pages), "{pages}");
}

#[test]
fn above_the_limit_only_the_head_is_read_and_the_receipt_says_so() {
    let world = World::with(|config| config.whole_hash_limit = 1000);
    let path = world.write("root/file", "line\n".repeat(300_000));
    let receipt = world.perform(ToolName::Read, &json!({"file_path": path, "max_lines": 1}));
    assert_eq!(receipt["content"], "line\n");
    assert_eq!((&receipt["sha256"], &receipt["lines"]), (&Value::Null, &Value::Null));
    assert_eq!((&receipt["next_start_line"], &receipt["final_newline"]), (&json!(2), &json!(true)));
    assert!(receipt["note"].as_str().unwrap().contains("sha256"));
    let receipt = world.perform(ToolName::Read, &json!({"file_path": path, "start_line": 300_000}));
    assert_eq!((&receipt["content"], &receipt["lines"]), (&json!("line\n"), &json!(300_000)));
}

#[test]
fn passwords_in_urls_are_not_repeated_and_their_number_is_told() {
    let world = World::new();
    let path = world.write("root/file", "db = postgres://bob:sesame@db/x\n");
    let receipt = world.read(path);
    assert_eq!(receipt["content"], "db = postgres://bob:[redacted]@db/x\n");
    assert_eq!(receipt["redacted_passwords"], 1);
    let found = world.search(&json!({"text": "postgres", "context_lines": 1}));
    assert!(!found.to_string().contains("sesame"), "{found}");
}

/// While `change` runs over and over, every read gives one state of the file or says that it changed.
fn raced(change: impl Fn(&World, usize) + Send + Sync, is_sound: impl Fn(&str) -> bool) {
    let world = World::new();
    change(&world, 0);
    let over = AtomicBool::new(false);
    let (mut sound, mut changed) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                change(&world, round);
            }
        });
        let start = Instant::now();
        let mut reads = 0;
        while reads < 300 || (sound + changed < 20 && start.elapsed() < Duration::from_secs(30)) {
            reads += 1;
            let receipt = world.read(world.root.join("file"));
            match receipt["code"].as_str() {
                None => {
                    assert!(is_sound(receipt["content"].as_str().unwrap()), "{receipt}");
                    sound += 1;
                }
                Some("changed_meanwhile") => changed += 1,
                Some("symlink_refused") => std::thread::yield_now(),
                other => panic!("{other:?}: {receipt}"),
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(sound + changed > 0);
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_gives_the_old_or_the_new_or_says_so() {
    let of = |round: usize| format!("{}\n", round % 2).repeat(4000);
    raced(
        |world, round| {
            let new = world.write("root/new", of(round));
            std::fs::rename(new, world.root.join("file")).unwrap();
        },
        |content| content == of(0) || content == of(1),
    );
}

#[test]
fn a_file_that_grows_and_shrinks_while_it_is_read_is_never_half_told() {
    raced(
        |world, round| {
            let path = world.root.join("file");
            let mut file =
                std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
            if round % 2 == 0 {
                file.set_len(0).unwrap();
            }
            file.write_all(b"line\n".repeat(200).as_slice()).unwrap();
        },
        |content| content.is_empty() || content == "line\n".repeat(200),
    );
}

#[test]
fn a_link_swapped_in_is_never_followed() {
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("file"), "secret").unwrap();
    raced(
        |world, round| {
            let (real, link) = (world.write("root/real", "mine"), world.root.join("link"));
            if round == 0 {
                std::os::unix::fs::symlink(secret.path().join("file"), &link).unwrap();
                std::fs::rename(&real, world.root.join("file")).unwrap();
            } else if round % 2 == 1 {
                std::os::unix::fs::symlink(secret.path().join("file"), world.root.join("other")).unwrap();
                std::fs::rename(world.root.join("other"), world.root.join("file")).unwrap();
            } else {
                std::fs::rename(&real, world.root.join("file")).unwrap();
            }
        },
        |content| content == "mine",
    );
}

#[test]
fn a_cancelled_or_late_read_ends_with_its_own_code() {
    let world = World::new();
    let path = world.write("root/file", "x");
    let late = World { deadline: Duration::ZERO, ..world };
    assert_eq!(late.refusal(&path), "timed_out");
    let cancelled = World { deadline: Duration::from_secs(9), ..late };
    cancelled.cancel.cancel();
    assert_eq!(cancelled.refusal(&path), "cancelled");
    assert_eq!(cancelled.search(&json!({"text": "x"}))["code"], "cancelled");
}
