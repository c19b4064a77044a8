//! `FindFiles` and `SearchText` from end to end.

use std::os::unix::fs::symlink;

use executor_svc::tools::{ReceiptBudget, ToolName};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, paths};

#[test]
fn entries_are_sorted_by_the_bytes_of_their_paths() {
    let world = World::new();
    for path in ["a/x", "a-b/x", "a.txt", "a/x-y/z", "B", "é", "a!"] {
        world.write(&format!("root/{path}"), "needle");
    }
    let found = paths(&world.find(&json!({})), &world.root);
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(found, sorted);
    assert_eq!(found.len(), 10);
    let searched = paths(&world.search(&json!({"text": "needle"})), &world.root);
    assert_eq!(searched, ["B", "a!", "a-b/x", "a.txt", "a/x", "a/x-y/z", "é"]);
}

#[test]
fn an_entry_says_what_it_is() {
    let world = World::new();
    world.write("root/dir/file", "12345");
    symlink("dir", world.root.join("link")).unwrap();
    let found = world.find(&json!({"max_depth": 1}));
    let kinds: Vec<_> =
        found["entries"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["directory", "symlink"]);
    let file = &world.find(&json!({"name_contains": "file"}))["entries"][0];
    assert_eq!(file["bytes"], 5);
    assert!(file["modified"].as_str().unwrap().ends_with('Z'), "{file}");
}

#[test]
fn filters_narrow_by_name_extension_glob_and_depth() {
    let world = World::new();
    for path in ["src/main.rs", "src/deep/mod.rs", "src/main.md", "main.rs", "archive.tar.gz"] {
        world.write(&format!("root/{path}"), "");
    }
    for (input, wanted) in [
        (json!({"extension": "rs"}), vec!["main.rs", "src/deep/mod.rs", "src/main.rs"]),
        (json!({"extension": ".tar.gz"}), vec!["archive.tar.gz"]),
        (json!({"name_contains": "main", "max_depth": 1}), vec!["main.rs"]),
        (json!({"glob": "src/*.rs"}), vec!["src/main.rs"]),
        (
            json!({"glob": "**/*.{rs,md}", "name_contains": "main"}),
            vec!["main.rs", "src/main.md", "src/main.rs"],
        ),
        (json!({"glob": "main.*", "extension": "md"}), vec!["src/main.md"]),
    ] {
        assert_eq!(paths(&world.find(&input), &world.root), wanted, "{input}");
    }
}

#[test]
fn what_is_left_out_is_counted_by_its_reason() {
    let world = World::new();
    world.write("root/.git/HEAD", "needle");
    world.write("root/.env", "needle");
    world.write("root/.hidden", "needle");
    world.write("root/.gitignore", "*.log\n/target/\n!keep.log\n");
    world.write("root/a.log", "needle");
    world.write("root/keep.log", "needle");
    world.write("root/target/out", "needle");
    world.write("root/binary", b"needle\0");
    world.write("root/latin1", b"needle\xe9");
    symlink("keep.log", world.root.join("link")).unwrap();
    let found = world.search(&json!({"text": "needle"}));
    assert_eq!(paths(&found, &world.root), [".hidden", "keep.log"]);
    let skipped = json!({"protected": 1, "git": 1, "symlink": 1, "binary": 1, "not_utf8": 1, "ignored": 2});
    assert_eq!(found["skipped"], skipped);
    assert_eq!(found["files_searched"], 3);
    let all = world.search(&json!({"text": "needle", "include_ignored": true}));
    assert_eq!(paths(&all, &world.root), [".hidden", "a.log", "keep.log", "target/out"]);

    let listed = world.find(&json!({}));
    assert_eq!(paths(&listed, &world.root), ["binary", "keep.log", "latin1", "link"]);
    assert_eq!(listed["skipped"], json!({"protected": 1, "git": 1, "ignored": 2, "hidden": 2}));
    let listed = world.find(&json!({"include_hidden": true, "include_ignored": true, "name_contains": "h"}));
    assert_eq!(paths(&listed, &world.root), [".hidden"]);
}

