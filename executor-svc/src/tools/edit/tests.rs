use gatehouse_proto::digest::sha256_hex;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn input(old: &str, new: &str) -> EditInput {
    let checked = check(&json!({"file_path": "/f", "old_string": old, "new_string": new})).unwrap();
    let again = serde_json::to_value(&checked).unwrap();
    assert_eq!(check(&again).unwrap(), checked, "the input comes back unchanged");
    checked
}

fn all(old: &str, new: &str) -> EditInput {
    EditInput { replace_all: Some(true), ..input(old, new) }
}

fn plan(input: &EditInput, before: Option<&[u8]>) -> Result<Planned, PlanFault> {
    super::plan(input, before, 64 << 20)
}

fn edited(input: &EditInput, before: &[u8]) -> Vec<u8> {
    match plan(input, Some(before)).unwrap().bytes {
        NewBytes::Replaced(bytes) => bytes,
        NewBytes::Unchanged => before.to_vec(),
    }
}

fn miss(before: &str, old: &str) -> String {
    let fault = plan(&input(old, "x"), Some(before.as_bytes())).unwrap_err();
    assert_eq!(fault.code, ActionCode::OldStringMissing, "{fault}");
    fault.message
}

#[test]
fn line_ends_stay_as_they_are_and_new_ones_are_like_their_neighbours() {
    for (before, old, new, after) in [
        ("a\nb\n", "a\nb", "a\nx\nb", "a\nx\nb\n"),
        ("a\r\nb\r\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\r\nx\r\nb", "a\r\nx\r\nb\r\n"),
        ("a\nb\n", "a\r\nb", "a\r\nx", "a\nx\n"),
        // Mixed: what is kept is kept byte for byte, what is new goes with what goes, or with what follows.
        ("a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\r\n"),
        ("a\r\nb\nc\r\n", "b\nc\n", "x\ny\n", "a\r\nx\ny\r\n"),
        ("a\nb\r\n", "a", "a\nx", "a\nx\nb\r\n"),
        ("a\nb\r\nc", "b", "b\nx", "a\nb\r\nx\r\nc"),
        ("a\r\nb", "b", "b\nx", "a\r\nb\r\nx"),
        ("ab", "ab", "a\nb", "a\nb"),
        // CR only.
        ("a\rb\r", "a\rb", "a\nx\nb", "a\rx\rb\r"),
        ("a\rb\r", "a\nb", "c\nd", "c\rd\r"),
        // A lone CR is a character where LF ends lines, and CR CR LF is one before a line end.
        ("a\rb\n", "\rb", "c", "ac\n"),
        ("a\r\r\nb", "a\r\nb", "a\r\nx", "a\r\r\nx"),
        ("a\r\r\nb", "\r\n", "\n", "a\r\nb"),
    ] {
        let bytes = edited(&input(old, new), before.as_bytes());
        assert_eq!(String::from_utf8(bytes).unwrap(), after, "{before:?} {old:?} {new:?}");
    }
}

#[test]
fn byte_order_mark_and_final_newline_stay_as_they_are() {
    assert_eq!(edited(&input("a", "b"), b"\xef\xbb\xbfa"), b"\xef\xbb\xbfb");
    assert_eq!(edited(&input("a\r\n", "b\n"), b"\xef\xbb\xbfa\r\nx"), b"\xef\xbb\xbfb\r\nx");
    assert_eq!(edited(&input("b", "c"), b"a\nb"), b"a\nc");
    assert_eq!(edited(&input("b\n", "c"), b"a\nb\n"), b"a\nc");
    assert_eq!(edited(&input("a", ""), b"a"), b"");
}

#[test]
fn a_replacement_by_the_same_writes_nothing() {
    for (before, same) in [("a\nb", "a\nb"), ("a\r\nb", "a\nb"), ("a\r\nb", "a\r\nb"), ("a\rb", "a\nb")] {
        let planned = plan(&input(same, same), Some(before.as_bytes())).unwrap();
        assert_eq!(planned.bytes, NewBytes::Unchanged, "{before:?}");
        assert_eq!(planned.facts, Facts::Edit { replacements: 1 });
    }
    assert_eq!(plan(&input("c", "c"), Some(b"a")).unwrap_err().code, ActionCode::OldStringMissing);
}

#[test]
fn what_is_there_more_than_once_is_ambiguous_and_the_places_are_named() {
    let fault = plan(&input("ab", "x"), Some(b"ab\n\nab ab\n")).unwrap_err();
    assert_eq!(fault.code, ActionCode::OldStringAmbiguous);
    assert!(fault.message.ends_with("is there 3 times, in lines 1, 3"), "{fault}");
    // Overlapping places are two as well.
    assert!(plan(&input("aa", "x"), Some(b"aaa")).unwrap_err().message.contains("2 times"));
    assert_eq!(edited(&all("aa", "x"), b"aaa"), b"xa");
    let many = plan(&input("a", "x"), Some("a\n".repeat(20_000).as_bytes())).unwrap_err().message;
    assert!(many.contains("more than 10000 times") && many.ends_with("19, 20, …"), "{many}");
}

