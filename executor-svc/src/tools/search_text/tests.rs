use proptest::prelude::*;

use super::scan::{Search, search_stream, search_whole};
use super::*;

fn needle(text: &str) -> Needle {
    Needle::new(text, Case::Sensitive).unwrap()
}

fn hits(content: &str, text: &str) -> Vec<(u64, u64)> {
    let needle = needle(text);
    let search = Search { needle: &needle, after: 0, enough: 100 };
    search_whole(content.as_bytes(), &search).unwrap().iter().map(|hit| (hit.line, hit.column)).collect()
}

#[test]
fn one_hit_for_each_line_with_the_column_of_the_first_in_characters() {
    assert_eq!(hits("ab\néxab ab\n\nab", "ab"), [(1, 1), (2, 3), (4, 1)]);
    assert_eq!(hits("\u{feff}ab", "ab"), [(1, 1)]);
    assert_eq!(hits("a\r\nb\r\n", "b"), [(2, 1)]);
    assert_eq!(hits("", "b"), []);
}

#[test]
fn binary_and_broken_files_are_told_apart() {
    let needle = needle("x");
    let search = Search { needle: &needle, after: 0, enough: 9 };
    assert_eq!(search_whole(b"x\0", &search), Err(Reason::Binary));
    assert_eq!(search_whole(b"x\xff", &search), Err(Reason::NotUtf8));
}

/// Searches as if the file came in blocks of `block` bytes.
fn streamed(content: &[u8], search: &Search<'_>, block: usize) -> Result<Vec<Hit>, Reason> {
    let mut rest = content;
    let fill = |space: &mut [u8]| {
        let got = rest.len().min(space.len()).min(block);
        space[..got].copy_from_slice(&rest[..got]);
        rest = &rest[got..];
        Ok(got)
    };
    search_stream(&mut Vec::new(), fill, search)
}

#[test]
fn a_line_longer_than_any_window_is_searched_through() {
    let mut content = "é".repeat(3 * WINDOW);
    let at = content.len() - 11;
    content.replace_range(at - 1..=at, "ab");
    content.push_str("\nab\n");
    let needle = needle("ab");
    let search = Search { needle: &needle, after: 0, enough: 9 };
    let found = streamed(content.as_bytes(), &search, usize::MAX).unwrap();
    assert_eq!(found, search_whole(content.as_bytes(), &search).unwrap());
    assert_eq!(
        found.iter().map(|hit| (hit.line, hit.column)).collect::<Vec<_>>(),
        [(1, 3 * WINDOW as u64 - 5), (2, 1)]
    );
}

#[test]
fn an_excerpt_shows_the_hit_of_a_long_line_and_whole_short_ones() {
    let long = format!("{}needle{}\nnext\n", "é".repeat(5000), "x".repeat(5000));
    let content = format!("first\r\n{long}");
    let needle = needle("needle");
    let search = Search { needle: &needle, after: 0, enough: 9 };
    let hit = search_whole(content.as_bytes(), &search).unwrap()[0];
    let shown = excerpt(Source::Memory(content.as_bytes()), &hit, 2);
    assert!(shown.text.contains("needle") && shown.text.len() <= 1024, "{}", shown.text.len());
    assert_eq!((hit.column, shown.text_column, shown.text_cut), (5001, 4921, true));
    assert_eq!((shown.before, shown.after), (vec!["first".to_owned()], vec!["next".to_owned()]));
}

#[test]
fn lines_around_a_hit_stop_at_the_ends_of_the_file() {
    let content = "a\nb\nhit\n";
    let needle = needle("hit");
    let search = Search { needle: &needle, after: 0, enough: 9 };
    let hit = search_whole(content.as_bytes(), &search).unwrap()[0];
    let shown = excerpt(Source::Memory(content.as_bytes()), &hit, 5);
    assert_eq!((shown.before, shown.after), (vec!["a".to_owned(), "b".to_owned()], vec![]));
    assert_eq!((shown.text.as_str(), shown.text_column, shown.text_cut), ("hit", 1, false));
}

proptest! {
    #[test]
    fn a_streamed_file_gives_the_same_hits(
        content in "\u{feff}?(a|b|ab|é|\n|\r\n|\u{fffd}){0,60}",
        broken in proptest::option::of(0_usize..60),
        block in 1_usize..7,
        after in 0_u64..4,
        enough in 1_usize..5,
    ) {
        let mut content = content.into_bytes();
        if let Some(at) = broken.filter(|at| *at < content.len()) {
            content[at] = 0xff;
        }
        let needle = needle("ab");
        let search = Search { needle: &needle, after, enough };
        prop_assert_eq!(streamed(&content, &search, block), search_whole(&content, &search));
    }

    #[test]
    fn hits_are_what_a_search_line_by_line_finds(content in "(a|b|é|ß|\n){0,60}", text in "(a|b|é){1,3}", fold in any::<bool>()) {
        let case = if fold { Case::Insensitive } else { Case::Sensitive };
        let content = if fold { content.to_uppercase() } else { content };
        let needle = Needle::new(&text, case).unwrap();
        let search = Search { needle: &needle, after: 0, enough: 100 };
        let found: Vec<_> = search_whole(content.as_bytes(), &search).unwrap().iter().map(|h| (h.line, h.column)).collect();
        let text = if fold { text.to_uppercase() } else { text };
        let mut wanted = Vec::new();
        for (line, number) in content.split('\n').zip(1_u64..) {
            if let Some(at) = line.find(&text) {
                wanted.push((number, line[..at].chars().count() as u64 + 1));
            }
        }
        prop_assert_eq!(found, wanted);
    }
}

#[test]
fn a_byte_order_mark_is_no_line_before_the_first() {
    let content = "\u{feff}alpha\nbeta\n";
    let needle = needle("alpha");
    let search = Search { needle: &needle, after: 0, enough: 9 };
    let hit = search_whole(content.as_bytes(), &search).unwrap()[0];
    let shown = excerpt(Source::Memory(content.as_bytes()), &hit, 2);
    assert_eq!((shown.text.as_str(), shown.before.len(), shown.after), ("alpha", 0, vec!["beta".to_owned()]));
}