#[test]
fn gitignore_files_above_count_up_to_the_top_of_the_repository() {
    let world = World::new();
    world.write("root/.gitignore", "*.tmp\n");
    world.write("root/repo/.git/HEAD", "");
    world.write("root/repo/.gitignore", "*.log\n/sub/only\n");
    for name in ["a.tmp", "a.log", "only", "kept"] {
        world.write(&format!("root/repo/sub/{name}"), "needle");
    }
    let sub = world.root.join("repo/sub");
    let found = world.search(&json!({"text": "needle", "directory": sub}));
    assert_eq!(paths(&found, &sub), ["a.tmp", "kept"]);
    // Seen from above, the repository's own rules are the only ones below it.
    let found = world.search(&json!({"text": "needle"}));
    assert_eq!(paths(&found, &world.root), ["repo/sub/a.tmp", "repo/sub/kept"]);
}

#[test]
fn a_match_shows_its_line_its_place_and_the_lines_around() {
    let world = World::new();
    let path = world.write("root/file", "zero\r\none\r\ntwö Needle needle\r\nthree\r\n");
    let found = world.search(&json!({"text": "needle", "context_lines": 1}));
    let wanted = json!([{
        "path": path, "line": 3, "column": 12, "text": "twö Needle needle", "before": ["one"], "after": ["three"]
    }]);
    assert_eq!(found["matches"], wanted);
    let found = world.search(&json!({"text": "NEEDLE", "case_insensitive": true}));
    assert_eq!(found["matches"][0]["column"], 5);
    assert_eq!(world.search(&json!({"text": "n..dle"}))["matches"], json!([]));
}

#[test]
fn name_filters_of_a_search_include_and_exclude() {
    let world = World::new();
    for path in ["a.rs", "b.md", "vendor/c.rs", "vendor/deep/d.rs"] {
        world.write(&format!("root/{path}"), "needle");
    }
    for (input, wanted) in [
        (json!({"text": "needle", "include_glob": "*.rs"}), vec!["a.rs", "vendor/c.rs", "vendor/deep/d.rs"]),
        (json!({"text": "needle", "include_glob": "*.rs", "exclude_glob": "vendor"}), vec!["a.rs"]),
        (json!({"text": "needle", "exclude_glob": "vendor/**"}), vec!["a.rs", "b.md"]),
        (json!({"text": "needle", "exclude_glob": "*.rs"}), vec!["b.md"]),
    ] {
        assert_eq!(paths(&world.search(&input), &world.root), wanted, "{input}");
    }
}

/// Follows the cursors of a call to the end; gives the items and the sums of what was counted.
fn all_pages(world: &World, tool: ToolName, input: &Value, budget: ReceiptBudget) -> (Vec<Value>, Value) {
    let (mut items, mut input) = (Vec::new(), input.clone());
    let mut sums = serde_json::Map::new();
    loop {
        let answer = world.perform_within(tool, &input, budget);
        assert_eq!(answer["ok"], true, "{answer}");
        let page = answer["entries"].as_array().or_else(|| answer["matches"].as_array()).unwrap();
        items.extend(page.iter().cloned());
        let mut count = |name: &str, more: u64| {
            let sum = sums.get(name).and_then(Value::as_u64).unwrap_or(0) + more;
            sums.insert(name.to_owned(), json!(sum));
        };
        count("files_searched", answer["files_searched"].as_u64().unwrap_or(0));
        for (reason, more) in answer["skipped"].as_object().unwrap() {
            count(reason, more.as_u64().unwrap());
        }
        assert_eq!(answer["truncated"].as_bool().unwrap(), answer["next_cursor"].is_string());
        let Some(cursor) = answer["next_cursor"].as_str() else { return (items, Value::Object(sums)) };
        assert!(!page.is_empty(), "no progress: {answer}");
        input["cursor"] = json!(cursor);
    }
}