#[test]
fn all_occurrences_are_replaced_at_once_also_very_many_in_one_huge_line() {
    let before = "ab".repeat(500_000);
    let planned = plan(&all("a", "c\n"), Some(before.as_bytes())).unwrap();
    assert_eq!(planned.facts, Facts::Edit { replacements: 500_000 });
    assert_eq!(planned.bytes, NewBytes::Replaced("c\nb".repeat(500_000).into_bytes()));
    let planned = plan(&all("a\n", "b\n"), Some("a\r\n".repeat(300_000).as_bytes())).unwrap();
    assert_eq!(planned.bytes, NewBytes::Replaced("b\r\n".repeat(300_000).into_bytes()));
}

#[test]
fn files_that_are_missing_changed_or_no_text_are_refused() {
    let code = |input: &EditInput, before: Option<&[u8]>| plan(input, before).unwrap_err().code;
    assert_eq!(code(&input("a", "b"), None), ActionCode::NotFound);
    assert_eq!(code(&input("a", "b"), Some(b"a\xff")), ActionCode::NotUtf8);
    assert!(plan(&input("a", "b"), Some(b"a\xff")).unwrap_err().message.contains("offset 1"));
    let expecting = EditInput { expected_sha256: Some(sha256_hex(b"a")), ..input("a", "b") };
    assert_eq!(edited(&expecting, b"a"), b"b");
    assert_eq!(code(&expecting, Some(b"a ")), ActionCode::ChangedMeanwhile);
}

#[test]
fn an_empty_old_string_is_no_input() {
    let fault = check(&json!({"file_path": "/f", "old_string": "", "new_string": "x"})).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("old_string"));
    assert!(check(&json!({"file_path": "/f", "old_string": "a"})).is_err());
    assert!(check(&json!({"file_path": "f", "old_string": "a", "new_string": ""})).is_err());
}

#[test]
fn a_miss_tells_what_differs_and_where() {
    let file = "one\n\tif x {\n\t\tcall(a, b);\n\t}\nlet caf\u{e9} = \"x\";\nLast Line";
    for (old, wanted) in [
        (
            "    if x {\n        call(a, b);",
            "only white space differs, near line 2 (tabs where old_string has spaces)",
        ),
        ("call(a,  b)", "only white space differs, near line 3"),
        ("Last Line\n", "only white space differs, near line 6 (the file has no line end at its end)"),
        ("let cafe\u{301} = \"x\"", "only the Unicode form of some characters differs, near line 5"),
        (
            "let caf\u{e9} = \u{201c}x\u{201d}",
            "only the Unicode form of some characters differs, near line 5",
        ),
        ("last line", "only upper and lower case differ, near line 6"),
        ("LET  CAFE\u{301}", "white space, Unicode form or case differ, near line 5"),
        ("\\tif x {\\n", "without its backslashes it is, in line 2"),
        (
            "\tif x {\n\t\tcall(a, c);\n\t}",
            "what comes nearest differs in line 3, which is: call(a, b); (not: call(a, c);)",
        ),
        ("let caf\u{e9} = \"y\";", "what comes nearest differs in line 5"),
        ("Last Line\nand more", "what comes nearest ends with the file, before: and more"),
        ("zzzzzzzzzzzz", "nor anything like it"),
    ] {
        let message = miss(file, old);
        assert!(message.contains(wanted), "{old:?}: {message}");
    }
}

#[test]
fn a_miss_on_what_read_left_out_says_so() {
    let fault =
        plan(&input("postgres://bob:[redacted]@db", "x"), Some(b"postgres://bob:sesame@db")).unwrap_err();
    assert!(fault.hint.contains("[redacted]") && !fault.message.contains("sesame"), "{fault:?}");
    assert!(!miss("postgres://bob:sesame@db/x\n", "postgres://Bob:sesame@db/x").contains("sesame"));
}

#[test]
fn a_miss_in_a_huge_file_is_told_within_bounded_time() {
    let started = std::time::Instant::now();
    let file = "x ".repeat(10 * 1024 * 1024);
    assert!(plan(&input(&"y".repeat(700_000), ""), Some(file.as_bytes())).is_err());
    let lines = "almost the same line as wanted\n".repeat(400_000);
    assert!(
        plan(&input(&"almost the same line, as wanted\n".repeat(20_000), ""), Some(lines.as_bytes()))
            .is_err()
    );
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

/// Text as an editor thinks of it: characters, and line ends of either kind.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[abé€𝄞 \t]".prop_map(|s| s),
        1 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn shown(bytes: &[u8]) -> String {
    Shown::new(bytes).unwrap().text.into_owned()
}

/// Whether `rest` begins with `new`, each line end of it in either form; what is behind it.
fn behind<'a>(mut rest: &'a [u8], new: &str) -> Option<&'a [u8]> {
    for c in new.chars() {
        let mut buffer = [0; 4];
        rest = if c == '\n' {
            rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"))?
        } else {
            rest.strip_prefix(c.encode_utf8(&mut buffer).as_bytes())?
        };
    }
    Some(rest)
}

