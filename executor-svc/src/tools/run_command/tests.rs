use std::time::Duration;

use gatehouse_sandbox::launch::Usage;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::commands::{Kept, KeptOutput};

fn kept(bytes: &[u8]) -> KeptOutput {
    let mut kept = Kept::default();
    bytes.chunks(10_000).for_each(|chunk| kept.push(chunk));
    kept.finish()
}

fn finished(exit: Exit, stopped_by: StoppedBy, stdout: &[u8], stderr: &[u8]) -> Finished {
    Finished {
        exit,
        stopped_by,
        took: Duration::from_millis(12),
        usage: Usage { peak_memory_bytes: 4096, ..Usage::default() },
        stdout: kept(stdout),
        stderr: kept(stderr),
        enforced_by: vec!["userns".into(), "seccomp".into()],
        hidden: HiddenCount { below_root: 2, cut: false },
    }
}

fn receipt(finished: &Finished, budget: ReceiptBudget) -> (Receipt, Value) {
    let receipt = command_receipt(&ToolCallId::mint(), budget, finished);
    assert!(receipt.json.len() <= budget.bytes(), "{} bytes", receipt.json.len());
    let value = serde_json::from_str(&receipt.json).unwrap();
    (receipt, value)
}

#[test]
fn a_command_that_ends_well_says_what_it_took_and_what_confined_it() {
    let (receipt, value) =
        receipt(&finished(Exit::Code(0), StoppedBy::Itself, b"out\n", b""), ReceiptBudget::MAX);
    assert!(receipt.ok && receipt.code.is_none());
    for (field, wanted) in [
        ("exit_code", json!(0)),
        ("signal", json!(null)),
        ("timed_out", json!(false)),
        ("duration_ms", json!(12)),
        ("peak_memory_bytes", json!(4096)),
        ("stdout", json!("out\n")),
        ("stderr", json!("")),
        ("dropped", json!({"stdout": 0, "stderr": 0})),
        ("enforced_by", json!(["userns", "seccomp"])),
        ("hidden", json!({"paths": 2, "scan_cut": false})),
    ] {
        assert_eq!(value[field], wanted, "{field}");
    }
}

#[test]
fn each_end_has_its_code_and_keeps_the_output() {
    for (exit, by, code) in [
        (Exit::Code(3), StoppedBy::Itself, ActionCode::CommandFailed),
        (Exit::Signal(11), StoppedBy::Itself, ActionCode::CommandFailed),
        (Exit::Signal(15), StoppedBy::TimeLimit, ActionCode::TimedOut),
        (Exit::TornDown, StoppedBy::OutputLimit, ActionCode::OutputCut),
        (Exit::TornDown, StoppedBy::ScratchFull, ActionCode::DiskFull),
        (Exit::TornDown, StoppedBy::Cancel, ActionCode::Cancelled),
        (Exit::TornDown, StoppedBy::Itself, ActionCode::Cancelled),
    ] {
        let (receipt, value) = receipt(&finished(exit, by, b"o", b"e"), ReceiptBudget::MIN);
        assert!(!receipt.ok && receipt.code == Some(code), "{exit:?} {by:?}: {value}");
        assert_eq!((value["ok"].clone(), value["stdout"].clone()), (json!(false), json!("o")));
        assert_eq!(value["code"], code.as_str());
        assert_eq!(value["timed_out"], by == StoppedBy::TimeLimit);
        assert!(value["message"].as_str().is_some_and(|text| !text.is_empty()), "{value}");
        assert_eq!(value["exit_code"].is_null(), value["signal"].is_string(), "{value}");
    }
}

#[test]
fn long_output_keeps_whole_lines_of_beginning_and_end() {
    let lines: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
    let (_, value) =
        receipt(&finished(Exit::Code(0), StoppedBy::Itself, lines.as_bytes(), b"short"), ReceiptBudget::MIN);
    let (text, dropped) = (value["stdout"].as_str().unwrap(), value["dropped"]["stdout"].as_u64().unwrap());
    assert!(text.starts_with("line 0\nline 1\n") && text.ends_with("line 99998\nline 99999\n"));
    let mark = format!("[... {dropped} bytes left out ...]\n");
    assert_eq!(text.matches(&mark).count(), 1);
    assert_eq!(text.len() - mark.len() + usize::try_from(dropped).unwrap(), lines.len());
    assert!(text.lines().all(|line| line.starts_with("line ") || line.starts_with("[...")));
    assert!(text.len() > 20_000, "the room is used: {}", text.len());
    assert_eq!(value["stderr"], "short");
}