fn path_in_a_tree() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![Just("a"), Just("a-b"), Just("b"), Just("c\nd"), Just(".e"), Just("\"")],
        1..5,
    )
    .prop_map(|names| names.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn cursors_visit_everything_exactly_once(
        tree in proptest::collection::vec((path_in_a_tree(), 0_usize..5), 0..40),
        limit in 1_u64..8,
    ) {
        let world = World::new();
        for (path, lines) in tree {
            let path = world.root.join(path);
            // A name may be taken by a file already, or by a directory.
            if path.parent().is_some_and(|dir| std::fs::create_dir_all(dir).is_ok()) {
                let _ = std::fs::write(path, "x needle\ny\n".repeat(lines));
            }
        }
        for (tool, input) in [
            (ToolName::FindFiles, json!({"include_hidden": true})),
            (ToolName::FindFiles, json!({"name_contains": "a"})),
            (ToolName::SearchText, json!({"text": "needle", "context_lines": 1})),
        ] {
            let mut whole = input.clone();
            whole["limit"] = json!(1000);
            let (at_once, counted) = all_pages(&world, tool, &whole, ReceiptBudget::MAX);
            let mut paged = input.clone();
            paged["limit"] = json!(limit);
            let (in_pages, counted_in_pages) = all_pages(&world, tool, &paged, ReceiptBudget::MIN);
            prop_assert_eq!(&in_pages, &at_once);
            prop_assert_eq!(counted_in_pages, counted);
            let keys: Vec<_> = at_once.iter().map(|i| (i["path"].as_str().unwrap().to_owned(), i["line"].as_u64())).collect();
            let mut sorted = keys.clone();
            sorted.sort();
            sorted.dedup();
            prop_assert_eq!(keys, sorted);
        }
    }
}

#[test]
fn the_same_question_gets_the_same_answer_whatever_the_workers_do() {
    let world = World::new();
    for file in 0..400 {
        world.write(&format!("root/d{}/s{}/f{file}", file % 7, file % 3), "needle\n".repeat(file % 4));
    }
    let answer = |input: &Value| {
        let mut answer = world.search(input);
        answer["tool_call_id"] = Value::Null;
        answer
    };
    for input in [json!({"text": "needle", "limit": 17}), json!({"text": "needle", "limit": 1000})] {
        let first = answer(&input);
        for _ in 0..20 {
            assert_eq!(answer(&input), first);
        }
    }
}

#[test]
fn a_cursor_is_for_one_question_about_one_directory() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.write(&format!("root/dir/{name}"), "needle");
    }
    let dir = world.root.join("dir");
    let cursor = world.find(&json!({"directory": dir, "limit": 1}))["next_cursor"].clone();
    let other = json!({"directory": dir, "limit": 1, "extension": "rs", "cursor": cursor});
    let fault = executor_svc::tools::check(ToolName::FindFiles, &other).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("cursor"));
    std::fs::rename(&dir, world.root.join("old")).unwrap();
    std::fs::create_dir(&dir).unwrap();
    let receipt = world.find(&json!({"directory": dir, "limit": 1, "cursor": cursor}));
    assert_eq!(receipt["code"], "changed_meanwhile");
}

#[test]
fn a_walk_without_time_says_so_and_can_go_on() {
    let mut world = World::new();
    for name in 0..200 {
        world.write(&format!("root/d{}/f{name}", name % 9), "needle");
    }
    let (mut found, mut input) = (0, json!({"text": "needle", "limit": 1000}));
    world.deadline = std::time::Duration::from_millis(2);
    for _ in 0..10_000 {
        let answer = world.search(&input);
        if answer["code"] == "timed_out" {
            continue;
        }
        found += answer["matches"].as_array().unwrap().len();
        let Some(cursor) = answer["next_cursor"].as_str() else { break };
        assert_eq!(answer["truncated_by"], "time", "{answer}");
        input["cursor"] = json!(cursor);
    }
    assert_eq!(found, 200);
}
