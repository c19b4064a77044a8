//! Replacing text in the bytes of a file, and nothing else.

use memchr::memmem;

use super::shown::{Endings, Shown};

/// How long the result is, about: what it is too long for must be known before room is made for it.
pub(super) fn spliced_len(bytes: &[u8], old: &str, new: &str, count: usize) -> usize {
    bytes
        .len()
        .saturating_sub(count.saturating_mul(old.len()))
        .saturating_add(count.saturating_mul(new.len()))
}

/// The bytes of the file with `new` in the place of each of the `count` places of `old`, as [`places`] has them.
///
/// What `old` and `new` begin and end with in common is not touched, so line ends and spellings there stay as they are.
pub(super) fn spliced(bytes: &[u8], shown: &Shown<'_>, old: &str, new: &str, count: usize) -> Vec<u8> {
    let (start, end) = common(old, new);
    let middle = &new[start..new.len() - end];
    let mut endings = Endings::new(shown);
    let mut out = Vec::with_capacity(bytes.len() + count * middle.len());
    let mut done = 0;
    for place in places(&shown.text, old) {
        let (from, to) = (place + start, place + old.len() - end);
        out.extend_from_slice(&bytes[done..shown.byte_at(from)]);
        endings.write(middle, from, to, &mut out);
        done = shown.byte_at(to);
    }
    out.extend_from_slice(&bytes[done..]);
    out
}

/// How many bytes two texts have in common at the start and, behind that, at the end; whole characters.
fn common(one: &str, other: &str) -> (usize, usize) {
    let equal = |pairs: &mut dyn Iterator<Item = (u8, u8)>| pairs.take_while(|(a, b)| a == b).count();
    let start = equal(&mut one.bytes().zip(other.bytes()));
    let start = one.floor_char_boundary(start).min(other.floor_char_boundary(start));
    let (one, other) = (&one[start..], &other[start..]);
    let end = equal(&mut one.bytes().rev().zip(other.bytes().rev()));
    let from_end = |text: &str| text.len() - text.ceil_char_boundary(text.len() - end);
    (start, from_end(one).min(from_end(other)))
}

/// Where `old` stands, from left to right, without overlap.
pub(super) fn places<'a>(text: &'a str, old: &'a str) -> impl Iterator<Item = usize> + 'a {
    memmem::find_iter(text.as_bytes(), old)
}

/// More places than this are not counted.
pub(super) const MOST_PLACES: usize = 10_000;

/// Where `old` stands, overlapping places included, at most one more than [`MOST_PLACES`].
pub(super) fn all_places(text: &str, old: &str) -> Vec<usize> {
    let finder = memmem::Finder::new(old);
    let step = old.chars().next().map_or(1, char::len_utf8);
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = text.as_bytes().get(at..).and_then(|rest| finder.find(rest)) {
        found.push(at + next);
        at += next + step;
        if found.len() > MOST_PLACES {
            break;
        }
    }
    found
}
