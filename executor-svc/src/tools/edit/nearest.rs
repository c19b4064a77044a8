//! Where a text that was not found nearly is, and what differs. The effort is bounded whatever the texts are.

use std::collections::{HashMap, HashSet};

use memchr::memmem;
use unicode_normalization::UnicodeNormalization;

use crate::tools::diff::excerpt;
use crate::tools::redact::REDACTED;

/// How much of a file is looked at, in bytes.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// How much of a line is quoted, in bytes of JSON.
const QUOTED: usize = 300;
/// How much of a line is compared piece by piece, in bytes.
const COMPARED: usize = 1_000;

/// What else is to be said of a text that is not in the file, and what to do.
pub(super) fn explain(text: &str, old: &str) -> (String, String) {
    let whole = text.len();
    let text = &text[..text.floor_char_boundary(MOST_BYTES)];
    if old.contains(REDACTED) {
        return (
            String::new(),
            "Read shows passwords in URLs as [redacted]; they are not so in the file. Choose text beside them.".to_owned(),
        );
    }
    if let Some(found) = unescaped(text, old) {
        return found;
    }
    let looks = [
        (Look::Spaces, "only white space differs"),
        (Look::Letters, "only the Unicode form of some characters differs"),
        (Look::Case, "only upper and lower case differ"),
        (Look::All, "white space, Unicode form or case differ"),
    ];
    for (look, what) in looks {
        if let Some(at) = find_alike(text, old, look) {
            return told(text, old, at, what);
        }
    }
    if let Some((line, wanted)) = by_lines(text, old).or_else(|| by_pieces(text, old)) {
        return differing_line(text, line, &wanted);
    }
    let within = if text.len() == whole { "" } else { " in its first 2 MiB" };
    (
        format!(", nor anything like it{within}"),
        "Read the file again; the text must match exactly.".to_owned(),
    )
}

/// A text that was escaped once too often: `\n` as two characters, `\"` for a quote.
fn unescaped(text: &str, old: &str) -> Option<(String, String)> {
    if !old.contains('\\') {
        return None;
    }
    let plain = old.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"").replace("\\\\", "\\");
    let at = memmem::find(text.as_bytes(), plain.as_bytes())?;
    let line = line_of(text, at);
    Some((
        format!("; without its backslashes it is, in line {line}"),
        "It was escaped once too often: give line breaks, tabs and quotes as themselves.".to_owned(),
    ))
}

/// What is overlooked when two texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Spaces,
    Letters,
    Case,
    All,
}

/// Where the text begins that is like `old` when something is overlooked.
fn find_alike(text: &str, old: &str, look: Look) -> Option<usize> {
    let mut wanted = String::new();
    old.chars().for_each(|c| push_seen(&mut wanted, c, look));
    if wanted.is_empty() {
        return None;
    }
    let mut reduced = String::with_capacity(text.len());
    // Where in the text each stretch of the reduced text comes from; one for each place where they part.
    let mut origins: Vec<(usize, usize)> = Vec::new();
    for (at, c) in text.char_indices() {
        let (start, shift) = (reduced.len(), at.wrapping_sub(reduced.len()));
        push_seen(&mut reduced, c, look);
        if reduced.len() > start && origins.last().is_none_or(|(_, last)| *last != shift) {
            origins.push((start, shift));
        }
    }
    let found = memmem::find(reduced.as_bytes(), wanted.as_bytes())?;
    let (_, shift) = origins[origins.partition_point(|(start, _)| *start <= found).checked_sub(1)?];
    Some(text.floor_char_boundary(found.wrapping_add(shift)))
}

/// Adds a character as it is compared: nothing, itself, or what it stands for.
fn push_seen(out: &mut String, c: char, look: Look) {
    match look {
        Look::Spaces | Look::All if c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}') => {}
        Look::Spaces => out.push(c),
        Look::Letters => plain(c, |c| out.push(c)),
        Look::Case => out.extend(c.to_lowercase()),
        Look::All => plain(c, |c| out.extend(c.to_lowercase())),
    }
}

/// A character without its form: compatibility forms taken apart, and what typography makes of quotes and dashes undone.
fn plain(c: char, mut put: impl FnMut(char)) {
    match c {
        _ if c.is_ascii() => put(c),
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2032}' => put('\''),
        '\u{201c}' | '\u{201d}' | '\u{201f}' | '\u{2033}' => put('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => put('-'),
        '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{fe0e}' | '\u{fe0f}' => {}
        _ => std::iter::once(c).nfkd().for_each(put),
    }
}

