//! Receipts keep within their budget, whatever they are about.

use executor_svc::tools::{self, ReceiptBudget, ToolName};
use gatehouse_proto::ids::ToolCallId;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn the_budget_is_shared_by_the_calls_of_a_reply() {
    for (calls, kib) in [(0, 64), (1, 64), (6, 64), (7, 54), (12, 32), (16, 24), (100, 24)] {
        assert_eq!(ReceiptBudget::for_calls(calls).bytes() / 1024, kib, "{calls}");
    }
}

#[test]
fn a_call_that_was_never_made_has_a_receipt_within_its_budget() {
    let text = "\u{1}\"é𝄞".repeat(40_000);
    let receipt = tools::cancelled_receipt(&ToolCallId::mint(), ToolName::Read, &text, ReceiptBudget::MIN);
    assert!(receipt.json.len() <= ReceiptBudget::MIN.bytes());
    let value: Value = serde_json::from_str(&receipt.json).unwrap();
    assert_eq!((value["code"].as_str(), value["detail"].as_str()), (Some("cancelled"), Some("not_invoked")));
    assert!(text.starts_with(value["message"].as_str().unwrap()));
}

#[test]
fn the_longest_paths_and_lines_leave_room_for_at_least_one_item() {
    let world = World::new();
    // Each of these characters takes six bytes in JSON.
    let mut dir = world.root.clone();
    for _ in 0..4 {
        dir = dir.join("\u{1}".repeat(200));
    }
    std::fs::create_dir_all(&dir).unwrap();
    for name in ["a", "b"] {
        let line = format!("{}needle{}\n", "\u{1}".repeat(3000), "\u{2}".repeat(3000));
        std::fs::write(dir.join(name), line.repeat(12)).unwrap();
    }
    let mut input = json!({"text": "needle", "context_lines": 5, "limit": 1000});
    let mut found = 0;
    loop {
        let answer = world.perform_within(ToolName::SearchText, &input, ReceiptBudget::MIN);
        let items = answer["matches"].as_array().unwrap();
        assert!(!items.is_empty(), "{answer}");
        found += items.len();
        let Some(cursor) = answer["next_cursor"].as_str() else { break };
        input["cursor"] = json!(cursor);
    }
    assert_eq!(found, 24);
    let deeper = dir.join("\u{1}".repeat(250));
    std::fs::create_dir(&deeper).unwrap();
    std::fs::write(deeper.join("c"), "needle").unwrap();
    assert_eq!(world.search(&json!({"text": "needle"}))["skipped"], json!({"path_too_long": 1}));
}

#[test]
fn a_refusal_with_an_endless_path_keeps_within_its_budget() {
    let world = World::new();
    for path in [format!("/{}", "\u{1}/".repeat(2000)), format!("/{}", "x".repeat(4000))] {
        let receipt = world.perform_within(ToolName::Read, &json!({"file_path": path}), ReceiptBudget::MIN);
        assert_eq!(receipt["ok"], false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_within_any_budget(
        piece in "([a-z]|\"|\\\\|\u{1}|é|𝄞|\r\n|\n|\t|http://a:b@c ){1,30}",
        times in 1_usize..3000,
        kib in 1_usize..70,
    ) {
        let world = World::new();
        let content = piece.repeat(times);
        let path = world.write("root/file", &content);
        let budget = ReceiptBudget::of_bytes(kib * 1024);
        let receipt = world.perform_within(ToolName::Read, &json!({"file_path": path}), budget);
        prop_assert_eq!(&receipt["ok"], true);
        let shown = receipt["content"].as_str().unwrap();
        if receipt["redacted_passwords"].is_null() {
            prop_assert!(content.replace("\r\n", "\n").starts_with(shown));
        }
        if receipt["truncated"] == true {
            // What is left would not have fitted: at least half the budget is used.
            prop_assert!(receipt.to_string().len() * 2 > budget.bytes());
        }
    }

    #[test]
    fn any_matches_fit_into_any_budget(
        line in "([a-z]|\"|\u{1}|é|𝄞){0,600}",
        names in proptest::collection::vec("(a|\"|é|\u{1}){1,40}", 1..6),
        kib in 1_usize..70,
    ) {
        let world = World::new();
        for name in names {
            world.write(&format!("root/{name}"), format!("{line}needle{line}\n").repeat(50));
        }
        let input = json!({"text": "needle", "context_lines": 3, "limit": 500});
        let answer = world.perform_within(ToolName::SearchText, &input, ReceiptBudget::of_bytes(kib * 1024));
        prop_assert_eq!(&answer["ok"], true);
        prop_assert!(!answer["matches"].as_array().unwrap().is_empty());
    }
}