#[test]
fn one_endless_line_is_cut_between_characters() {
    let line = "ä".repeat(300_000);
    let (_, value) =
        receipt(&finished(Exit::Code(0), StoppedBy::Itself, line.as_bytes(), b""), ReceiptBudget::MIN);
    let text = value["stdout"].as_str().unwrap();
    assert!(text.starts_with("ää") && text.ends_with("ää") && text.contains("bytes left out"));
}

#[test]
fn passwords_in_urls_are_taken_out_and_counted() {
    let (_, value) = receipt(
        &finished(Exit::Code(0), StoppedBy::Itself, b"https://u:hunter2@host/\n", b"http://a:geheim@b"),
        ReceiptBudget::MAX,
    );
    assert_eq!(value["redacted_passwords"], 2);
    assert!(!value.to_string().contains("hunter2") && !value.to_string().contains("geheim"));
}

#[test]
fn an_input_that_does_not_fit_is_named() {
    let field = |input: Value| check(&input).expect_err("refused").field;
    for (input, at) in [
        (json!({}), "argv"),
        (json!({"argv": []}), "argv"),
        (json!({"argv": [""]}), "argv"),
        (json!({"argv": ["a", 1]}), "argv"),
        (json!({"argv": ["a\u{0}"]}), "argv"),
        (json!({"argv": "ls -l"}), "argv"),
        (json!({"argv": vec!["x"; 5000]}), "argv"),
        (json!({"argv": ["ls"], "cwd": "relative"}), "cwd"),
        (json!({"argv": ["ls"], "timeout_seconds": 1801}), "timeout_seconds"),
        (json!({"argv": ["ls"], "timeout_seconds": 0}), "timeout_seconds"),
        (json!({"argv": ["ls"], "env": {"PATH": "/x"}}), "env"),
        (json!({"argv": ["ls"], "env": {"LD_PRELOAD": "/x"}}), "env"),
        (json!({"argv": ["ls"], "env": {"CI": 1}}), "env"),
        (json!({"argv": ["ls"], "env": {"CI": "a\u{0}"}}), "env"),
        (json!({"argv": ["ls"], "stdin": 1}), "stdin"),
    ] {
        assert_eq!(field(input.clone()).as_deref(), Some(at), "{input}");
    }
    let whole = json!({"argv": ["ls", "", "-l\n"], "cwd": "/x", "stdin": "a\nb", "timeout_seconds": 5, "env": {"CI": "1"}});
    assert_eq!(serde_json::to_value(check(&whole).unwrap()).unwrap(), whole);
}

proptest! {
    #[test]
    fn every_receipt_fits_and_counts_what_it_leaves_out(
        out in prop::collection::vec(any::<u8>(), 0..60_000),
        err in "(a|\n|\"|é|\u{1}){0,20000}",
        calls in 1usize..17,
    ) {
        let budget = ReceiptBudget::for_calls(calls);
        let (_, value) = receipt(&finished(Exit::Code(1), StoppedBy::Itself, &out, err.as_bytes()), budget);
        let text = value["stderr"].as_str().unwrap();
        match value["dropped"]["stderr"].as_u64().unwrap() {
            0 => prop_assert_eq!(text, err),
            dropped => {
                let mark = format!("[... {dropped} bytes left out ...]\n");
                let (head, tail) = text.split_once(&mark).unwrap();
                let shown = head.len() + tail.len();
                let total = shown as u64 + dropped;
                // One line end may have been put before the mark.
                prop_assert!(total == err.len() as u64 || total == err.len() as u64 + 1);
                prop_assert!(err.ends_with(tail) && err.starts_with(head.strip_suffix('\n').unwrap_or(head)));
            }
        }
    }
}