fn told(text: &str, old: &str, at: usize, what: &str) -> (String, String) {
    let line = line_of(text, at);
    let detail = if what.contains("white space") { space_detail(text, old, line) } else { String::new() };
    let is = excerpt(text.split('\n').nth(line - 1).unwrap_or_default(), QUOTED);
    (
        format!("; {what}, near line {line}{detail}, which is: {is}"),
        "Copy the text from what Read shows, character by character.".to_owned(),
    )
}

/// What of white space it is, where that is plain to see.
fn space_detail(text: &str, old: &str, line: usize) -> String {
    let there: Vec<&str> = text.split('\n').skip(line - 1).take(old.split('\n').count() + 1).collect();
    let (has, wants) = (there.join("\n"), old);
    let detail = if has.contains('\t') != wants.contains('\t') {
        if wants.contains('\t') {
            "spaces where old_string has tabs"
        } else {
            "tabs where old_string has spaces"
        }
    } else if has.contains('\r') && !wants.contains('\r') {
        "with CRs"
    } else if wants.ends_with('\n')
        && !text.ends_with('\n')
        && text.split('\n').count() < line + wants.split('\n').count() - 1
    {
        "the file has no line end at its end"
    } else if has.contains('\u{a0}') != wants.contains('\u{a0}') {
        "a no-break space"
    } else {
        return String::new();
    };
    format!(" ({detail})")
}

/// The line, from 1, that an offset is in.
fn line_of(text: &str, at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1
}

/// The place where most lines of `old` stand as they should, and the first one there that does not: its number in the
/// file, and what it should be.
fn by_lines(text: &str, old: &str) -> Option<(usize, String)> {
    let wanted: Vec<&str> = old.split('\n').map(str::trim).collect();
    let mut where_wanted: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate().filter(|(_, line)| line.len() > 1) {
        let places = where_wanted.entry(line).or_default();
        // A line that is there again and again says nothing about the place.
        if places.len() < 4 {
            places.push(index);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in text.split('\n').enumerate() {
        for index in where_wanted.get(line.trim()).into_iter().flatten() {
            if let Some(start) = number.checked_sub(*index) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    let (start, _) = votes.into_iter().max_by_key(|(start, votes)| (*votes, std::cmp::Reverse(*start)))?;
    let mut there = text.split('\n').skip(start);
    let differs = wanted.iter().enumerate().find(|(_, line)| there.next().map(str::trim) != Some(**line));
    let (index, line) = differs?;
    Some((start + index + 1, (*line).to_owned()))
}

/// The line that has most three-letter pieces in common with the longest line of `old`, if it has many.
fn by_pieces(text: &str, old: &str) -> Option<(usize, String)> {
    let longest = old.split('\n').map(str::trim).max_by_key(|line| line.len())?;
    let head = &longest.as_bytes()[..longest.len().min(COMPARED)];
    let wanted: HashSet<[u8; 3]> = head.windows(3).map(|piece| [piece[0], piece[1], piece[2]]).collect();
    if wanted.is_empty() {
        return None;
    }
    let mut best = (0, 0);
    for (number, line) in text.split('\n').enumerate() {
        let line = &line.as_bytes()[..line.len().min(COMPARED)];
        let mut met: HashSet<[u8; 3]> = HashSet::new();
        met.extend(line.windows(3).map(|p| [p[0], p[1], p[2]]).filter(|piece| wanted.contains(piece)));
        if met.len() > best.0 {
            best = (met.len(), number + 1);
        }
    }
    (best.0 * 2 >= wanted.len()).then(|| (best.1, longest.to_owned()))
}

fn differing_line(text: &str, line: usize, wanted: &str) -> (String, String) {
    let is = text.split('\n').nth(line - 1).map(|line| excerpt(line.trim(), QUOTED));
    let wanted = excerpt(wanted, QUOTED);
    let what = match is {
        Some(is) => format!("; what comes nearest differs in line {line}, which is: {is} (not: {wanted})"),
        None => format!("; what comes nearest ends with the file, before: {wanted}"),
    };
    (what, "Read the file again around that line.".to_owned())
}