/// Where a text that is shown with LF stands in the bytes, found the slow way.
fn slow_places(bytes: &[u8], old: &str) -> Vec<(usize, usize)> {
    let (mut found, mut at) = (Vec::new(), if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 });
    while at < bytes.len() {
        let splits_line_end = bytes[at] == b'\n' && at > 0 && bytes[at - 1] == b'\r';
        match behind(&bytes[at..], old).filter(|_| !splits_line_end) {
            Some(rest) => {
                found.push((at, bytes.len() - rest.len()));
                at = bytes.len() - rest.len();
            }
            None => at += 1,
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2_000)))]
    #[test]
    fn an_edit_changes_what_it_names_and_no_other_byte(
        text in text(),
        old in "[abé€\n ]{1,3}",
        new in "[abé€𝄞\n]{0,4}",
        mark in any::<bool>(),
        every in any::<bool>(),
        crlf in any::<bool>(),
    ) {
        let before = [if mark { "\u{feff}" } else { "" }, &text].concat().into_bytes();
        let given = |text: &str| if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
        let input = EditInput { replace_all: Some(every), ..input(&given(&old), &given(&new)) };
        let places = slow_places(&before, &old);
        match plan(&input, Some(&before)) {
            Ok(planned) => {
                let after = match planned.bytes {
                    NewBytes::Replaced(after) => after,
                    NewBytes::Unchanged => before.clone(),
                };
                prop_assert_eq!(planned.facts, Facts::Edit { replacements: places.len() });
                prop_assert_eq!(shown(&after), shown(&before).replace(&old, &new));
                let (mut rest, mut done) = (after.as_slice(), 0);
                for (start, end) in places {
                    let kept = &before[done..start];
                    prop_assert!(rest.starts_with(kept), "{:?} {:?}", rest, kept);
                    rest = behind(&rest[kept.len()..], &new).unwrap();
                    done = end;
                }
                prop_assert_eq!(rest, &before[done..]);
                let one_kind = |bytes: &[u8]| {
                    let text = std::str::from_utf8(bytes).unwrap();
                    let (lf, crlf) = (text.matches('\n').count(), text.matches("\r\n").count());
                    (lf > 0 && crlf == 0, lf > 0 && lf == crlf)
                };
                let (lf, crlf) = one_kind(&before);
                prop_assert!(!lf || !after.contains(&b'\r'));
                prop_assert!(!crlf || one_kind(&after) == (false, true) || !after.contains(&b'\n'));
            }
            Err(fault) if fault.code == ActionCode::OldStringMissing => prop_assert!(places.is_empty()),
            Err(fault) => {
                prop_assert_eq!(fault.code, ActionCode::OldStringAmbiguous);
                prop_assert!(!every);
                prop_assert!(slow_overlapping(&before, &old) > 1);
            }
        }
    }

    #[test]
    fn whatever_the_texts_are_a_miss_has_an_explanation(text in "[ab\\\\ \t\ré\u{301}\u{feff}“\"\n]{0,60}", old in "[ab\\\\ \té\"\nn]{1,20}") {
        if let Err(fault) = plan(&input(&old, ""), Some(text.as_bytes())) {
            prop_assert!(!fault.message.is_empty() && !fault.hint.is_empty());
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_never_changed(bytes in proptest::collection::vec(any::<u8>(), 0..40), old in "[ -~]{1,2}") {
        let result = plan(&all(&old, "x"), Some(&bytes));
        if std::str::from_utf8(&bytes).is_err() {
            prop_assert_eq!(result.unwrap_err().code, ActionCode::NotUtf8);
        }
    }
}

fn slow_overlapping(bytes: &[u8], old: &str) -> usize {
    let text = shown(bytes);
    text.char_indices().filter(|(at, _)| text[*at..].starts_with(old)).count()
}

#[test]
fn a_result_that_is_too_large_is_refused_before_there_is_room_for_it() {
    let (file, many) = ("a".repeat(700_000), "b".repeat(700_000));
    let fault = plan(&all("a", &many), Some(file.as_bytes())).unwrap_err();
    assert_eq!(fault.code, ActionCode::TooLarge, "{fault}");
    assert!(fault.message.contains("490000000000"), "{fault}");
    let fits = super::plan(&all("a", "bb"), Some(b"aa"), 4).unwrap();
    assert_eq!(fits.bytes, NewBytes::Replaced(b"bbbb".to_vec()));
    assert_eq!(super::plan(&all("a", "bb"), Some(b"aa"), 3).unwrap_err().code, ActionCode::TooLarge);
}
