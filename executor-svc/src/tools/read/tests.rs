use proptest::prelude::*;

use super::range::{Range, Taken};
use super::*;

fn taken(text: &str, wanted: &Wanted, blocks: usize) -> Taken {
    let mut range = Range::new(wanted);
    for block in text.as_bytes().chunks(blocks) {
        range.feed(block, wanted);
    }
    range.finish()
}

fn wanted(line: u64, column: u64, lines: u64, bytes: usize) -> Wanted {
    Wanted { line, column, lines, bytes }
}

fn shown(text: &str, line: u64, column: u64, lines: u64) -> String {
    let taken = taken(text, &wanted(line, column, lines, 10_000), 3);
    render(&taken, Next { line, column }, 10_000).content
}

#[test]
fn lines_and_columns_count_from_one_and_columns_count_characters() {
    let text = "one\ntwö three\r\n\nlast";
    assert_eq!(shown(text, 1, 1, u64::MAX), "one\ntwö three\n\nlast");
    assert_eq!(shown(text, 2, 1, 1), "twö three\n");
    assert_eq!(shown(text, 2, 4, 1), " three\n");
    assert_eq!(shown(text, 2, 3, 2), "ö three\n\n");
    assert_eq!(shown(text, 1, 99, 2), "\ntwö three\n");
    assert_eq!(shown(text, 4, 2, 9), "ast");
    assert_eq!(shown(text, 5, 1, 9), "");
}

#[test]
fn a_secret_is_recognised_although_the_range_begins_or_ends_inside_it() {
    let text = "x = postgres://bob:sesame-open@db/x\n";
    let at = text.find("same").unwrap() as u64;
    assert_eq!(shown(text, 1, at + 1, 1), "[redacted]@db/x\n");
    let long = format!("{}{text}", "a".repeat(200));
    let taken = taken(&long, &wanted(1, 1, 9, 100), 7);
    let rendered = render(&taken, Next { line: 1, column: 1 }, 222);
    assert!(!rendered.content.contains("ses"), "{}", rendered.content);
}

/// Reads a text page by page, as a caller would.
fn paged(text: &str, room: usize, lines: u64, block: usize) -> (String, usize) {
    let (mut all, mut pages) = (String::new(), 0);
    let mut next = Some(Next { line: 1, column: 1 });
    while let Some(start) = next {
        let range = wanted(start.line, start.column, lines, room);
        let mut collecting = Range::new(&range);
        text.as_bytes().chunks(block).for_each(|block| collecting.feed(block, &range));
        let more = collecting.is_done() && collecting.consumed() < text.len() as u64;
        let rendered = render(&collecting.finish(), start, room);
        let after = more.then_some(Next { line: start.line + rendered.lines, column: 1 });
        all.push_str(&rendered.content);
        pages += 1;
        let following = rendered.cut.or(after);
        assert_ne!(following, Some(start), "no progress in {text:?}");
        next = following;
    }
    (all, pages)
}

proptest! {
    #[test]
    fn pages_make_up_the_whole_text(
        text in "([a-c]|é|𝄞|\"|\u{1}|\n|\r\n|\r){0,80}",
        room in 12_usize..60,
        lines in 1_u64..6,
        block in 1_usize..9,
    ) {
        prop_assert_eq!(paged(&text, room, lines, block).0, text.replace("\r\n", "\n"));
    }

    #[test]
    fn a_page_keeps_within_its_room_and_ends_with_a_line_where_one_fits(text in "([a-c]|é|\"|\u{1}|\n){0,80}", room in 12_usize..60) {
        let taken = taken(&text, &wanted(1, 1, u64::MAX, room), 5);
        let rendered = render(&taken, Next { line: 1, column: 1 }, room);
        prop_assert!(serde_json::to_string(&rendered.content).unwrap().len() <= room + 2);
        if rendered.cut.is_some() && rendered.content.contains('\n') {
            prop_assert!(rendered.content.ends_with('\n'));
        }
    }
}
